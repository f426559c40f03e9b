"""Signals that ask this process to stop: its worker leaves in order."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from troupe.node import Node

#: What Kubernetes and systemd, and Slurm, send before they kill.
_SIGNALS = (signal.SIGTERM, signal.SIGUSR1)


def stop_by_signals(node: Node) -> Callable[[], None]:
    """From now on such a signal makes the program of a worker leave in time, instead of
    ending this process: the loop then ends by itself. A signal for which the program of the
    user has a handler is left to that. Returns the function that undoes it."""
    if threading.current_thread() is not threading.main_thread():
        return lambda: None
    owner = os.getpid()

    def stop(number: int, _: FrameType | None) -> Any:
        if os.getpid() == owner:
            return node.stop_in_time(number)
        signal.signal(number, signal.SIG_DFL)  # A child, such as one that loads data.
        return os.kill(os.getpid(), number)

    taken = [one for one in _SIGNALS if signal.getsignal(one) is signal.SIG_DFL]
    for one in taken:
        signal.signal(one, stop)

    def undo() -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        for one in taken:
            if signal.getsignal(one) is stop:
                signal.signal(one, signal.SIG_DFL)

    return undo
