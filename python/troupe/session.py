"""What a worker and an evaluator of this process have in common."""

from __future__ import annotations

import atexit
import os
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch

from troupe import failures, frames, gpu, stacks
from troupe.blocks import Tensors, device_of
from troupe.description import tensors_of
from troupe.errors import Error
from troupe.frames import Body, Frame
from troupe.node import Node
from troupe.program import flags
from troupe.regions import Block, GpuRegion, Region
from troupe.stop_signals import stop_by_signals
from troupe.welcome import read_welcome

#: Takes the number and the body of a frame of its kind.
Handler = Callable[[int, Body], None]

_P = TypeVar("_P", bound="Participant")

#: The session of this process, while it is open.
_open: Session | None = None


def require_one_number(name: str, value: torch.Tensor) -> None:
    """Raises Error if a metric is a tensor of several numbers."""
    if value.numel() != 1:
        raise Error(
            f"the metric {name} has the shape {tuple(value.shape)}: give the mean over the "
            f"samples, {name}.mean()"
        )


def number_of(name: str, value: Any) -> float:
    """A metric, which may be a tensor of one number."""
    if isinstance(value, torch.Tensor):
        require_one_number(name, value)
    try:
        return float(value.detach() if isinstance(value, torch.Tensor) else value)
    except (TypeError, ValueError, RuntimeError):
        raise Error(f"the metric {name} is no number") from None


def _tell_of_failure(text: str) -> None:
    if _open is not None:
        _open.fail(text)


def _leave_to_parent() -> None:
    """In a forked child: large gradients are in memory that it shares with the
    parent, and are the parent's."""
    if _open is not None and hasattr(_open, "tensors"):
        _open.tensors.give_up_room()


os.register_at_fork(after_in_child=_leave_to_parent)


class Session:
    """The part of this process in a run: the program that has the place in the cluster,
    the memory that both have mapped, and the model's tensors in it. The session itself
    takes the frames that workers and evaluators both get from the program; for all
    others it is given handlers. To be used by one thread at a time."""

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
        self._role = role
        self.process_id = os.getpid()
        self.closed = False
        self._model = model
        self._mine = tensors_of(model)
        self._device = device_of(self._mine)
        self._on_gpu = self._device.type != "cpu"
        self._views = views
        self._regions: dict[int, Region | GpuRegion] = {}
        #: By the kinds of their frames.
        self._handlers: dict[int, Handler] = {
            frames.MEMORY: self._map_region,
            frames.FORGOTTEN: self._forget_region,
            frames.TRIAL: self._try_gpu,
            frames.GPU_MEMORY: self._open_region,
            frames.LAST: self._note_last,
            frames.STOPPING: self._note_stopping,
            frames.END: self._note_end,
        }
        self._at_close: list[Callable[[], None]] = []
        #: What the run ends with: version, region, offset.
        self._last: tuple[int, int, int] | None = None
        #: The lease of the gradient sent last, if that is in the run's last weights; else 0.
        self.applied = 0
        #: Why this process is about to leave; None: it is not.
        self.stopping: str | None = None
        self.node = Node(role, replay)
        self.at_close(stop_by_signals(self.node))
        self.is_replay = replay is not None
        _open = self
        stacks.offer()
        failures.watch(_tell_of_failure)
        atexit.register(self.close)

    def join(
        self,
        config: str | os.PathLike | None,
        settings: Mapping[str, Any],
        hello: bytes,
        handlers: Mapping[int, Handler],
    ) -> None:
        """Waits until the program has a place in the cluster; closes the session if it
        gets none.

        Args:
            hello: The body of the first frame, up to the GPU.
            handlers: For the frames that the session does not take, by their kinds.
        """
        self._handlers.update(handlers)
        try:
            self.node.start(flags(config, settings))
            self.node.send(frames.HELLO, frames.VERSION, hello + frames.text(self._gpu()))
            self._begin(self._await_welcome())
        except BaseException:
            self.close()
            raise

    def _await_welcome(self) -> Body:
        while self.node.end is None:
            frame = self.node.receive()
            if frame.kind == frames.WELCOME:
                return frame.body
            self._take(frame)
        raise self.node.why_ended()

    def _begin(self, welcome: Body) -> None:
        self.run = read_welcome(welcome)
        self.tensors = Tensors(self._model, self._mine, self.run, self._views)
        if self.run.frozen:
            block = self._regions[self.run.region].view(0, self.run.frozen, self.run.dtype)
            self.tensors.load_frozen(block)

    def weights(self, region: int, offset: int) -> Block:
        """The block with all weights of a version."""
        return self._block(region, offset, reading=True)

    def load_last(self) -> bool:
        """Loads the version that the run ends with, if it has come and was not loaded
        before; returns whether it did."""
        if self._last is None:
            return False
        (version, region, offset), self._last = self._last, None
        self.tensors.load(self.weights(region, offset), version)
        return True

    def gradient(self, region: int, offset: int) -> Block:
        """The block for a gradient."""
        return self._block(region, offset, reading=False)

    def _block(self, region: int, offset: int, reading: bool) -> Block:
        """The block at a place. It is kept, since the same places come again and again."""
        where = self._regions[region]
        if (offset, reading) not in where.blocks:
            view = where.weights if reading else where.view
            where.blocks[offset, reading] = Block(view(offset, self.run.count, self.run.dtype))
        return where.blocks[offset, reading]

    # -- frames ---------------------------------------------------------------

    def take_next(self) -> None:
        """Waits for a frame, and takes it."""
        self._take(self.node.receive())

    def _take(self, frame: Frame) -> None:
        if frame.kind not in self._handlers:
            raise Error(f"the {self._role} sent a frame of unknown kind {frame.kind}")
        self._handlers[frame.kind](frame.number, frame.body)

    def _map_region(self, number: int, body: Body) -> None:
        private = self._views and not self._on_gpu
        region = Region(self.node.files.popleft(), body.number("Q"), private)
        if self._on_gpu:
            try:
                region.pin()
            except gpu.Refused:
                pass  # Copies take longer.
        self._regions[number] = region

    def _gpu(self) -> str:
        """The address of the model's GPU, if its memory may be shared; else empty."""
        if not self._on_gpu:
            return ""
        try:
            return gpu.address_of(self._device)
        except gpu.Refused as why:
            self._warn_of_host(str(why))
            return ""

    def _try_gpu(self, _: int, body: Body) -> None:
        """Memory of the GPU comes for a trial, or else the reason why none will come."""
        why_not = body.text()
        if not why_not:
            try:
                size, handle = body.take("Q64s")
                gpu.SharedMemory(handle, size, self._device).close()
            except gpu.Refused as why:
                why_not = str(why)
            self.node.send(frames.TRIED, 0, frames.text(why_not))
        if why_not:
            self._warn_of_host(why_not)

    def _warn_of_host(self, why: str) -> None:
        warnings.warn(
            f"weights and gradients go through the host's memory: {why}",
            RuntimeWarning,
            stacklevel=2,
        )

    def _open_region(self, number: int, body: Body) -> None:
        size, handle = body.take("Q64s")
        try:
            self._regions[number] = GpuRegion(handle, size, self._device)
        except gpu.Refused as why:
            raise Error(str(why)) from None

    def _forget_region(self, number: int, _: Body) -> None:
        self._regions.pop(number).release()

    def _note_last(self, version: int, body: Body) -> None:
        self.applied, region, offset = body.take("QQQ")
        self._last = version, region, offset

    def _note_stopping(self, _: int, body: Body) -> None:
        self.stopping = body.text()

    def _note_end(self, _: int, body: Body) -> None:
        self.node.end = (body.number("B"), body.text())

    # -- the end --------------------------------------------------------------

    def check_open(self) -> None:
        if self.closed:
            raise Error(f"the {self._role} is closed")

    def at_close(self, call: Callable[[], None]) -> None:
        """Has this called when the session closes."""
        self._at_close.append(call)

    def fail(self, text: str) -> None:
        """Tells the run that this program ends with an error, and waits until the node
        has said so. Does nothing when the run is over, or was not joined."""
        joined = hasattr(self, "run") and not self.is_replay
        if joined and not self.closed and os.getpid() == self.process_id:
            self.node.fail(text)

    def close(self) -> None:
        """Leaves the run."""
        global _open
        if self.closed or os.getpid() != self.process_id:
            return
        self.closed = True
        atexit.unregister(self.close)
        _open = None
        self._handlers.clear()  # They refer to objects that refer to this.
        for call in self._at_close:
            call()
        self.node.stop()
        if hasattr(self, "tensors"):
            self.tensors.unbind()
            self.tensors.wait()
        for region in self._regions.values():
            region.release()


class Participant:
    """A worker or an evaluator, as a program holds it: until it is closed, or until
    the end of a `with`, this process takes part in the run."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def close(self) -> None:
        """Leaves the run; what a worker had to compute goes to others."""
        self._session.close()

    def __enter__(self: _P) -> _P:
        return self

    def __exit__(self, kind: object, error: BaseException | None, where: object) -> None:
        if isinstance(error, Exception):
            self._session.fail(failures.text_of(error))
        self.close()
