"""Memory that the worker and this process have both mapped (docs/formats.md)."""

from __future__ import annotations

import mmap
import os

import torch

from troupe import gpu


class Block:
    """A flat tensor with a place for each tensor of a run."""

    def __init__(self, flat: torch.Tensor) -> None:
        self.flat = flat
        self.parts: list[torch.Tensor] = []  # Made when they are first asked for.


class Region:
    """Memory that this process and the worker have both mapped.

    Args:
        private: Map it a second time for the weights, so that what this process
            writes into them reaches nobody. For models whose parameters are these
            weights (`views=True`).
    """

    def __init__(self, file: int, size: int, private: bool = False) -> None:
        self.memory = mmap.mmap(file, size)
        self._private = mmap.mmap(file, size, access=mmap.ACCESS_COPY) if private else None
        os.close(file)
        self._pinned: gpu.PinnedMemory | None = None
        #: The blocks that were used, by their offset and whether for reading alone.
        self.blocks: dict[tuple[int, bool], Block] = {}

    def pin(self) -> None:
        """Lets a GPU copy from and to this memory directly. Raises gpu.Refused."""
        where = self.view(0, 1, torch.uint8).data_ptr()
        self._pinned = gpu.PinnedMemory(where, len(self.memory))

    def release(self) -> None:
        if self._pinned is not None:
            self._pinned.release()
            self._pinned = None

    def view(self, offset: int, count: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.frombuffer(self.memory, dtype=dtype, count=count, offset=offset)

    def weights(self, offset: int, count: int, dtype: torch.dtype) -> torch.Tensor:
        """A view for reading alone."""
        memory = self._private or self.memory
        return torch.frombuffer(memory, dtype=dtype, count=count, offset=offset)


class GpuRegion:
    """The same on the GPU of the model.

    Raises:
        gpu.Refused: If this process cannot open it.
    """

    def __init__(self, handle: bytes, size: int, device: torch.device) -> None:
        self._memory = gpu.SharedMemory(handle, size, device)
        self.blocks: dict[tuple[int, bool], Block] = {}

    def view(self, offset: int, count: int, dtype: torch.dtype) -> torch.Tensor:
        return self._memory.tensor(offset, count, dtype)

    weights = view  # Nobody else reads these weights.

    def release(self) -> None:
        self._memory.close()
