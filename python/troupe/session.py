"""What a worker and an evaluator of this process have in common."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Sequence
from typing import Any

import torch

from troupe import frames
from troupe.blocks import Block, Region, Tensors, device_of, read_welcome
from troupe.description import tensors_of
from troupe.errors import Error
from troupe.frames import Frame
from troupe.node import Node

#: The session of this process, while it is open.
_open: Session | None = None


def number_of(name: str, value: Any) -> float:
    """A metric, which may be a tensor of one number."""
    if isinstance(value, torch.Tensor) and value.numel() != 1:
        raise Error(
            f"the metric {name} has the shape {tuple(value.shape)}: give the mean over the "
            f"samples, {name}.mean()"
        )
    try:
        return float(value.detach() if isinstance(value, torch.Tensor) else value)
    except (TypeError, ValueError, RuntimeError):
        raise Error(f"the metric {name} is no number") from None


def _leave_to_parent() -> None:
    """In a forked child: large gradients are in memory that it shares with the
    parent, and are the parent's."""
    if _open is not None and hasattr(_open, "tensors"):
        _open.tensors.give_up_room()


os.register_at_fork(after_in_child=_leave_to_parent)


class Session:
    """A model's part in a run: the program that has the place in the cluster,
    the memory that both have mapped, and the model's tensors in it."""

    def __init__(
        self,
        role: str,
        model: torch.nn.Module,
        views: bool = False,
        replay: str | os.PathLike | None = None,
    ) -> None:
        global _open
        if _open is not None:
            raise Error(f"this process has {_open.name} already; close it first")
        self.name = f"a{'n' if role[0] in 'aeiou' else ''} {role}"
        self.process_id = os.getpid()
        self.closed = False
        self._model = model
        self._mine = tensors_of(model)
        self._on_gpu = device_of(self._mine) is not None
        self._views = views
        if views and any(x.tensor.device.type != "cpu" for x in self._mine):
            raise Error("views=True is for a model on the CPU: a GPU needs a copy of the weights")
        self._regions: dict[int, Region] = {}
        self.node = Node(role, replay)
        _open = self
        atexit.register(self.close)

    def join(
        self, flags: Sequence[str], hello: bytes, other: Callable[[Frame], None]
    ) -> None:
        """Waits until there is a place in the cluster.

        Args:
            hello: The body of the first frame.
            other: Takes frames that are not for the session.
        """
        self.node.start(flags)
        self.node.send(frames.HELLO, frames.VERSION, hello)
        while self.node.end is None:
            frame = self.node.receive()
            if frame.kind == frames.WELCOME:
                self._begin(frame)
                return
            self.take(frame, other)
        raise self.node.why_ended()

    def _begin(self, welcome: Frame) -> None:
        self.run = read_welcome(welcome.body)
        self.tensors = Tensors(self._model, self._mine, self.run, self._views)
        if self.run.frozen:
            block = self._regions[self.run.region].view(0, self.run.frozen, self.run.dtype)
            self.tensors.load_frozen(block)

    def weights(self, region: int, offset: int) -> Block:
        """The block with all weights of a version."""
        return self._block(region, offset, reading=True)

    def load_last(self, version: int, region: int, offset: int) -> None:
        """Takes the version that the run ends with, whole."""
        self.tensors.load(self.weights(region, offset), version)

    def gradient(self, region: int, offset: int) -> Block:
        """The block for a gradient."""
        return self._block(region, offset, reading=False)

    def _block(self, region: int, offset: int, reading: bool) -> Block:
        """The same blocks come again and again."""
        where = self._regions[region]
        if (offset, reading) not in where.blocks:
            view = where.weights if reading else where.view
            where.blocks[offset, reading] = Block(view(offset, self.run.count, self.run.dtype))
        return where.blocks[offset, reading]

    def take(self, frame: Frame, other: Callable[[Frame], None]) -> None:
        number, body = frame.number, frame.body
        if frame.kind == frames.MEMORY:
            region = Region(self.node.files.popleft(), body.number("Q"), self._views)
            if self._on_gpu:
                region.pin()
            self._regions[number] = region
        elif frame.kind == frames.FORGOTTEN:
            self._regions.pop(number).release()
        elif frame.kind == frames.END:
            self.node.end = (body.number("B"), body.text())
        else:
            other(frame)

    def close(self) -> None:
        """Leaves the run."""
        global _open
        if self.closed or os.getpid() != self.process_id:
            return
        self.closed = True
        atexit.unregister(self.close)
        _open = None
        self.node.stop()
        if hasattr(self, "tensors"):
            self.tensors.unbind()
        for region in self._regions.values():
            region.release()
