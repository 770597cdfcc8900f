"""An experiment as TOML: read, checked all at once before any data is read, and written back."""

from flr.config.entry import ConfigEntry
from flr.config.evaluation import Eval
from flr.config.load import load, parse
from flr.config.own_runs import load_run
from flr.config.settings import Config, Data, ScenarioConfig
from flr.config.train import Train

__all__ = [
    "Config",
    "ConfigEntry",
    "Data",
    "Eval",
    "ScenarioConfig",
    "Train",
    "load",
    "load_run",
    "parse",
]
