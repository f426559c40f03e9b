"""Says why a program fails: to the run, and to a launcher in the manner of TorchElastic."""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any

#: Where such a launcher wants to have the reason.
ERROR_FILE = "TORCHELASTIC_ERROR_FILE"

_tell: Callable[[str], None] | None = None
_before: Callable[..., Any] | None = None


def has_file() -> bool:
    """Whether a launcher wants to have the reason."""
    return bool(os.environ.get(ERROR_FILE))


def text_of(error: BaseException) -> str:
    """The error with its stack, as Python prints it; the last lines of a long one."""
    lines = "".join(traceback.format_exception(error)).rstrip().split("\n")
    return "\n".join(lines[-50:])


def watch(tell: Callable[[str], None] | None = None) -> None:
    """Notices an error that ends this process.

    Args:
        tell: Gets its text; replaces the function of an earlier call.
    """
    global _tell, _before
    _tell = tell or _tell
    if _before is None:
        _before, sys.excepthook = sys.excepthook, _note


def _note(kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
    assert _before is not None
    if issubclass(kind, Exception):
        _write_file(kind, error)
    _before(kind, error, where)  # The program's log has it, whatever becomes of the run.
    if issubclass(kind, Exception) and _tell is not None:
        _tell(text_of(error))


def _write_file(kind: type[BaseException], error: BaseException) -> None:
    path = os.environ.get(ERROR_FILE)
    if not path or (os.path.exists(path) and os.path.getsize(path)):
        return  # Of several failures the first one counts.
    extra = {"py_callstack": text_of(error), "timestamp": str(int(time.time()))}
    said = {"message": f"{kind.__name__}: {error}", "extraInfo": extra}
    try:
        with open(path, "w") as file:
            json.dump({"message": said}, file)
    except OSError:
        pass  # The launcher does without.
