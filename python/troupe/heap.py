"""The memory that the C library keeps for this process."""

from __future__ import annotations

import ctypes
import os

# <malloc.h>
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3

_KEPT = 1 << 30  # bytes that may be free at the end of the heap
_LARGEST = 32 << 20  # bytes of a block of the heap, glibc's maximum


def keep_memory() -> None:
    """Lets glibc keep what a step frees for the next one.

    Glibc returns memory that is free at the end of its heap to the system. In a plain
    loop the optimiser's state lies there. A worker has no such state, since the server
    has the optimiser: the end of its heap is free after each step, and the next step
    would fault in every page again. Does nothing with another C library, or if the user
    has set glibc's variables.
    """
    chosen = any(name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in os.environ)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if not chosen and mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGEST)
        mallopt(_M_TRIM_THRESHOLD, _KEPT)
