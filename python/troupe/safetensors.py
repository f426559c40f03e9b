"""The safetensors format, as far as Troupe writes and reads it."""

from __future__ import annotations

import ctypes
import json
import os
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import torch

from troupe import extra_state
from troupe.errors import Error

_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
    torch.uint64: "U64",
    torch.uint32: "U32",
    torch.uint16: "U16",
    torch.complex64: "C64",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.float8_e8m0fnu: "F8_E8M0",
}
_TYPES = {name: dtype for dtype, name in _NAMES.items()}

#: Under this name a header has what is no tensor, so no tensor can have the name.
_METADATA = "__metadata__"


def name_of(dtype: torch.dtype) -> str | None:
    """The format's name of a type; None: it has none."""
    return _NAMES.get(dtype)


def dtype_of(name: str) -> torch.dtype:
    """The type of this name. Raises KeyError."""
    return _TYPES[name]


def flat_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of a tensor in row-major order, on the CPU; they may be its own memory."""
    dense = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    return dense.reshape(-1).view(torch.uint8)


def from_bytes(data: torch.Tensor, dtype: torch.dtype, shape: Sequence[int]) -> torch.Tensor:
    """The tensor that has these bytes, in the same memory."""
    if data.numel() == 0:
        return torch.empty(tuple(shape), dtype=dtype)
    return data.view(dtype).view(tuple(shape))


def write(path: Path, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]) -> None:
    """Writes the tensors in their order. Readers see the old file or the new one."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.draft")
    try:
        with open(draft, "wb") as out:
            write_to(out, tensors, metadata)
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def require_replaceable(path: Path) -> None:
    """Raises Error if something is there that is neither empty nor a file of this
    format, so that a wrong name loses nothing."""
    try:
        with open(path, "rb") as there:
            head = there.read(9)
            size = os.fstat(there.fileno()).st_size
    except FileNotFoundError:
        return
    except OSError as problem:
        raise Error(f"{path}: {problem.strerror}") from None
    length = int.from_bytes(head[:8], "little")
    if head and not (head[8:] == b"{" and 8 + length <= size):
        raise Error(
            f"{path} is there, and is no safetensors file: it is not replaced; "
            "remove it, or give another name"
        )


def write_to(
    out: IO[bytes], tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]
) -> None:
    """Writes the tensors to an open file, in their order."""
    header: dict = {_METADATA: dict(metadata)} if metadata else {}
    offset = 0
    for name, tensor in tensors.items():
        size = tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [offset, offset + size],
        }
        offset += size
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    out.write(struct.pack("<Q", len(head)) + head)
    for tensor in tensors.values():
        flat = flat_bytes(tensor)
        if flat.numel():  # Without numpy, which torch does not need either.
            out.write((ctypes.c_char * flat.numel()).from_address(flat.data_ptr()))


def read(path: Path) -> dict[str, Any]:
    """All tensors of a file, by name. Shared ones come under all of their names, which
    are in the metadata of checkpoints; extra state comes as the module gave it."""
    try:
        data = bytearray(path.read_bytes())
    except OSError as why:
        raise Error(f"{path}: {why.strerror}") from None
    try:
        (size,) = struct.unpack_from("<Q", data)
        header = json.loads(data[8 : 8 + size])
        others = header.pop(_METADATA, {})
        out = {}
        for name, what in header.items():
            first, last = what["data_offsets"]
            dtype = _TYPES[what["dtype"]]
            part = data[8 + size + first : 8 + size + last]
            flat = torch.frombuffer(part, dtype=torch.uint8) if part else torch.empty(0)
            out[name] = from_bytes(flat, dtype, what["shape"])
        for name, first in others.items():
            if first in out and name not in out:
                out[name] = out[first]
        for name in filter(extra_state.is_extra, out):
            out[name] = extra_state.to_state(name, out[name])
        return out
    except (struct.error, ValueError, KeyError, RuntimeError):
        raise Error(f"{path}: is no safetensors file that can be read") from None
