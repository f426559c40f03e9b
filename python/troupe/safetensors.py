"""The safetensors format, as far as Troupe writes and reads it."""

from __future__ import annotations

import ctypes
import json
import os
import struct
from collections.abc import Mapping
from pathlib import Path

import torch

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
}
_TYPES = {name: dtype for dtype, name in _NAMES.items()}


def write(path: Path, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]) -> None:
    """Writes the tensors in their order. Readers see the old file or the new one."""
    header: dict = {"__metadata__": dict(metadata)} if metadata else {}
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
    draft = path.with_name(f"{path.name}.{os.getpid()}.draft")
    with open(draft, "wb") as out:
        out.write(struct.pack("<Q", len(head)) + head)
        for tensor in tensors.values():
            flat = tensor.detach().cpu().contiguous()
            size = flat.numel() * flat.element_size()
            if size:  # Without numpy, which torch does not need either.
                out.write((ctypes.c_char * size).from_address(flat.data_ptr()))
    os.replace(draft, path)


def read(path: Path) -> dict[str, torch.Tensor]:
    """All tensors of a file, by name; shared ones under all of their names,
    which checkpoints have in their metadata."""
    try:
        data = bytearray(path.read_bytes())
    except OSError as why:
        raise Error(f"{path}: {why.strerror}") from None
    try:
        (size,) = struct.unpack_from("<Q", data)
        header = json.loads(data[8 : 8 + size])
        others = header.pop("__metadata__", {})
        out = {}
        for name, what in header.items():
            first, last = what["data_offsets"]
            dtype = _TYPES[what["dtype"]]
            shape = what["shape"]
            if first == last:
                out[name] = torch.empty(shape, dtype=dtype)
                continue
            part = data[8 + size + first : 8 + size + last]
            out[name] = torch.frombuffer(part, dtype=dtype).reshape(shape)
        for name, first in others.items():
            if first in out and name not in out:
                out[name] = out[first]
        return out
    except (struct.error, ValueError, KeyError, RuntimeError):
        raise Error(f"{path}: is no safetensors file that can be read") from None
