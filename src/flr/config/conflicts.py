"""Settings that are valid each for itself and cannot go together."""

from __future__ import annotations

from collections.abc import Iterator

from flr.config import devices
from flr.config.errors import ConfigProblem
from flr.config.settings import Config
from flr.config.toml_lines import Place
from flr.core import registry
from flr.core.combine import parts_of
from flr.core.errors import FlrError

# where it lies (None: a method may look at any key), and what it is
Conflict = tuple[list[Place] | None, ConfigProblem]

_PATH: Place = ("scenario", "path")


def conflicts(config: Config) -> Iterator[Conflict]:
    """All of them, with the places that are to blame."""
    if config.scenario.path is not None:
        yield from _beside_a_saved_scenario(config)
    else:
        yield from _too_few_clients(config)
    for index, entry in enumerate(config.trackers):
        if not devices.only_reads() and not registry.is_installed(entry.build().package):
            text = f'needs a package that is not installed. Run: pip install "flr[{entry.name}]"'
            yield [("trackers",)], ConfigProblem(("trackers", index), text)
    if config.train.trainable != "all" and not config.train.model.is_backbone:
        yield from _nothing_to_freeze(config)
    yield from _of_selection(config)
    yield from _of_the_method(config)


def _of_selection(config: Config) -> Iterator[Conflict]:
    share: Place = ("eval", "validation")
    if config.eval.select == "validation" and not config.eval.validation:
        text = (
            "needs labels that no site trains on, and none are held out. Add validation = 0.1 to "
            "[eval], or remove select."
        )
        yield [("eval", "select"), share], ConfigProblem(("eval", "select"), text)
    if config.eval.patience is not None and config.eval.select != "validation":
        text = (
            'is counted in rounds without a better score, which select = "validation" keeps. Add '
            "that and validation = 0.1 to [eval], or remove patience."
        )
        at: Place = ("eval", "patience")
        yield [at, ("eval", "select"), share], ConfigProblem(at, text)


def _nothing_to_freeze(config: Config) -> Iterator[Conflict]:
    at: Place = ("train", "trainable")
    text = (
        f'is for model = "backbone", which starts from pretrained weights; model = '
        f'"{config.train.model.name}" trains all of its own. Remove it, or use that model.'
    )
    yield [at, ("train", "model")], ConfigProblem(at, text)


def _beside_a_saved_scenario(config: Config) -> Iterator[Conflict]:
    for section in [s for s in ("partition", "noise") if s in config.model_fields_set]:
        text = f"brings its own split and labels; [{section}] is given too. Remove one of them."
        yield [_PATH, (section,)], ConfigProblem(_PATH, text)
    if config.attack.build().relabels:
        text = (
            f'brings its own labels; [attack] kind = "{config.attack.name}" would change them. '
            "Remove one of them: a scenario that was saved under this attack holds it already."
        )
        yield [_PATH, ("attack",)], ConfigProblem(_PATH, text)


def _too_few_clients(config: Config) -> Iterator[Conflict]:
    clients = config.partition.build().sites
    if clients is None:  # known only with the data, as for a saved scenario
        return
    asked = config.train.asked(clients)
    places: list[Place] = [("train", "participation"), ("partition",), _PATH]
    if config.min_replies > asked:
        text = (
            f"is more than the {asked} asked in a round (participation "
            f"{config.train.participation} of {clients} clients). "
            f"Use at most {asked}, or a higher [train] participation."
        )
        yield [("min_replies",), *places], ConfigProblem(("min_replies",), text)
    check = registry.get("aggregator", config.aggregate.name).check
    reason = check(asked, **config.aggregate.options) if check else ""
    if reason:
        yield [("aggregate",), *places], ConfigProblem(("aggregate",), reason)
    share = config.attack.build().clients
    if share > 0 and round(share * clients) == 0:
        text = (
            f"is no client at all of {clients} (round({share} * {clients}) = 0). "
            'Raise it, use more clients, or attack = "none".'
        )
        attack: Place = ("attack", "clients")
        yield [("attack",), ("partition",), _PATH], ConfigProblem(attack, text)


def _of_the_method(config: Config) -> Iterator[Conflict]:
    try:
        method = config.build_method()
    except FlrError as error:
        yield [("method",)], ConfigProblem(("method",), _sentence(str(error)), head="none")
        return
    for part in parts_of(method):
        if part.traits.aggregates and config.aggregate.name != "mean":
            text = (
                f"{type(part).__name__} has an aggregation rule of its own: aggregate = "
                f'"{config.aggregate.name}" would not be used. Remove aggregate.'
            )
            places: list[Place] = [("aggregate",), ("method",)]
            yield places, ConfigProblem(("aggregate",), text, head="none")
    if method.traits.supervised and config.scenario.path is None and not config.scenario.benchmark:
        text = (
            f'is 0, but method "{config.label}" needs clean samples at the server. Set some '
            "aside, for instance benchmark = 50; sites and other methods do without them, too."
        )
        at: Place = ("scenario", "benchmark")
        yield [at, ("method",)], ConfigProblem(at, text, head="key")
    for reason in method.check(config):
        yield None, ConfigProblem(("method",), _sentence(reason), head="none")


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."
