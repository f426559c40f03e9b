"""Tensors of a model that share memory, though they are not one tensor.

One tensor under several names is tied, and stays so everywhere. Two tensors in the
same memory are not: checkpoints have both, gradients are computed for each, and they
come apart when weights are loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import torch

from troupe.errors import Error

if TYPE_CHECKING:
    from troupe.description import Described


def _storage_of(tensor: torch.Tensor) -> tuple[torch.device, int] | None:
    """Where the memory of a tensor begins; None: it has none of the usual kind."""
    try:
        if tensor.layout == torch.strided and tensor.numel() > 0:
            begin = tensor.untyped_storage().data_ptr()
            return (tensor.device, begin) if begin else None
    except (RuntimeError, NotImplementedError):
        pass  # A tensor that wraps others has no storage.
    return None


def _range(tensor: torch.Tensor) -> tuple[int, int]:
    """The first byte of a tensor in its storage, and the one after its last."""
    first = tensor.storage_offset()
    last = first + sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride()))
    return first * tensor.element_size(), (last + 1) * tensor.element_size()


def _bytes(of: torch.Tensor, memory: torch.Tensor, begin: int) -> torch.Tensor:
    """The bytes of a tensor in `memory`, which stands for its storage from `begin` on."""
    width = of.element_size()
    return memory.as_strided(
        (*of.shape, width),
        (*(step * width for step in of.stride()), 1),
        of.storage_offset() * width - begin,
    )


def _repeats(tensor: torch.Tensor) -> bool:
    """Whether several elements of a tensor are one number in memory, as by `expand`."""
    if tensor.is_contiguous():
        return False
    begin, end = _range(tensor)
    marks = torch.zeros(end - begin, dtype=torch.bool)
    _bytes(tensor, marks, begin).fill_(True)
    return int(marks.sum()) < tensor.numel() * tensor.element_size()


def _meet(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors of a storage have a byte in common."""
    begin, end = max(_range(a)[0], _range(b)[0]), min(_range(a)[1], _range(b)[1])
    if begin >= end:
        return False
    begin = min(_range(a)[0], _range(b)[0])
    marks = torch.zeros(max(_range(a)[1], _range(b)[1]) - begin, dtype=torch.bool)
    _bytes(a, marks, begin).fill_(True)
    return bool(_bytes(b, marks, begin).any())


def _is_whole(a: torch.Tensor, b: torch.Tensor) -> bool:
    return (a.shape, a.stride(), _range(a)) == (b.shape, b.stride(), _range(b))


def _pairs(all: Sequence[Described]) -> Iterable[tuple[Described, Described]]:
    """Pairs of tensors that share memory, if one of them is trained or the two are kept
    in different ways."""
    storages: dict[tuple[torch.device, int], list[Described]] = {}
    for x in all:
        where = _storage_of(x.tensor)
        if where is not None and not x.same_as:
            storages.setdefault(where, []).append(x)
    for its in storages.values():
        open_ones: list[Described] = []  # Those whose memory has not ended before b's.
        for b in sorted(its, key=lambda x: _range(x.tensor)):
            begin = _range(b.tensor)[0]
            open_ones = [a for a in open_ones if _range(a.tensor)[1] > begin]
            for a in open_ones:
                alike = (a.kind, a.frozen) == (b.kind, b.frozen)
                if (a.trained or not alike) and _meet(a.tensor, b.tensor):
                    yield a, b
            open_ones.append(b)


def refuse_shared(all: Sequence[Described]) -> None:
    """Raises Error for the first tensors that share memory and would come apart."""
    for x in all:
        if not x.frozen and _storage_of(x.tensor) and _repeats(x.tensor):
            raise Error(
                f"{x.name} has elements that are one number in memory (expand): give it "
                "memory of its own, with clone()"
            )
    for a, b in _pairs(all):
        if a.trained and b.trained and _is_whole(a.tensor, b.tensor):
            raise Error(
                f"{a.name} and {b.name} are two parameters in the same memory: tie them as "
                "one parameter under both names (a.weight = b.weight), or clone() one"
            )
        raise Error(
            f"{a.name} and {b.name} share memory, and would come apart in the run: give "
            "one of them memory of its own, with clone()"
        )
