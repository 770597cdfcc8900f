"""The parts of a run, made from its config: data, scenario, networks, worker spec, server.

Nothing here knows a clean label of a site; simulation/in_process.py, which measures, does.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn

from flr import aggregate
from flr.client.state import StateFiles
from flr.client.worker import BenchmarkWorker, Sites, WorkerSpec
from flr.config import Config
from flr.config.entry import ConfigEntry
from flr.core import bits
from flr.core.arrays import Arrays
from flr.core.contract import MODEL, Benchmark, Method, Server
from flr.core.errors import ConfigError, DataError
from flr.data import interfaces
from flr.data.batches import Batches, shape_after
from flr.data.build import from_arrays, read, subset
from flr.data.dataset import Dataset, SiteTable, TaskSpec
from flr.data.features import Features
from flr.data.on_disk import Numbers, as_numbers
from flr.models import finetune, pretrained
from flr.models.embedding import Embedder
from flr.models.inference import predict_each
from flr.models.networks import load_weights, weights_of
from flr.report.recorder import Views
from flr.scenario import scenario as scenarios
from flr.scenario import validation
from flr.scenario.noises.features import blur
from flr.scenario.scenario import Scenario


def load_data(config: Config, data: Any = None) -> Dataset:
    """The data set of a config, or the one given in Python; features where it names a backbone.

    A data set whose features were computed before, for the same settings, stays as it is.
    """
    if config.data.backbone is None:
        return load_raw_data(config, data)
    if isinstance(data, Dataset) and isinstance(data.train.x, Features):
        return data
    raw = load_raw_data(config, data)
    return make_embedder(config, config.data.backbone).dataset(raw, config.data.views)


def make_embedder(config: Config, backbone: ConfigEntry) -> Embedder:
    """Computes features as the config says, in as many workers as train later."""
    return Embedder(
        backbone, len(config.train.of_workers(config.workers)), config.train.main_device
    )


def load_raw_data(config: Config, data: Any = None) -> Dataset:
    """The data set as its publisher gives it."""
    settings, data = config.data, interfaces.adopted(data)
    if data is None:
        dataset = read(settings)
    elif isinstance(data, Dataset):
        dataset = subset(data, settings.train, settings.test)
    elif isinstance(data, tuple | list) and len(data) in (2, 4):
        dataset = subset(from_arrays(*data), settings.train, settings.test)
    else:
        raise DataError(
            "Expected data as (x, y), (x, y, x_test, y_test) or a Dataset; got "
            f"{type(data).__name__}. For a file, write [data] path = ... in the config instead."
        )
    if settings.backbone is None:
        as_numbers(dataset.train.x)  # refuses texts before they are dealt out
    return dataset


def load_scenario(config: Config, dataset: Dataset) -> Scenario:
    """The scenario of a config: read from a file, or made from partition, noise and attack."""
    if config.scenario.path is not None:
        scenario = scenarios.load(config.scenario.path)
        scenarios.check_fits(scenario, dataset)
        return scenario
    seed = config.seed if config.scenario.seed is None else config.scenario.seed
    return scenarios.build(
        dataset,
        config.partition.build(),
        config.noise.build(),
        seed,
        config.scenario.benchmark,
        config.attack.build(),
    )


def check_fits(config: Config, dataset: Dataset, scenario: Scenario) -> nn.ModuleList:
    """Finds, before anything is written, what only config and data together can get wrong.

    Gives the networks that the first round starts from: they had to be built for it.
    """
    shape = dataset.input_shape
    networks = first_networks(config, dataset.task_spec())
    if config.train.model.is_backbone and isinstance(dataset.train.x, Tensor):
        finetune.refuse_other_inputs(str(dataset.train.x.dtype).removeprefix("torch."))
    if config.data.augment not in ("auto", "none") and len(shape) != 3:
        raise ConfigError(
            f'[data] augment = "{config.data.augment}" needs images (channels x height x width); '
            f'the data set has inputs of shape {shape}. Use augment = "none".'
        )
    check_sizes(config, dataset, networks[0])
    if dataset.normalize.keeps_tokens and isinstance(dataset.train.x, Tensor):
        check_tokens(config, networks[0], dataset.train.x[:2], bool(len(scenario.levels)))
    if len(scenario.levels) and not isinstance(dataset.train.x, Tensor):
        raise ConfigError(
            f"The scenario has noise on inputs, which needs them in memory; those of {dataset.name}"
            " are pictures on disk or features. Use another [noise] kind."
        )
    asked = config.train.asked(len(scenario.sites))
    if config.min_replies > asked:
        raise ConfigError(
            f"min_replies = {config.min_replies} is more than the {asked} clients a round asks "
            f"(participation {config.train.participation} of {len(scenario.sites)} sites). "
            f"Use at most {asked}, or a higher participation."
        )
    if config.eval.validation and not held_out_mask(config, scenario).any():
        raise ConfigError(
            f"[eval] validation = {config.eval.validation} should hold samples of the sites out; "
            f"the largest site has {int(scenario.sizes.max())}, and none of them is. Use a larger "
            "share, or fewer sites."
        )
    return networks


def first_networks(config: Config, task_spec: TaskSpec) -> nn.ModuleList:
    """The networks with the weights that the first round starts from."""
    train, count = config.train, config.build_method().traits.networks
    shape, classes = task_spec.input_shape, len(task_spec.classes)
    factory = finetune.factory_of(train.model, task_spec.normalize, train.trainable)
    try:
        with threads(train.threads):
            return pretrained.first_networks(train, factory, shape, classes, count, config.seed)
    except (RuntimeError, TypeError, ValueError) as error:
        raise ConfigError(
            f"[train] model = {train.model.name!r} should take inputs of shape {shape} and "
            f"{classes} classes; it cannot be built ({error}). Change the model or its options."
        ) from error


def check_sizes(config: Config, dataset: Dataset, network: nn.Module) -> None:
    """A network that sees images of several sizes has to take them all."""
    task_spec = dataset.task_spec(config.data.augment)
    own = task_spec.input_shape
    shapes = {shape_after(task_spec.augment, own), task_spec.test_shape} - {own}
    for shape in sorted(shapes):
        try:
            with torch.no_grad():
                copy.deepcopy(network).eval()(torch.zeros(1, *shape))
        except (RuntimeError, ValueError) as error:
            raise ConfigError(
                f"[train] model = {config.train.model.name!r} should take images of {own} and, "
                f"augmented or in the test set, of {shape}; it does not ({error}). Use a network "
                'that averages over space, such as "cnn".'
            ) from error


def check_tokens(config: Config, network: nn.Module, x: Tensor, noisy: bool) -> None:
    """Numbers of tokens cannot be blended; and not every network takes them."""
    if noisy or config.build_method().traits.changes_inputs:
        who = f'[noise] kind = "{config.noise.name}"' if noisy else f'method "{config.label}"'
        raise ConfigError(
            f"Expected inputs that {who} may blend or add noise to; these are numbers of tokens, "
            "and a number between two tokens is another one. Use another one, or features of "
            "the texts ([data] backbone)."
        )
    try:
        with torch.no_grad():
            copy.deepcopy(network).eval()(x.to(torch.int64))
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        raise ConfigError(
            f"[train] model = {config.train.model.name!r} should take numbers of tokens (whole, "
            f"n x {x.shape[1]}); it does not ({error}). Use a network of your own that begins with "
            "an embedding of all of them."
        ) from error


def make_sites(dataset: Dataset, scenario: Scenario) -> SiteTable:
    """What the sites of a scenario hold: inputs and given labels, no clean one."""
    x = dataset.normalize(dataset.train.x)
    if len(scenario.levels):
        levels = scenario.levels.split(scenario.sizes.tolist())
        x = blur(cast(Tensor, x), scenario.sites, levels, scenario.blur_seed)
    return SiteTable(x, scenario.sites, scenario.given, len(dataset.classes))


def held_out_mask(config: Config, scenario: Scenario) -> Tensor:
    """Which of the scenario's samples no site trains on: a mask, site after site."""
    return validation.held_out(scenario.sizes.tolist(), config.eval.validation, scenario.seed)


def make_worker_spec(
    config: Config,
    task_spec: TaskSpec,
    sites: Sites,
    state: StateFiles,
    views: Mapping[str, Numbers] | None = None,
    held_out: Sites | None = None,
) -> WorkerSpec:
    """What the workers of this run are made from; holds no clean label."""
    bits.require(config.bits)
    train = config.train.model_copy(update={"device": config.train.main_device})
    return WorkerSpec(
        method=config.build_method(),
        sites=sites,
        model=finetune.factory_of(config.train.model, task_spec.normalize, config.train.trainable),
        input_shape=task_spec.input_shape,
        train=train,
        seed=config.seed,
        batches=Batches.of(task_spec),
        state=state,
        views=views or {},
        held_out=held_out,
    )


def make_server(
    config: Config,
    examples: Sequence[int],
    method: Method,
    networks: nn.ModuleList,
    benchmark: Benchmark | None,
) -> Server:
    """A server before the first round; `examples` is how many samples each client has."""
    clients, buffers = len(examples), buffers_of(networks)
    server = Server(
        arrays=weights_of(networks),
        state={},
        rounds=config.rounds,
        clients=clients,
        per_round=config.train.asked(clients),
        seed=config.seed,
        aggregate=aggregate.knowing(config.aggregate.build(), buffers),
        examples=tuple(examples),
        buffers=buffers,
        benchmark=benchmark,
    )
    method.start(server)
    return server


def buffers_of(networks: nn.ModuleList) -> frozenset[str]:
    """The names of what no gradient moves, such as the statistics of BatchNorm."""
    trained = {MODEL + name for name, _ in networks.named_parameters(remove_duplicate=False)}
    return frozenset(weights_of(networks).keys() - trained)


def make_benchmark(clean_x: Tensor, clean_y: Tensor, spec: WorkerSpec) -> BenchmarkWorker | None:
    """The server's clean samples, where the scenario sets some aside."""
    if len(clean_y):
        return BenchmarkWorker(spec, clean_x, clean_y)
    if spec.method.traits.supervised:
        raise ConfigError(
            "The method needs clean samples at the server; the saved scenario has set none "
            "aside. Build it again with [scenario] benchmark = 50, say."
        )
    return None


def views_of(config: Config, networks: nn.ModuleList, test: Numbers) -> Views | None:
    """The test set by each network and by all, where a method trains several."""
    if len(networks) == 1:
        return None
    networks = networks.to(config.train.main_device)

    def views(weights: Arrays) -> dict[str, Tensor]:
        load_weights(networks, weights)
        return predict_each(networks, test)

    return views


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Computes with so many threads; the caller's setting comes back afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
