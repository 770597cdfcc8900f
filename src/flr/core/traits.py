"""What a method says of itself: the arrays that cross the wire or stay, its cost, its needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Declared:
    """An array besides the weights that is sent, received or kept.

    Args:
        name: Its name on the wire; `{net}` in it stands for the number of each network.
        shape: Numbers or words: "classes", "samples" (of the site), "features" (that the head of
            a network takes), "parameters" (numbers that one network trains) and "weights" (all
            numbers of one network; for a whole network under a prefix the name ends with ".*").
        what: What it tells, in words.
        dtype: Its type.
        when: In which messages or states, in words ("after the warm-up"); empty: in all.
        least: No number that is sent is below it (0 for counts); the server refuses others.

    Example:
        >>> import torch
        >>> seen = flr.Declared("my.{net}.seen", ("samples",), "which were visited", torch.bool)
        >>> seen.size({"samples": 72})
        (72,)
    """

    name: str
    shape: tuple[int | str, ...]
    what: str
    dtype: torch.dtype = torch.float32
    when: str = ""
    least: float | None = None

    def size(self, words: Mapping[str, int]) -> tuple[int, ...]:
        """The shape in numbers, given what the words mean at a site."""
        return tuple(words[n] if isinstance(n, str) else n for n in self.shape)


def by_name(declared: Iterable[Declared], networks: int) -> dict[str, Declared]:
    """Declared arrays by their names on the wire, one for each network where they say so."""
    return {d.name.format(net=net): d for d in declared for net in range(networks)}


VALIDATE = "validate"  # a task of every method; nothing is trained in it
COUNTS = "validation.counts"
VALIDATION_SENDS = (
    Declared(
        COUNTS,
        (2,),
        "how many labels of its held-out samples the model repeats, and how many these are",
        torch.int64,
        when="where [eval] validation holds samples out",
        least=0,
    ),
)


@dataclass(frozen=True)
class Traits:
    """What a method is, besides its hooks: what the engine, `describe` and a site want to know.

    Args:
        networks: How many networks are trained side by side.
        sends: What leaves a site besides the weights and the number of its samples.
        receives: What reaches a site besides the weights.
        keeps: What a site keeps between rounds; it never leaves.
        cost: What a batch costs, in words.
        individual: Whether the server looks at single replies, not only at their sums.
        aggregates: Whether the method has an aggregation rule of its own.
        supervised: Whether it needs clean samples at the server.
        changes_inputs: Whether it blends inputs or adds noise to them, which makes no sense of
            numbers of tokens.
        approach: To wrong labels: "loss", "selection", "correction", "aggregation".
        owns: Hooks that no other method of a stack may define, though this one leaves them alone.
        note: What somebody who waits for a run should know.
        revision: Raised by the author when the numbers of a method change: results that were
            kept from an earlier revision are then marked as stale.

    Example:
        >>> kept = flr.Declared("my.losses", ("samples",), "losses of the last round")
        >>> class Mine(flr.Method):
        ...     traits = flr.Traits(keeps=(kept,), cost="one forward pass more in each round")
        >>> [declared.name for declared in Mine().traits.keeps]
        ['my.losses']
    """

    networks: int = 1
    sends: tuple[Declared, ...] = ()
    receives: tuple[Declared, ...] = ()
    keeps: tuple[Declared, ...] = ()
    cost: str = "one forward and one backward pass per batch"
    individual: bool = False
    aggregates: bool = False
    supervised: bool = False
    changes_inputs: bool = False
    approach: tuple[str, ...] = ()
    owns: tuple[str, ...] = ()
    note: str = ""
    revision: int = 1

    def by_verb(self) -> dict[str, tuple[Declared, ...]]:
        """The declared arrays by what a site does with them."""
        return {"send": self.sends, "receive": self.receives, "keep": self.keeps}

    @classmethod
    def joined(cls, several: Sequence[Traits]) -> Traits:
        """Of methods that work together; each part is asked for its own `revision`."""
        return cls(
            networks=max(one.networks for one in several),
            sends=sum((one.sends for one in several), ()),
            receives=sum((one.receives for one in several), ()),
            keeps=sum((one.keeps for one in several), ()),
            cost="; ".join(dict.fromkeys(one.cost for one in several)),
            individual=any(one.individual for one in several),
            aggregates=any(one.aggregates for one in several),
            supervised=any(one.supervised for one in several),
            changes_inputs=any(one.changes_inputs for one in several),
            approach=tuple(dict.fromkeys(sum((one.approach for one in several), ()))),
            owns=sum((one.owns for one in several), ()),
            note=" ".join(one.note for one in several if one.note),
        )
