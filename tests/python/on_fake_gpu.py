"""Makes the fake device CUDA of this process. To be imported before torch.

TROUPE_EMPTY_CUDA names what stands for torch's own CUDA library, which brings the fake device
along. FAKE_CUDA_FORGETS and FAKE_CUDA_FAILS_AFTER are for the worker's program alone.
"""

import ctypes
import importlib.util
import os
import sys
from pathlib import Path

assert "torch" not in sys.modules

# Each is found by its name when torch asks for it. The fake device comes last and replaces
# the guard of libc10_cuda.
_LIBRARIES = Path(importlib.util.find_spec("torch").origin).parent / "lib"
for _library in (
    _LIBRARIES / "libtorch_cpu.so",
    _LIBRARIES / "libc10_cuda.so",
    Path(os.environ["TROUPE_EMPTY_CUDA"]),
):
    ctypes.CDLL(str(_library), ctypes.RTLD_GLOBAL)

import torch  # noqa: E402

# It would look for a driver.
torch.cuda._lazy_init = lambda: None


# Children get what os.environ has, and the fake device here what the C library has.
_c = ctypes.CDLL(None)
_c.unsetenv(b"FAKE_CUDA_FORGETS")
_c.unsetenv(b"FAKE_CUDA_FAILS_AFTER")
