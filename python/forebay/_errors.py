"""Exceptions and warnings of the package."""


class FormatError(ValueError):
    """A file is not what it should be: another kind of file, another version, or damaged.

    The text says what, where, and what can be done. What the operating system refuses is an ``OSError`` as everywhere
    in Python: a file that is not there is a ``FileNotFoundError``.
    """


class IncompleteWarning(UserWarning):
    """Something is missing in what was read: dropped events, damaged parts, or the end. The table says what."""
