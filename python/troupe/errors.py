"""The exceptions of this package."""


class Error(Exception):
    """What went wrong, and what to do: one line."""
