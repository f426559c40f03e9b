"""The tensors of a model, and their places in the blocks of memory that the worker and
this process share (docs/formats.md)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from troupe import extra_state, safetensors
from troupe.attached import require_attached
from troupe.constants import Constants, equal
from troupe.description import COUNTER, PARAMETER, Described, plain
from troupe.errors import Error
from troupe.regions import Block
from troupe.same_model import require_same_model
from troupe.welcome import Place, Welcome

#: A gradient of this many bytes or more is copied into its block as soon as backward
#: has it, while it is still in the processor's cache. For a smaller one the call of the
#: hook costs more than the copy.
_EARLY = 1 << 20


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
        self._run = run
        self._views_bound = views
        self._versions: list[int] = []  # How often torch saw each bound one change.
        self._device = device_of(mine)
        self._on_gpu: Block | None = None  # Room for a copy of a block there.
        self._room: Block | None = None  # For the gradients of the next step.
        require_same_model(mine, run)
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
        self._hooks: list[Any] | None = None  # None: nobody has asked for them.

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

    def load(
        self,
        block: Block,
        version: int | None = None,
        elements: range | None = None,
        merge: bool = False,
    ) -> None:
        """Loads the weights of a block, or of some elements of it. The counters of batches
        get the number of the version, if it is given.

        Args:
            merge: The model gets the mean of these weights and its own.
        """
        self._follow()
        some = slice(None) if elements is None else slice(elements.start, elements.stop)
        with torch.no_grad():
            if version is not None and self._counters:
                count = torch.full((), version, dtype=torch.int64, device=self._device)
                torch._foreach_copy_(self._counters, [count] * len(self._counters))
            is_here = self._is_here(block)
            if not is_here:
                there = self._block_on_gpu()
                there.flat[some].copy_(block.flat[some], non_blocking=True)
                block = there
            parts = self._parts(block)
            if merge or (elements is not None and len(elements) < self._run.count):
                which = [i for i, (_, x) in enumerate(self._all) if x.first in elements]
                those = [self._tensors[i] for i in which]
                if merge:
                    torch._foreach_add_(those, [parts[i] for i in which])
                    torch._foreach_mul_(those, 0.5)
                else:
                    self._put([parts[i] for i in which], those)
                return
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
        for hook in self._hooks or ():
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
            if self._hooks is None:
                self._hooks = self._watch_gradients()

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
        """Puts gradients, times a factor, and running statistics into a block."""
        self._look_before_push()
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

    def fill_difference(
        self, start: Block, block: Block, elements: range
    ) -> list[tuple[str, float, float]]:
        """Puts the parameters in `start` less those of the model, and running
        statistics, into these elements of a block. Returns the name of each parameter
        there, and the least and the most number of its difference; both are NaN if one of
        them is."""
        self._look_before_push()
        names, ends = [], []
        some = slice(elements.start, elements.stop)
        with torch.no_grad():
            there = block if self._is_here(block) else self._block_on_gpu()
            if not self._is_here(start):
                copy = self._block_on_gpu()
                copy.flat[some].copy_(start.flat[some], non_blocking=True)
                start = copy
            for (x, place), was, part in zip(
                self._trained, self._parts(start), self._parts(there)
            ):
                if place.first not in elements:
                    continue
                torch.sub(was, x.tensor, out=part)
                if part.numel() > 0:
                    names.append(x.name)
                    ends += part.aminmax()  # While it is in the processor's cache.
            count = len(self._trained)
            self._put(self._tensors[count:], self._parts(there)[count:])
            if there is not block:
                block.flat[some].copy_(there.flat[some], non_blocking=True)
            found = torch.stack(ends).tolist() if ends else []
        self.wait()
        return list(zip(names, found[::2], found[1::2]))

    def _look_before_push(self) -> None:
        """Raises Error if the model is not as the run needs it."""
        self._check_unchanged()
        looked = self._constants.check()
        self._follow()
        if looked:
            self.require_attached()

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
