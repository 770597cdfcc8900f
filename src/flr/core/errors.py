"""What can go wrong, by who can mend it; each kind has its exit code."""

from __future__ import annotations


class FlrError(Exception):
    """A mistake the user can mend. The message has three parts: expected, got, what to do."""

    exit_code = 1


class ConfigError(FlrError):
    """The config asks for something that cannot be done."""

    exit_code = 3


class DataError(FlrError):
    """A data set, model or run file is missing, broken or does not fit."""

    exit_code = 4


class RunError(FlrError):
    """The run had to stop; what was reached is in its checkpoint."""

    exit_code = 5
