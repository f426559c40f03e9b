"""Blocks of memory that the worker and this process share, and the tensors of a
model that lie in them (docs/formats.md)."""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from troupe import extra_state, gpu, safetensors
from troupe.attached import require_attached
from troupe.constants import Constants, equal
from troupe.description import (
    CONSTANT,
    COUNTER,
    PARAMETER,
    STATISTIC,
    Described,
    plain,
)
from troupe.errors import Error
from troupe.frames import Body

_TYPES = {1: torch.float32, 2: torch.float64}

#: A gradient of this many bytes or more is copied into its block as soon as backward
#: has it, while it is still in the processor's cache. For a smaller one the call of the
#: hook costs more than the copy.
_EARLY = 1 << 20


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


@dataclass(frozen=True)
class Place:
    """What the welcome says of a tensor of the run."""

    name: str
    kind: int
    frozen: bool
    same_as: str
    first: int  # The first element in a block; of a constant, the first byte.
    shape: tuple[int, ...]
    dtype: torch.dtype | None = None  # Of a constant; None: the run's.


@dataclass(frozen=True)
class Welcome:
    """What a process is told of the run when it has joined."""

    dtype: torch.dtype
    count: int  # Elements of a block.
    frozen: int  # Elements that are not trained.
    region: int  # The one that holds these.
    batch_size: int
    seed: int
    places: dict[str, Place]


def read_welcome(body: Body) -> Welcome:
    element, count, frozen, region, batch_size, seed = body.take("IQQQQQ")
    places = {}
    for _ in range(body.number("I")):
        name = body.text()
        kind, is_frozen = body.take("BB")
        same_as = body.text()
        first, dims = body.take("QI")
        shape = tuple(body.take(f"{dims}Q"))
        dtype = _dtype_named(name, body.text()) if kind == CONSTANT else None
        places[name] = Place(name, kind, bool(is_frozen), same_as, first, shape, dtype)
    return Welcome(_TYPES[element], count, frozen, region, batch_size, seed, places)


def _dtype_named(tensor: str, dtype: str) -> torch.dtype:
    try:
        return safetensors.dtype_of(dtype)
    except KeyError:
        raise Error(f"{tensor} is {dtype} in the run, which is not known here") from None


def device_of(mine: Sequence[Described]) -> torch.device:
    """The one device that all of a model is on: the CPU or a GPU."""
    first = mine[0]
    for x in mine:
        if x.tensor.device.type not in ("cpu", "cuda"):
            raise Error(
                f"{x.name} is on {x.tensor.device}: a worker computes on the CPU or on a "
                "CUDA device; move the model there"
            )
        if x.tensor.device != first.tensor.device:
            raise Error(
                f"{first.name} is on {first.tensor.device} and {x.name} on {x.tensor.device}: "
                "a worker's model is on one device; to use several, start a worker for each"
            )
    return first.tensor.device


class Tensors:
    """The tensors of a model, and their places in a block.

    Args:
        mine: The tensors of the model, as they were described.
        views: Whether the parameters become the weights in a block instead of
            getting a copy, where the block is on the model's device.

    Raises:
        Error: If the model is not the one of the run.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        mine: Sequence[Described],
        run: Welcome,
        views: bool = False,
    ) -> None:
        self._model = plain(model)
        self._mine = mine
        self._run = run
        self._views_bound = views
        self._versions: list[int] = []  # How often torch saw each bound one change.
        self._device = device_of(mine)
        self._on_gpu: Block | None = None  # Room for a copy of a block there.
        self._room: Block | None = None  # For the gradients of the next step.
        self._compare()
        self._trained: list[tuple[Described, Place]] = []
        statistics: list[tuple[Described, Place]] = []
        self._frozen: list[tuple[Described, Place]] = []
        self._counters: list[torch.Tensor] = []
        for x in mine:
            place = run.places.get(x.name)
            if place is None or place.same_as:
                continue
            if COUNTER in (x.kind, place.kind):
                if x.kind == place.kind and not place.frozen:
                    self._counters.append(x.tensor)
            elif place.frozen:
                self._frozen.append((x, place))
            else:
                (self._trained if place.kind == PARAMETER else statistics).append((x, place))
        self._constants = Constants(())
        self._all = self._trained + statistics
        self._tensors = [x.tensor for x, _ in self._all]
        self._hooks = self._watch_gradients()

    def _compare(self) -> None:
        mine = {x.name: x for x in self._mine}
        self._compare_ties(mine)
        for name, place in self._run.places.items():
            if place.kind == COUNTER:
                continue
            if name not in mine:
                raise Error(f"the run has the tensor {name}, and the model has not")
            self._compare_one(mine[name], place)
        for name, x in mine.items():
            # Runs of earlier releases have no constants.
            if name not in self._run.places and x.kind not in (COUNTER, CONSTANT):
                raise Error(f"the model has the tensor {name}, and the run has not")

    def _compare_ties(self, mine: dict[str, Described]) -> None:
        """What is one tensor on one side must be one on the other."""
        ours: dict[str, tuple[str, str]] = {}  # By the first name in the run.
        theirs: dict[str, tuple[str, str]] = {}  # By that in the model.
        for name, place in self._run.places.items():
            if name not in mine:
                continue
            run, model = place.same_as or name, mine[name].same_as or name
            its, other = ours.setdefault(run, (model, name))
            if its != model:
                raise Error(
                    f"{other} and {name} are one tensor in the run, and two in the model: "
                    "tie them here, too"
                )
            its, other = theirs.setdefault(model, (run, name))
            if its != run:
                raise Error(
                    f"{other} and {name} are one tensor in the model, and two in the run: "
                    "tie them where the run is described, too, or nowhere"
                )

    def _compare_one(self, mine: Described, place: Place) -> None:
        name, its = mine.name, mine.tensor
        if mine.extra_of is not None:
            return  # Extra state may have any size.
        if tuple(its.shape) != place.shape:
            raise Error(f"{name} has the shape {tuple(its.shape)}, and in the run {place.shape}")
        dtype = place.dtype or self._run.dtype
        if its.dtype != dtype:
            raise Error(f"{name} is {its.dtype}, and in the run {dtype}{_advice(its, place)}")
        if place.frozen or place.same_as:
            return
        if place.kind == PARAMETER and not its.requires_grad:
            raise Error(f"{name} is trained in the run, and frozen in the model")
        if place.kind == STATISTIC and mine.trained:
            raise Error(f"{name} is trained in the model, and not in the run")

    def load_frozen(self, block: torch.Tensor) -> None:
        """Loads the tensors that are not trained, and keeps their values to compare."""
        values = [_part(block, place) for _, place in self._frozen]
        with torch.no_grad():
            for (x, _), value in zip(self._frozen, values):
                _deliver(x, value)
        self._constants = Constants(
            (x, value)
            for (x, _), value in zip(self._frozen, values)
            if x.extra_of is None
        )

    def check_constants(self) -> None:
        """Raises Error if something has changed that the run takes for constant."""
        self._constants.compare()

    def require_attached(self) -> None:
        """Raises Error if a tensor of the run is no longer the model's."""
        require_attached(self._model, (x for x, _ in self._all + self._frozen))

    def _follow(self) -> None:
        """Finds tensors that modules have put in the place of running statistics."""
        for i in range(len(self._trained), len(self._all)):
            x = self._all[i][0]
            now = x.held()
            if now is x.tensor:
                continue
            was = x.tensor
            if not isinstance(now, torch.Tensor) or (now.shape, now.dtype, now.device) != (
                was.shape, was.dtype, was.device
            ):
                what = f"{tuple(now.shape)}, {now.dtype} on {now.device}" if isinstance(
                    now, torch.Tensor
                ) else repr(now)
                raise Error(
                    f"{x.name} was replaced by another kind of tensor: {what}; it was "
                    f"{tuple(was.shape)}, {was.dtype} on {was.device}"
                )
            if now.is_inference():  # Such a tensor cannot be written to.
                now = now.clone()
                where, key = x.place
                where[key] = now
            x.tensor = self._tensors[i] = now

    def load(self, block: Block, version: int | None = None) -> None:
        """Loads the weights of a block. The counters of batches get the number of the
        version, if it is given."""
        self._follow()
        with torch.no_grad():
            if version is not None and self._counters:
                count = torch.full((), version, dtype=torch.int64, device=self._device)
                torch._foreach_copy_(self._counters, [count] * len(self._counters))
            is_here = self._is_here(block)
            if not is_here:
                there = self._block_on_gpu()
                there.flat.copy_(block.flat, non_blocking=True)
                block = there
            parts = self._parts(block)
            if self._views_bound and is_here:
                parts = self._bind(parts)
            else:
                self.keep()
            if parts:
                torch._foreach_copy_(self._tensors[-len(parts) :], parts)

    def _is_here(self, block: Block) -> bool:
        """Whether a block is on the model's device."""
        return block.flat.device == self._device

    def wait(self) -> None:
        """Waits until the GPU has done all that uses the shared memory. To be called
        before the program is told that it may use that."""
        if self._device.type != "cpu":
            torch.accelerator.current_stream(self._device).synchronize()

    def _bind(self, parts: list[torch.Tensor]) -> list[torch.Tensor]:
        """Makes the first parts of a block the parameters; returns the other parts."""
        count = len(self._trained)
        for (x, _), part in zip(self._trained, parts):
            x.tensor.data = part
        self._versions = [x.tensor._version for x, _ in self._trained]
        return parts[count:]

    def _check_unchanged(self) -> None:
        for (x, _), version in zip(self._trained, self._versions):
            if x.tensor._version != version:
                raise Error(
                    f"{x.name} was changed in place: with views=True it is the run's, for "
                    "reading alone"
                )

    def unbind(self) -> None:
        """Gives the parameters memory of their own, and forgets gradients that
        were not pushed."""
        for hook in self._hooks:
            hook.remove()
        self.give_up_room()
        self.keep()

    def keep(self) -> None:
        """Gives the parameters memory of their own, with their present values."""
        if self._versions:
            for x, _ in self._trained:
                x.tensor.data = x.tensor.data.clone()
            self._versions = []

    # -- gradients ------------------------------------------------------------

    def trained(self) -> list[torch.Tensor]:
        """The parameters that the server's optimiser changes."""
        return [x.tensor for x, _ in self._trained]

    def _gradients(self) -> list[torch.Tensor]:
        return [x.tensor.grad for x, _ in self._trained if x.tensor.grad is not None]

    def has_gradients(self) -> bool:
        return any(x.tensor.grad is not None for x, _ in self._trained)

    def scale(self, factor: float) -> None:
        """Multiplies the gradients."""
        with torch.no_grad():
            for gradient in self._gradients():
                gradient.mul_(factor)

    def make_room(self, block: Block) -> None:
        """Has large gradients put into this block as backward computes them."""
        if self._is_here(block):
            self._parts(block)
            self._room = block

    def give_up_room(self) -> None:
        """To be called when the block no longer belongs to this process: clears the
        gradients, some of which lie in it."""
        if self._room is not None:
            self.clear()

    def _watch_gradients(self) -> list[Any]:
        """Calls `_take_early` for each large gradient that backward completes."""
        return [
            x.tensor.register_post_accumulate_grad_hook(partial(self._take_early, i))
            for i, (x, _) in enumerate(self._trained)
            if x.tensor.numel() * x.tensor.element_size() >= _EARLY
        ]

    def _take_early(self, i: int, tensor: torch.Tensor) -> None:
        gradient = tensor.grad
        # A gradient that is itself to be differentiated must stay as it is.
        if self._room is None or gradient is None or torch.is_grad_enabled():
            return
        part = self._room.parts[i]
        if gradient is not part and gradient.layout == torch.strided:
            part.copy_(gradient)
            tensor.grad = part  # A further backward adds to it there.

    def fill(self, block: Block, allow_unused: bool, factor: float = 1) -> None:
        """Puts gradients, times a factor, and running statistics into a block,
        and clears the gradients."""
        self._check_unchanged()
        looked = self._constants.check()
        self._follow()
        if looked:
            self.require_attached()
        if factor != 1:
            self.scale(factor)
        sources = [self._gradient(x, allow_unused) for x, _ in self._trained]
        sources += self._tensors[len(sources) :]
        with torch.no_grad():
            there = block if self._is_here(block) else self._block_on_gpu()
            self._put(sources, self._parts(there))
            if there is not block:
                block.flat.copy_(there.flat, non_blocking=True)
        self.wait()
        self.clear()

    @staticmethod
    def _put(sources: list[torch.Tensor], parts: list[torch.Tensor]) -> None:
        """Copies the tensors that are not in their places already."""
        rest = [(part, source) for part, source in zip(parts, sources) if source is not part]
        if rest:
            torch._foreach_copy_([part for part, _ in rest], [source for _, source in rest])

    def clear(self) -> None:
        self._room = None
        for x, _ in self._trained:
            x.tensor.grad = None

    def _gradient(self, x: Described, allow_unused: bool) -> torch.Tensor:
        gradient = x.tensor.grad
        if gradient is not None:
            return gradient if gradient.layout == torch.strided else gradient.to_dense()
        if not allow_unused:
            self.require_attached()
            raise Error(
                f"{x.name} has no gradient: call backward() first; if the loss "
                "does not depend on it, give allow_unused=True"
            )
        return torch.zeros_like(x.tensor)

    def _block_on_gpu(self) -> Block:
        """Room on the GPU for a block that is not there: one large copy is faster than
        many."""
        if self._on_gpu is None:
            self._on_gpu = Block(
                torch.empty(self._run.count, dtype=self._run.dtype, device=self._device)
            )
        return self._on_gpu

    def _parts(self, block: Block) -> list[torch.Tensor]:
        if not block.parts:
            block.parts = [_part(block.flat, place) for _, place in self._all]
        return block.parts


def _advice(its: torch.Tensor, place: Place) -> str:
    """What to do about a tensor of another type than the run's."""
    numbers = place.dtype is None and its.dtype in _TYPES.values()
    if not numbers:
        return ""
    return (
        f'; the setting dtype says what a run keeps: give the server dtype="{_word(its.dtype)}", '
        "or convert the model with "
        + (".double()" if its.dtype == torch.float32 else ".float()")
    )


def _word(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _deliver(to: Described, value: torch.Tensor) -> None:
    """Gives a tensor that is not trained its value in the run."""
    if to.extra_of is not None:
        to.extra_of.set_extra_state(extra_state.to_state(to.name, value.clone()))
    elif not equal(to.tensor, value):
        try:
            to.tensor.copy_(value)
        except RuntimeError as why:
            reason = str(why).split("\n")[0]
            raise Error(
                f"{to.name} has another value in the run, and cannot take it: {reason}"
            ) from None


def _part(block: torch.Tensor, place: Place) -> torch.Tensor:
    """The part of a block that belongs to a tensor, in the tensor's shape."""
    if place.dtype is not None:
        size = place.dtype.itemsize * math.prod(place.shape)
        data = block.view(torch.uint8)[place.first : place.first + size]
        return safetensors.from_bytes(data, place.dtype, place.shape)
    size = 1
    for extent in place.shape:
        size *= extent
    return block[place.first : place.first + size].view(place.shape)
