"""CUDA, as far as torch has no neutral form for it: memory of a GPU that the worker's
program takes and this process opens (CUDA IPC), and memory of the host that a GPU copies
to and from. Functions are called by name in the runtime that torch has loaded."""

from __future__ import annotations

import ctypes
import os
from functools import lru_cache
from typing import Any

import torch

class Refused(Exception):
    """CUDA has refused something that a run can do without, and why."""


class _Handle(ctypes.Structure):
    """cudaIpcMemHandle_t, which is passed by value."""

    _fields_ = [("bytes", ctypes.c_ubyte * 64)]


@lru_cache(maxsize=None)
def _runtime() -> ctypes.CDLL:
    try:
        # Only the one that torch has loaded, whatever its file: a second one would take
        # the first one's place in torch.
        out = ctypes.CDLL("libtorch_cuda.so", os.RTLD_NOLOAD | os.RTLD_NOW)
        out.cudaIpcOpenMemHandle.argtypes = [
            ctypes.POINTER(ctypes.c_void_p), _Handle, ctypes.c_uint
        ]
        out.cudaIpcCloseMemHandle.argtypes = [ctypes.c_void_p]
        out.cudaHostRegister.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint]
        out.cudaHostUnregister.argtypes = [ctypes.c_void_p]
        out.cudaDeviceGetPCIBusId.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_int]
        out.cudaGetErrorString.restype = ctypes.c_char_p
        out.cudaGetLastError.argtypes = []
    except (OSError, AttributeError) as why:
        raise Refused(f"torch's CUDA runtime cannot be called by name: {why}") from None
    return out


def _require(status: int, action: str) -> None:
    if status != 0:
        # The next check of torch's would take it for an error of its own.
        _runtime().cudaGetLastError()
        raise Refused(f"{action}: {_runtime().cudaGetErrorString(status).decode()}")


def address_of(device: torch.device) -> str:
    """The PCI address of a GPU, by which any process knows it. Raises Refused."""
    text = ctypes.create_string_buffer(64)
    status = _runtime().cudaDeviceGetPCIBusId(text, len(text), device.index)
    _require(status, f"the PCI address of {device}")
    return text.value.decode()


class SharedMemory:
    """Memory of a GPU that another process has taken, open in this one."""

    def __init__(self, handle: bytes, size: int, device: torch.device) -> None:
        """Raises Refused."""
        self._at = ctypes.c_void_p()
        self._size = size
        self._device = device
        peers_too = 1
        with torch.accelerator.device_index(device.index):
            status = _runtime().cudaIpcOpenMemHandle(
                ctypes.byref(self._at), _Handle.from_buffer_copy(handle), peers_too
            )
        _require(status, "opening memory of the GPU that trainer_node has taken")

    def tensor(self, offset: int, count: int, dtype: torch.dtype) -> torch.Tensor:
        """A flat tensor of this memory, to be used as long as it is open."""
        assert offset + count * dtype.itemsize <= self._size and self._at.value
        return _tensor_at(self._at.value + offset, count, dtype, self._device)

    def close(self) -> None:
        """To be called when the GPU has done all that uses it."""
        with torch.accelerator.device_index(self._device.index):
            status = _runtime().cudaIpcCloseMemHandle(self._at)
        if status != 0:
            _runtime().cudaGetLastError()  # CUDA closes it when this process ends.


class PinnedMemory:
    """Memory of the host that a GPU copies to and from by itself."""

    def __init__(self, at: int, size: int) -> None:
        """Raises Refused."""
        self._at = at
        _require(_runtime().cudaHostRegister(at, size, 0), "pinning memory")

    def release(self) -> None:
        if _runtime().cudaHostUnregister(self._at) != 0:
            _runtime().cudaGetLastError()


# -- a tensor of an address (DLPack) ---------------------------------------------


class _Tensor(ctypes.Structure):
    """DLManagedTensor, of one dimension."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_kind", ctypes.c_int32),
        ("device_index", ctypes.c_int32),
        ("dims", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("first_byte", ctypes.c_uint64),
        ("owner", ctypes.c_void_p),
        ("delete", ctypes.c_void_p),
    ]


_ON_CUDA, _FLOAT = 2, 2

#: What tensors in memory of other processes refer to: torch reads it when it drops them.
_described: list[tuple[_Tensor, Any]] = []


def _tensor_at(at: int, count: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    shape = (ctypes.c_int64 * 1)(count)
    it = _Tensor(
        at, _ON_CUDA, device.index, 1, _FLOAT, 8 * dtype.itemsize, 1, shape, None, 0, None, None
    )
    _described.append((it, shape))
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype = ctypes.py_object
    capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return torch.utils.dlpack.from_dlpack(capsule(ctypes.byref(it), b"dltensor", None))
