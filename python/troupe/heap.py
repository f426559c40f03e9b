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

    It gives what is free at the end of its heap back to the system. In a plain loop
    the optimiser's state lies there; that is the server's here, so that the end of
    the heap is free after each step, and every page would be faulted in again.
    Does nothing with another C library, or if the user has chosen.
    """
    chosen = any(name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in os.environ)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if not chosen and mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGEST)
        mallopt(_M_TRIM_THRESHOLD, _KEPT)
