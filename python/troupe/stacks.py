"""What this process is doing, for those who would else have to give it up."""

from __future__ import annotations

import faulthandler
import os
import signal

#: The same as in actors/user_process/python_stacks.cpp: by the first signal the stacks of
#: all threads go to the standard error, by the second one to a file without a name.
_TO_LOG = signal.SIGRTMIN + 11
_TO_FILE = signal.SIGRTMIN + 12
_NAME = "troupe-stacks"

_file: int | None = None


def offer() -> None:
    """From now on this process writes its stacks when it gets these signals. They are
    written without the interpreter, which may hang."""
    global _file
    if _file is None:
        _file = os.memfd_create(_NAME, os.MFD_CLOEXEC)
        faulthandler.register(_TO_LOG, file=2, all_threads=True)
        faulthandler.register(_TO_FILE, file=_file, all_threads=True)
