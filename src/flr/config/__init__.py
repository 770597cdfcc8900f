"""An experiment as TOML: read, checked all at once before any data is read, and written back."""

from flr.config.choice import Choice
from flr.config.load import load, parse
from flr.config.settings import Config, Data, Eval, ScenarioConfig, Train

__all__ = ["Choice", "Config", "Data", "Eval", "ScenarioConfig", "Train", "load", "parse"]
