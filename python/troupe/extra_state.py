"""The extra state of modules (`get_extra_state`), as bytes of a tensor.

A state dict without it does not fit its model. A state that is no tensor is kept as
torch.save writes it, and read with `weights_only=True`, so that no code in it runs.
"""

from __future__ import annotations

import io
from typing import Any

import torch

from troupe.errors import Error

#: The last part of the name of an extra state, in every state dict of torch.
_NAME = "_extra_state"

#: The bytes of a state that is no tensor begin with this. A tensor is kept as it is.
_MARK = b"troupe: torch.save\n"


def is_extra(name: str) -> bool:
    return name.rpartition(".")[2] == _NAME


def to_tensor(name: str, state: Any) -> torch.Tensor:
    """The state as a tensor.

    Raises:
        Error: If the state could not be read back.
    """
    if isinstance(state, torch.Tensor):
        return state.detach()
    out = io.BytesIO(_MARK)
    out.seek(len(_MARK))
    try:
        torch.save(state, out)
        _load(out.getvalue())
    except Exception:
        raise Error(
            f"{name} is {type(state).__name__}, which a file of weights cannot keep: let "
            "get_extra_state return tensors and plain values, which torch.load reads with "
            "weights_only=True"
        ) from None
    return torch.frombuffer(bytearray(out.getvalue()), dtype=torch.uint8)


def to_state(name: str, tensor: torch.Tensor) -> Any:
    """The state of which `to_tensor` has made the tensor."""
    if tensor.dtype != torch.uint8 or tensor.dim() != 1:
        return tensor
    data = bytes(tensor.tolist())
    if not data.startswith(_MARK):
        return tensor
    try:
        return _load(data)
    except Exception:
        raise Error(f"{name} cannot be read: it is damaged") from None


def _load(data: bytes) -> Any:
    return torch.load(io.BytesIO(data[len(_MARK) :]), weights_only=True)
