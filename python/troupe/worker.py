"""A worker whose gradients this process computes."""

from __future__ import annotations

import os
import struct
import threading
from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from troupe import frames
from troupe.blocks import Block
from troupe.description import ParamGroups, group_rules
from troupe.errors import Error
from troupe.frames import Body, Frame
from troupe.heap import keep_memory
from troupe.program import dataset, flags
from troupe.session import Session, number_of

if TYPE_CHECKING:
    from troupe.loader import Loader

_T = TypeVar("_T")


@dataclass(frozen=True)
class Lease:
    """Samples that this worker is to compute: a batch."""

    number: int
    epoch: int
    part: int  #: The rank whose samples these are; 0 if all share.
    indices: tuple[int, ...]


@dataclass(frozen=True)
class _Task:
    """A lease to be computed now, and the place of its gradient."""

    lease: int
    gradient: Block


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
        param_groups: Those that the server was given (`troupe.serve`), to be
            compared; None: whatever it has.
        views: The model's parameters are the run's own weights, in shared
            memory, instead of a copy: they may be read from one batch to the
            `step` or `skip` after it, and never be changed.
        replay: An event log of a run (`tape=True`). This process computes the
            gradients of all its workers again, as the log has them, and a server of
            its own, for which settings may be given (`train_dir`), makes the same
            decisions. Ends with an error where something differs from the log.
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
        param_groups: ParamGroups | None = None,
        views: bool = False,
        replay: str | os.PathLike | None = None,
        **settings: Any,
    ) -> None:
        dataset(dataset_size, dataset_id)  # Refuses what the server would.
        if not 1 <= leases <= 64:
            raise Error(f"leases={leases}: a worker has from 1 to 64 batches at a time")
        self._allow_unused = allow_unused
        self._size = dataset_size
        self._thread = threading.get_ident()
        self._leases: deque[Lease] = deque()
        self._withdrawn: set[int] = set()
        self._cancelled: set[int] = set()
        self._task: _Task | None = None
        self._dropped = False  # The last gradient, as the server says.
        self._yielded: list[Lease] = []  # Since the last step.
        self._in_loader = 0  # Leases that a DataLoader has.
        self._loop: Generator | None = None
        if param_groups is not None:
            settings["param_groups"] = group_rules(model, param_groups)
        self._session = Session("worker", model, views, replay)
        keep_memory()
        self._node = self._session.node
        try:
            hello = struct.pack("<QI", dataset_size, leases) + frames.text(dataset_id)
            self._session.join(flags(config, settings), hello, self._take_own)
        except BaseException:
            self.close()
            raise

    # -- frames ---------------------------------------------------------------

    @property
    def batch_size(self) -> int:
        """Samples of a batch; the last one of an epoch may be smaller."""
        return self._session.run.batch_size

    @property
    def seed(self) -> int:
        """Of the run."""
        return self._session.run.seed

    def _take_own(self, frame: Frame) -> None:
        number, body = frame.number, frame.body
        if frame.kind == frames.LEASE:
            epoch, part, count = body.take("QII")
            self._leases.append(Lease(number, epoch, part, body.take(f"{count}Q")))
        elif frame.kind == frames.WITHDRAWN:
            self._withdrawn.add(number)
        elif frame.kind == frames.WEIGHTS:
            self._take_weights(number, body)
        elif frame.kind == frames.CANCELLED:
            self._cancelled.add(number)
        else:
            raise Error(f"the worker sent a frame of unknown kind {frame.kind}")

    def _take_weights(self, lease: int, body: Body) -> None:
        version, dropped, *places = body.take("QBQQQQ")
        self._dropped = bool(dropped)
        tensors = self._session.tensors
        tensors.load(self._session.weights(*places[:2]), version)
        self._task = _Task(lease, self._session.gradient(*places[2:]))
        tensors.make_room(self._task.gradient)

    def _take_next(self) -> None:
        self._session.take(self._node.receive(), self._take_own)

    def _pump(self) -> None:
        """Takes what has come."""
        while self._node.end is None and self._node.waits():
            self._take_next()

    # -- leases ---------------------------------------------------------------

    def _check(self) -> None:
        if os.getpid() != self._session.process_id:
            raise Error("a worker belongs to the process that made it, and not to its children")
        if threading.get_ident() != self._thread:
            raise Error("a worker belongs to the thread that made it")
        if self._session.closed:
            raise Error("the worker is closed")

    def _next_lease(self, wait: bool) -> Lease | None:
        """The next lease; None when there is none: at once, or after the end."""
        while True:
            while self._leases:
                lease = self._leases.popleft()
                if lease.number not in self._withdrawn:
                    return lease
                self._withdrawn.discard(lease.number)
            if self._node.end is not None and not self._node.failed:
                self._session.tensors.check_constants()
            if self._node.end is not None or (not wait and not self._node.waits()):
                return None
            if self._yielded and not self._node.waits():
                raise Error(
                    "step() is due: this worker has no other batch until then; give "
                    "more leases to accumulate more, and see worker.due"
                )
            self._take_next()

    def _begin(self, lease: Lease) -> bool:
        """Waits until the model has the weights for a lease; False if it is not
        to be computed any more."""
        while self._node.end is None:
            if lease.number in self._withdrawn:
                self._withdrawn.discard(lease.number)
                return False
            asked = self._task is not None and self._task.lease == lease.number
            if asked or self._yielded:  # Further ones are accumulated.
                self._yielded.append(lease)
                return True
            self._take_next()
        return False

    @property
    def due(self) -> bool:
        """Whether there is no other batch until `step`: for a loop that
        accumulates several."""
        self._pump()
        ahead = any(x.number not in self._withdrawn for x in self._leases)
        return not ahead and self._in_loader == 0

    def _return(self, lease: Lease) -> None:
        if not self._session.closed and self._node.end is None:
            self._node.send(frames.RETURNED, lease.number)
            if self._task is not None and self._task.lease == lease.number:
                self._task = None
                self._session.tensors.give_up_room()

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
        self._node.raise_failure()

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

    def step(self, loss: torch.Tensor | float, **metrics: torch.Tensor | float) -> bool:
        """Pushes the gradients of the batches since the last step, and clears
        them. On return the model has new weights.

        Args:
            loss: The mean over their samples, for the records.
            metrics: Further means, by their names.

        Returns:
            False if the gradient was not wanted any more, or came too late.
        """
        self._check()
        leases, task = self._yielded, self._task
        if not leases or task is None:
            if self._node.end is not None:
                raise Error("the run has ended")
            raise Error("step() needs a batch: there is none since the last one")
        value = number_of("loss", loss)
        more = frames.metrics({name: number_of(name, x) for name, x in metrics.items()})
        self._session.tensors.fill(task.gradient, self._allow_unused)
        ended = self._node.end is not None
        self._yielded, self._task = [], None
        also = [lease.number for lease in leases[1:]]
        samples = sum(len(lease.indices) for lease in leases)
        body = struct.pack(f"<QdI{len(also)}Q", samples, value, len(also), *also)
        self._node.send(frames.GRADIENT, task.lease, body + more)
        while self._task is None and self._node.end is None:
            self._take_next()
        wanted = not (ended or self._node.failed or task.lease in self._cancelled)
        self._cancelled.discard(task.lease)
        return wanted and not self._dropped

    def skip(self) -> None:
        """Gives back the batches since the last step: another worker, or this
        one, gets them again. Clears the gradients."""
        self._check()
        if not self._yielded:
            raise Error("skip() needs a batch: there is none since the last one")
        self._return_yielded()
        self._session.tensors.clear()

    # -- the end --------------------------------------------------------------

    def close(self) -> None:
        """Leaves the run; what this worker had to compute goes to others."""
        self._session.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *what: object) -> None:
        self.close()
