"""What can go wrong, by who can mend it; each kind has its exit code."""

from __future__ import annotations


class FlrError(Exception):
    """A mistake the user can mend. The message has three parts: expected, got, what to do.

    Example:
        >>> from flr.plugin import FlrError
        >>> try:
        ...     flr.run({"rounds": 0})
        ... except FlrError as error:
        ...     print(type(error).__name__, error.exit_code)
        ConfigError 3
    """

    exit_code = 1


class ConfigError(FlrError):
    """The config asks for something that cannot be done.

    Example:
        >>> from flr.plugin import ConfigError
        >>> ConfigError("Expected two classes; got one. Bring more data.").exit_code
        3
    """

    exit_code = 3


class DataError(FlrError):
    """A data set, model or run file is missing, broken or does not fit.

    Example:
        >>> from flr.plugin import DataError
        >>> DataError("Expected a file; photos/ is a folder. Give the file in it.").exit_code
        4
    """

    exit_code = 4


class RunError(FlrError):
    """The run had to stop; what was reached is in its checkpoint.

    Example:
        >>> from flr.plugin import RunError
        >>> RunError("Expected three replies; one came. Look at the sites, then resume.").exit_code
        5
    """

    exit_code = 5
