"""Each class for the one that it is mistaken for, by named maps or maps of one's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from flr.core.errors import ConfigError
from flr.core.registry import register, unknown
from flr.data.dataset import NoiseMap
from flr.data.sources.cifar import shift_inside
from flr.data.train_test_split import Indices
from flr.scenario.noises.common import Floats, TransitionNoise

# Superclass of each CIFAR-100 class, as in the data set's own files.
# fmt: off
_CIFAR100_COARSE = (
    4, 1, 14, 8, 0, 6, 7, 7, 18, 3, 3, 14, 9, 18, 7, 11, 3, 9, 7, 11,
    6, 11, 5, 10, 7, 6, 13, 15, 3, 15, 0, 11, 1, 10, 12, 14, 16, 9, 11, 5,
    5, 19, 8, 8, 15, 13, 14, 17, 18, 10, 16, 4, 17, 4, 2, 0, 17, 4, 18, 17,
    10, 3, 2, 12, 12, 16, 12, 1, 9, 19, 2, 10, 0, 1, 16, 12, 9, 13, 15, 13,
    16, 19, 2, 4, 6, 19, 5, 5, 8, 19, 18, 1, 2, 15, 6, 0, 17, 8, 14, 13,
)
# fmt: on


NAMED: dict[str, tuple[int, ...]] = {
    # 2 -> 7, 3 -> 8, 5 <-> 6, 7 -> 1
    "digits": (0, 1, 7, 8, 4, 6, 5, 1, 8, 9),
    # truck -> automobile, bird -> airplane, deer -> horse, cat <-> dog
    "cifar10": (0, 1, 0, 5, 7, 3, 6, 7, 8, 1),
    "cifar100": shift_inside(_CIFAR100_COARSE),
    # Blocks of five consecutive classes, which are no superclasses; some authors' code has these.
    "cifar100-block5": shift_inside([label // 5 for label in range(100)]),
}


@register("asymmetric", kind="noise", title="Asymmetric noise")
@dataclass(frozen=True)
class Asymmetric(TransitionNoise):
    """A selected sample gets the label that its class is mistaken for; some classes have none.

    `map` is "auto" (the data set's own), a name (digits, cifar10, cifar100 for the next class of
    the same superclass, cifar100-block5), pairs of class names, or the new number of every class.
    """

    map: str | dict[str, str] | list[int] = "auto"

    def transition(self, classes: tuple[str, ...], noise_map: NoiseMap | None) -> Floats:
        return np.eye(len(classes))[resolve(self.map, classes, noise_map)]


def resolve(
    spec: str | Mapping[str, str] | Sequence[int], classes: tuple[str, ...], own: NoiseMap | None
) -> Indices:
    """The label that each class becomes; `own` is the data set's map, which "auto" stands for."""
    if spec == "auto":
        if own is None:
            raise ConfigError(
                'Expected a data set that has a map of its own for [noise] map = "auto"; this one '
                f"has none. Set map to one of {', '.join(NAMED)}, to pairs of class names, or to "
                f"a list of {len(classes)} class numbers."
            )
        spec = own
    if isinstance(spec, str):
        if spec not in NAMED:
            raise ConfigError(f"[noise] {unknown('map', spec, ['auto', *NAMED])}")
        table = np.array(NAMED[spec])
    elif isinstance(spec, Mapping):
        table = _from_names(spec, classes)
    else:
        table = np.array(spec, dtype=np.int64)
    _check(table, len(classes), spec if isinstance(spec, str) else "given")
    return table


def _from_names(spec: Mapping[str, str], classes: tuple[str, ...]) -> Indices:
    position = {name: i for i, name in enumerate(classes)}
    table = np.arange(len(classes))
    for source, target in spec.items():
        for name in (source, target):
            if name not in position:
                raise ConfigError(f"[noise] map: {unknown('class', name, list(classes))}")
        table[position[source]] = position[target]
    return table


def _check(table: Indices, classes: int, name: str) -> None:
    if len(table) != classes:
        raise ConfigError(
            f"[noise] map ({name}): expected {classes} class numbers, one for each class of the "
            f"data set; got {len(table)}. Use a map that was made for this data set."
        )
    outside = table[(table < 0) | (table >= classes)]
    if len(outside):
        raise ConfigError(
            f"[noise] map ({name}): expected class numbers from 0 to {classes - 1}; "
            f"got {outside[0]}. Correct the list."
        )
    if (table == np.arange(classes)).all():
        raise ConfigError(
            f"[noise] map ({name}): expected a map that changes some class; got one that changes "
            'none. Add pairs, or use noise = "none".'
        )
