"""A worker whose gradients this process computes."""

from __future__ import annotations

import atexit
import math
import mmap
import os
import socket
import struct
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from troupe import frames
from troupe.description import COUNTER, PARAMETER, STATISTIC, tensors_of
from troupe.errors import Error
from troupe.frames import Connection, Frame
from troupe.program import dataset, find, flags

if TYPE_CHECKING:
    from troupe.loader import Loader

#: The worker of this process, while it is open.
_open: Worker | None = None

_T = TypeVar("_T")

_TYPES = {1: torch.float32, 2: torch.float64}

#: Seconds that trainer_node has to open its socket, and to end.
_PATIENCE = 60.0


@dataclass(frozen=True)
class Lease:
    """Samples that this worker is to compute: a batch."""

    number: int
    epoch: int
    part: int  #: The rank whose samples these are; 0 if all share.
    indices: tuple[int, ...]


class _Region:
    """Memory that the worker and this process have mapped."""

    def __init__(self, file: int, size: int) -> None:
        self.memory = mmap.mmap(file, size)
        os.close(file)
        self._pinned_at = 0

    def pin(self) -> None:
        """Lets a GPU copy from and to it directly, if the driver can do that."""
        where = self.view(0, 1, torch.uint8).data_ptr()
        cudart: Any = torch.cuda.cudart()
        if int(cudart.cudaHostRegister(where, len(self.memory), 0)) == 0:
            self._pinned_at = where

    def release(self) -> None:
        if self._pinned_at:
            cudart: Any = torch.cuda.cudart()
            cudart.cudaHostUnregister(self._pinned_at)
            self._pinned_at = 0

    def view(self, offset: int, count: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.frombuffer(self.memory, dtype=dtype, count=count, offset=offset)


class _Task:
    """A lease to be computed now: its weights, and the place of its gradient."""

    def __init__(self, lease: int, version: int, block: torch.Tensor, gradient: torch.Tensor):
        self.lease = lease
        self.version = version
        self.block = block
        self.gradient = gradient


class Worker:
    """Makes this process a worker of a run.

        with troupe.Worker(model, "cluster.ini", dataset_size=len(data)) as worker:
            for x, y in worker.loader(data, num_workers=2):
                loss = loss_fn(model(x), y)
                loss.backward()
                worker.step(loss)

    The model's weights are those of the run from the first batch on. One worker
    a process; to be used by the thread that made it.

    Args:
        model: Its parameters need the names, shapes and types that the
            parameter server knows (`troupe.serve`, `troupe.describe`).
        config: An INI file of settings, docs/configuration.md.
        dataset_size: Samples of an epoch, the same on all workers.
        dataset_id: A word that tells this data set from others.
        leases: Batches that the worker may have at a time, at most 64: as many
            as the loader prefetches, and as one step accumulates.
        allow_unused: Whether a parameter without a gradient has one of zeros;
            else that is an error.
        settings: Any setting of a worker by its flag's name: host="10.0.0.1".

    Raises:
        troupe.Error: If the worker cannot join, or has lost the run.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        config: str | os.PathLike | None = None,
        *,
        dataset_size: int,
        dataset_id: str = "",
        leases: int = 4,
        allow_unused: bool = False,
        **settings: Any,
    ) -> None:
        global _open
        if _open is not None:
            raise Error("this process has a worker already; close it first")
        self._model = model
        self._allow_unused = allow_unused
        self._mine = tensors_of(model)
        devices = {x.tensor.device for x in self._mine}
        #: The one GPU that all of the model is on; None: anything else.
        self._device = None
        if len(devices) == 1 and next(iter(devices)).type == "cuda":
            self._device = devices.pop()
        self._flat: torch.Tensor | None = None  # A block's copy there.
        dataset(dataset_size, dataset_id)  # Refuses what the server would.
        self._size = dataset_size
        self._process_id = os.getpid()
        self._thread = threading.get_ident()
        self._regions: dict[int, _Region] = {}
        self._leases: deque[Lease] = deque()
        self._withdrawn: set[int] = set()
        self._cancelled: set[int] = set()
        self._task: _Task | None = None
        self._dropped = False  # The last gradient, as the server says.
        self._yielded: list[Lease] = []  # Since the last step.
        self._in_loader = 0  # Leases that a DataLoader has.
        self._end: tuple[int, str] | None = None
        self._loop: Generator | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="troupe-")
        self._log = open(Path(self._folder.name) / "log", "w+b")
        self._child: subprocess.Popen | None = None
        self._connection: Connection | None = None
        _open = self
        atexit.register(self.close)
        try:
            self._start(config, dataset_id, leases, settings)
        except BaseException:
            self.close()
            raise

    # -- the other process ----------------------------------------------------

    def _start(
        self, config: Any, dataset_id: str, leases: int, settings: dict[str, Any]
    ) -> None:
        where = os.path.join(self._folder.name, "socket")
        command = [find(), "--role", "worker", "--compute", "external"]
        command += ["--compute-socket", where, *flags(config, settings)]
        self._child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log,
            start_new_session=True,  # Ctrl-C is for this process, which ends it.
        )
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._connection = Connection(line)
        until = time.monotonic() + _PATIENCE
        while line.connect_ex(where) != 0:
            if self._child.poll() is not None:
                raise self._why_ended()
            if time.monotonic() > until:
                raise Error("trainer_node does not open its socket")
            time.sleep(0.005)
        self._connection.send(
            frames.HELLO,
            frames.VERSION,
            struct.pack("<QI", self._size, leases) + frames.text(dataset_id),
        )
        while self._end is None:
            frame = self._receive()
            if frame.kind == frames.WELCOME:
                return self._take_welcome(frame)
            self._take(frame)
        raise self._why_ended()

    def _why_ended(self) -> Error:
        """The line with which the worker has ended."""
        if self._end is not None and self._end[1]:
            return Error(self._end[1])
        status = None
        if self._child is not None:
            try:
                status = self._child.wait(10)
            except subprocess.TimeoutExpired:
                pass
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").split("\n")
        for line in reversed(lines):
            if line.startswith("trainer_node: "):
                return Error(line.removeprefix("trainer_node: "))
        return Error(f"trainer_node has ended, with exit status {status}")

    def _receive(self) -> Frame:
        assert self._connection is not None
        frame = self._connection.receive()
        if frame is None:
            raise self._why_ended()
        return frame

    # -- frames ---------------------------------------------------------------

    def _take_welcome(self, frame: Frame) -> None:
        element, count, frozen, region, batch, seed = frame.body.take("IQQQQQ")
        self._dtype = _TYPES[element]
        self._count = count
        self.batch_size = batch
        self.seed = seed
        theirs = {}
        for _ in range(frame.body.number("I")):
            name = frame.body.text()
            kind, is_frozen = frame.body.take("BB")
            same_as = frame.body.text()
            offset, dims = frame.body.take("QI")
            shape = frame.body.take(f"{dims}Q")
            theirs[name] = (kind, bool(is_frozen), same_as, offset, tuple(shape))
        self._places(theirs)
        if frozen:
            self._load_frozen(theirs, self._regions[region].view(0, frozen, self._dtype))

    def _places(self, theirs: dict[str, tuple]) -> None:
        """Finds the place of each tensor of the model in a block."""
        mine = {x.name: x for x in self._mine}
        for name, (kind, _, _, _, shape) in theirs.items():
            if name not in mine:
                raise Error(f"the run has the tensor {name}, and the model has not")
            its = mine[name].tensor
            if tuple(its.shape) != shape and kind != COUNTER:
                raise Error(
                    f"{name} has the shape {tuple(its.shape)}, and in the run {shape}"
                )
            if kind != COUNTER and its.dtype != self._dtype:
                raise Error(f"{name} is {its.dtype}, and in the run {self._dtype}")
        self._trained: list[tuple[str, torch.Tensor, int]] = []
        self._statistics: list[tuple[str, torch.Tensor, int]] = []
        for x in self._mine:
            if x.kind == COUNTER:
                continue
            if x.name not in theirs:
                raise Error(f"the model has the tensor {x.name}, and the run has not")
            kind, is_frozen, same_as, offset, _ = theirs[x.name]
            if is_frozen or same_as or x.same_as:
                continue
            where = self._trained if kind == PARAMETER else self._statistics
            if kind == PARAMETER and not x.tensor.requires_grad:
                raise Error(f"{x.name} is trained in the run, and frozen in the model")
            if (kind == STATISTIC) != (x.kind == STATISTIC):
                raise Error(f"{x.name} is a running statistic on one side alone")
            where.append((x.name, x.tensor, offset))

    def _load_frozen(self, theirs: dict[str, tuple], block: torch.Tensor) -> None:
        with torch.no_grad():
            for x in self._mine:
                kind, is_frozen, same_as, offset, _ = theirs.get(x.name, (2, False, "", 0, ()))
                if is_frozen and not same_as and kind != COUNTER:
                    size = x.tensor.numel()
                    x.tensor.copy_(block[offset : offset + size].view(x.tensor.shape))

    def _take(self, frame: Frame) -> None:
        if frame.kind == frames.MEMORY:
            size = frame.body.number("Q")
            region = _Region(frame.files[0], size)
            if self._device is not None:
                region.pin()
            self._regions[frame.number] = region
        elif frame.kind == frames.LEASE:
            epoch, part, count = frame.body.take("QII")
            indices = frame.body.take(f"{count}Q")
            self._leases.append(Lease(frame.number, epoch, part, indices))
        elif frame.kind == frames.WITHDRAWN:
            self._withdrawn.add(frame.number)
        elif frame.kind == frames.WEIGHTS:
            version, dropped, region, first, of_gradient, begin = frame.body.take("QBQQQQ")
            self._dropped = bool(dropped)
            self._take_weights(
                _Task(
                    frame.number,
                    version,
                    self._regions[region].view(first, self._count, self._dtype),
                    self._regions[of_gradient].view(begin, self._count, self._dtype),
                )
            )
        elif frame.kind == frames.FORGOTTEN:
            self._regions.pop(frame.number).release()
        elif frame.kind == frames.CANCELLED:
            self._cancelled.add(frame.number)
        elif frame.kind == frames.END:
            status = frame.body.number("B")
            self._end = (status, frame.body.text())
        else:
            raise Error(f"the worker sent a frame of unknown kind {frame.kind}")

    def _take_weights(self, task: _Task) -> None:
        self._task = task
        tensors = [tensor for _, tensor, _ in self._trained + self._statistics]
        with torch.no_grad():
            torch._foreach_copy_(tensors, self._views(self._to_device(task.block)))

    def _on_device(self) -> torch.Tensor:
        """Room for a block on the GPU: one large copy is faster than many."""
        if self._flat is None:
            self._flat = torch.empty(self._count, dtype=self._dtype, device=self._device)
        return self._flat

    def _to_device(self, block: torch.Tensor) -> torch.Tensor:
        if self._device is None:
            return block
        return self._on_device().copy_(block, non_blocking=True)

    def _views(self, block: torch.Tensor) -> list[torch.Tensor]:
        """The parts of a block, in the shapes of the model's tensors."""
        return [
            block[first : first + tensor.numel()].view(tensor.shape)
            for _, tensor, first in self._trained + self._statistics
        ]

    # -- leases ---------------------------------------------------------------

    def _check(self) -> None:
        if os.getpid() != self._process_id:
            raise Error("a worker belongs to the process that made it, and not to its children")
        if threading.get_ident() != self._thread:
            raise Error("a worker belongs to the thread that made it")
        if self._connection is None:
            raise Error("the worker is closed")

    def _next_lease(self, wait: bool) -> Lease | None:
        """The next lease; None when there is none: at once, or after the end."""
        assert self._connection is not None
        while True:
            while self._leases:
                lease = self._leases.popleft()
                if lease.number not in self._withdrawn:
                    return lease
                self._withdrawn.discard(lease.number)
            if self._end is not None or (not wait and not self._connection.waits()):
                return None
            if self._yielded and not self._connection.waits():
                raise Error(
                    "step() is due: this worker has no other batch until then; give "
                    "more leases to accumulate more, and see worker.due"
                )
            self._take(self._receive())

    def _begin(self, lease: Lease) -> bool:
        """Waits until the model has the weights for a lease; False if it is not
        to be computed any more."""
        while self._end is None:
            if lease.number in self._withdrawn:
                self._withdrawn.discard(lease.number)
                return False
            asked = self._task is not None and self._task.lease == lease.number
            if asked or self._yielded:  # Else it is accumulated.
                self._yielded.append(lease)
                return True
            self._take(self._receive())
        return False

    @property
    def due(self) -> bool:
        """Whether there is no other batch until `step`: for a loop that
        accumulates several."""
        self._pump()
        ahead = any(x.number not in self._withdrawn for x in self._leases)
        return not ahead and self._in_loader == 0

    def _pump(self) -> None:
        """Takes what has come."""
        assert self._connection is not None
        while self._end is None and self._connection.waits():
            self._take(self._receive())

    def _return(self, lease: Lease) -> None:
        if self._connection is not None and self._end is None:
            self._connection.send(frames.RETURNED, lease.number)
            if self._task is not None and self._task.lease == lease.number:
                self._task = None

    def __iter__(self) -> Iterator[Lease]:
        """The leases one after another, until the run ends: for who loads batches
        without a DataLoader. After each comes `step` or `skip`."""
        return self._only(self._each_lease())

    def _each_lease(self) -> Generator[Lease, None, None]:
        try:
            while (lease := self._next_lease(wait=True)) is not None:
                if self._begin(lease):
                    yield lease
        except BaseException:
            self._return_yielded()
            raise
        self._raise_failure()

    def _only(self, loop: Generator[_T, None, None]) -> Iterator[_T]:
        """Makes this the loop of the worker; one that was left before, and is
        still there, gives its batches back."""
        self._check()
        if self._loop is not None:
            self._loop.close()
        self._loop = loop
        return loop

    def _return_yielded(self) -> None:
        """Gives back what came since the last step: the loop was left."""
        returned, self._yielded = self._yielded, []
        for lease in reversed(returned):  # The one that is asked for is the last.
            self._return(lease)

    def _raise_failure(self) -> None:
        """At the end of the loop: unless all went well."""
        if self._end is not None and self._end[0] in (1, 2):
            raise self._why_ended()

    def loader(self, dataset: Any, **options: Any) -> Loader:
        """Batches of a map-style data set until the run ends; takes the options
        of torch's DataLoader, but those that the run decides."""
        from troupe.loader import Loader

        self._check()
        if len(dataset) != self._size:
            raise Error(
                f"the data set has {len(dataset)} samples, and dataset_size is {self._size}"
            )
        return Loader(self, dataset, options)

    # -- gradients ------------------------------------------------------------

    def step(self, loss: torch.Tensor | float) -> bool:
        """Pushes the gradients of the batches since the last step, and clears
        them. On return the model has new weights.

        Args:
            loss: The mean over their samples, for the records.

        Returns:
            False if the gradient was not wanted any more, or came too late.
        """
        self._check()
        leases, task = self._yielded, self._task
        if not leases or task is None:
            if self._end is not None:
                raise Error("the run has ended")
            raise Error("step() needs a batch: there is none since the last one")
        assert self._connection is not None
        value = float(loss.detach() if isinstance(loss, torch.Tensor) else loss)
        self._fill(task.gradient)
        self._pump()
        wanted = task.lease not in self._cancelled and self._end is None
        self._cancelled.discard(task.lease)
        if not wanted:
            self._return_yielded()
        self._yielded, self._task = [], None
        if wanted:
            also = [lease.number for lease in leases[1:]]
            samples = sum(len(lease.indices) for lease in leases)
            body = struct.pack(f"<QdI{len(also)}Q", samples, value, len(also), *also)
            self._connection.send(frames.GRADIENT, task.lease, body)
        while self._task is None and self._end is None:
            self._take(self._receive())
        return wanted and not self._dropped

    def skip(self) -> None:
        """Gives back the batches since the last step: another worker, or this
        one, gets them again. Clears the gradients."""
        self._check()
        if not self._yielded:
            raise Error("skip() needs a batch: there is none since the last one")
        self._return_yielded()
        self._clear()

    def _fill(self, block: torch.Tensor) -> None:
        """Copies gradients and running statistics to their places."""
        sources = []
        for name, parameter, _ in self._trained:
            if parameter.grad is None:
                if not self._allow_unused:
                    raise Error(
                        f"{name} has no gradient: call backward() first; if the loss "
                        "does not depend on it, give allow_unused=True"
                    )
                sources.append(torch.zeros_like(parameter))
            else:
                sources.append(parameter.grad)
        sources += [tensor for _, tensor, _ in self._statistics]
        with torch.no_grad():
            if self._device is None:
                torch._foreach_copy_(self._views(block), sources)
            else:
                flat = self._on_device()
                torch._foreach_copy_(self._views(flat), sources)
                block.copy_(flat, non_blocking=True)
                torch.cuda.current_stream(self._device).synchronize()
        self._clear()

    def _clear(self) -> None:
        for _, parameter, _ in self._trained:
            parameter.grad = None

    # -- the end --------------------------------------------------------------

    def close(self) -> None:
        """Leaves the run; what this worker had to compute goes to others."""
        global _open
        if os.getpid() != self._process_id:
            return
        atexit.unregister(self.close)
        if _open is self:
            _open = None
        child, self._child = self._child, None
        if child is not None:
            if self._end is None and child.poll() is None:
                child.terminate()
            if self._connection is not None:
                self._connection.close()
            try:
                child.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        self._connection = None
        for region in self._regions.values():
            region.release()
        self._log.close()
        self._folder.cleanup()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *what: object) -> None:
        self.close()
