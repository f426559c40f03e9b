"""A worker whose gradients this process computes."""

from __future__ import annotations

import os
import struct
import threading
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from troupe import frames
from troupe.blocks import Block
from troupe.description import ParamGroups, group_rules
from troupe.errors import Error
from troupe.frames import Body, Frame
from troupe.heap import keep_memory
from troupe.mean import Mean
from troupe.own_steps import watch_own_steps
from troupe.program import dataset, flags
from troupe.seeds import part_seeds
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
    """A lease to be computed now: its weights, and the place of its gradient."""

    lease: int
    version: int  # Of the weights.
    weights: Block
    gradient: Block
    dropped: bool  # The gradient before came too late.


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
            as the loader prefetches, and as one step accumulates. 4, or
            `accumulate`, if that is more.
        accumulate: Batches that a step is to cover: `due` says when it does, and
            each loss is divided by this number.
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
        leases: int | None = None,
        accumulate: int | None = None,
        allow_unused: bool = False,
        param_groups: ParamGroups | None = None,
        views: bool = False,
        replay: str | os.PathLike | None = None,
        **settings: Any,
    ) -> None:
        dataset(dataset_size, dataset_id)  # Refuses what the server would.
        if accumulate is not None and not 1 <= accumulate <= 64:
            raise Error(f"accumulate={accumulate}: a step covers from 1 to 64 batches")
        if leases is None:
            leases = max(4, accumulate or 1)
        if not 1 <= leases <= 64:
            raise Error(f"leases={leases}: a worker has from 1 to 64 batches at a time")
        if accumulate is not None and accumulate > leases:
            raise Error(f"accumulate={accumulate} needs as many leases, and leases={leases}")
        self._mean = Mean(accumulate)
        self._allow_unused = allow_unused
        self._size = dataset_size
        self._thread = threading.get_ident()
        self._rank: int | None = None
        self._leases: deque[Lease] = deque()
        self._withdrawn: set[int] = set()
        self._task: _Task | None = None
        self._next_task: _Task | None = None  # While a round is not answered.
        self._round: list[Lease] = []  # Batches since the last step.
        self._in_vain = False  # The round, or the gradient sent last, was cancelled.
        self._sent = 0  # The lease of the gradient sent last.
        self._in_loader = 0  # Leases that a DataLoader has.
        self._loop: weakref.ref[Generator] | None = None
        self._looped = False  # There was a loop.
        self._left = False  # The loop was left, and there is no other yet.
        #: What the run ends with: version, region, offset.
        self._last: tuple[int, int, int] | None = None
        self._applied = 0  # `_sent`, if that gradient is in these weights.
        if param_groups is not None:
            settings["param_groups"] = group_rules(model, param_groups)
        self._unwatch: Callable[[], None] | None = None
        self._session = Session("worker", model, views, replay)
        keep_memory()
        self._node = self._session.node
        try:
            hello = struct.pack("<QI", dataset_size, leases) + frames.text(dataset_id)
            self._session.join(flags(config, settings), hello, self._take_own)
            self._unwatch = watch_own_steps(self._session.tensors.trained())
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

    @property
    def accumulate(self) -> int | None:
        """Batches that a step is to cover, and by which their losses are divided;
        None: as the loop likes. May be set between two steps."""
        return self._mean.accumulate

    @accumulate.setter
    def accumulate(self, batches: int | None) -> None:
        self._mean.accumulate = batches

    @property
    def rank(self) -> int:
        """Of this worker among those of the run, from 0 on; another one perhaps
        when it comes back after a loss. Waits until it has a place."""
        self._check()
        self._await_place()
        if self._rank is None:
            raise self._node.why_ended()
        return self._rank

    def _await_place(self) -> None:
        while self._rank is None and self._node.end is None:
            self._take_next()

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
            self._take_cancel(number)
        elif frame.kind == frames.LAST:
            self._applied, *place = body.take("QQQ")
            self._last = (number, *place)
        elif frame.kind == frames.PLACE:
            self._rank = number
        else:
            raise Error(f"the worker sent a frame of unknown kind {frame.kind}")

    def _take_weights(self, lease: int, body: Body) -> None:
        """Weights that come before a round is answered wait: it was cancelled."""
        version, dropped, *places = body.take("QBQQQQ")
        weights = self._session.weights(*places[:2])
        gradient = self._session.gradient(*places[2:])
        task = _Task(lease, version, weights, gradient, bool(dropped))
        if self._round:
            self._next_task = task
        else:
            self._use(task)

    def _use(self, task: _Task) -> None:
        self._task = task
        self._session.tensors.load(task.weights, task.version)
        self._session.tensors.make_room(task.gradient)

    def _take_cancel(self, lease: int) -> None:
        """Each lease that was asked for is answered once. One whose batch has not
        come yet is answered here, and then not computed."""
        if self._round and self._round[0].number == lease or self._sent == lease:
            self._in_vain = True
            return
        if self._task is not None and self._task.lease == lease:
            self._answer_without(self._task)
        elif self._next_task is not None and self._next_task.lease == lease:
            self._answer_without(self._next_task)
        else:
            return
        if all(x.number != lease for x in self._round):
            self._withdrawn.add(lease)

    def _answer_without(self, task: _Task) -> None:
        self._node.send(frames.RETURNED, task.lease)
        if task is self._next_task:
            self._next_task = None
        if task is self._task:
            self._task = None
            self._session.tensors.give_up_room()

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
            if self._round and not self._node.waits():
                if not self._in_vain:
                    raise Error(
                        "step() is due: this worker has no other batch until then; give "
                        "more leases to accumulate more, and see worker.due"
                    )
                self._give_up_round()
                continue
            self._take_next()

    def _begin(self, lease: Lease) -> bool:
        """Waits until the model has the weights for a lease; False if it is not
        to be computed any more."""
        if self._round:
            self._pump()
        while self._node.end is None:
            if lease.number in self._withdrawn:
                self._withdrawn.discard(lease.number)
                return False
            if self._round and self._in_vain:
                self._give_up_round()
            elif self._round:  # Further ones are accumulated.
                return self._take_up(lease)
            elif self._task is not None and self._task.lease == lease.number:
                self._in_vain = False
                return self._take_up(lease)
            else:
                self._take_next()
        return False

    def _take_up(self, lease: Lease) -> bool:
        self._mean.add(len(lease.indices), self._session.tensors)
        self._round.append(lease)
        return True

    @property
    def accumulated(self) -> int:
        """Batches that the next `step` covers: those since the last one, but for
        what was given up meanwhile."""
        return len(self._round)

    @property
    def due(self) -> bool:
        """Whether `step` is to come before another batch, in a loop that
        accumulates: the round has `accumulate` batches, or gets no other, or was
        cancelled."""
        self._pump()
        if self._in_vain or self._node.end is not None:
            return True
        if self.accumulate is not None and len(self._round) >= self.accumulate:
            return True
        ahead = any(x.number not in self._withdrawn for x in self._leases)
        return not ahead and self._in_loader == 0

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
            self._leave()
            raise
        self._finish()

    def _only(self, loop: Generator[_T, None, None]) -> Iterator[_T]:
        """Makes this the loop of the worker; one before that is still there is
        left. The worker keeps none, so that one is closed as soon as it is left."""
        self._check()
        before = self._loop() if self._loop is not None else None
        if before is not None:
            before.close()
        self._loop = weakref.ref(loop)
        if self._left:
            self._left = False
            self._node.send(frames.RESUMED, 0)
        if not self._looped:
            self._looped = True
            self._await_place()
            part_seeds(self._rank or 0)
        return loop

    def _leave(self) -> None:
        """The loop was left: gives back all that this worker has, and its place,
        so that nobody waits for it."""
        if self._session.closed or self._node.end is not None or self._left:
            return
        if os.getpid() != self._session.process_id:
            return  # A child's copy of the loop.
        self._session.tensors.keep()  # The run goes on in shared memory.
        self._give_up_round()
        if self._task is not None:
            self._answer_without(self._task)
        self._leases.clear()
        self._left = True
        self._node.send(frames.PAUSED, 0)

    def _finish(self) -> None:
        """The run is over: takes what it has ended with."""
        self._node.raise_failure()
        self._take_last()

    def _take_last(self) -> None:
        """The weights that the run ends with, if they have come."""
        self._session.tensors.clear()
        self._round, self._task, self._next_task = [], None, None
        self._mean.clear()
        if self._last is not None:
            self._session.load_last(*self._last)
            self._last = None
        elif not self._node.failed and self._node.end is not None and self._node.end[1]:
            warnings.warn(
                f"the model has weights from before the run's end: {self._node.end[1]}",
                RuntimeWarning,
                stacklevel=3,
            )
            self._node.end = (self._node.end[0], "")

    def _give_up_round(self) -> None:
        """Gives back the batches since the last step, and goes on with weights
        that have come meanwhile."""
        given, self._round = self._round, []
        self._mean.clear()
        self._in_vain = False
        if not given:
            return
        numbers = {lease.number for lease in given}
        if self._next_task is not None and self._next_task.lease in numbers:
            self._next_task = None
        self._task = None
        self._session.tensors.clear()
        if self._node.end is None:
            for number in sorted(numbers, reverse=True):  # The asked one is the first.
                self._node.send(frames.RETURNED, number)
        self._go_on()

    def _go_on(self) -> None:
        if self._next_task is not None:
            task, self._next_task = self._next_task, None
            self._use(task)

    def loader(self, dataset: Any, **options: Any) -> Loader:
        """Batches of a map-style data set until the run ends; takes the options
        of torch's DataLoader, but those that the run decides."""
        from troupe.loader import Loader

        self._check()
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
        if not self._round or self._task is None:
            if self._node.end is not None:
                raise Error("the run has ended")
            raise Error("step() needs a batch: there is none since the last one")
        value = number_of("loss", loss)
        more = frames.metrics({name: number_of(name, x) for name, x in metrics.items()})
        self._session.tensors.fill(
            self._task.gradient, self._allow_unused, self._mean.factor()
        )
        if self._in_vain or self._node.end is not None:
            self._give_up_round()
            wanted = False
        else:
            self._send_gradient(value, more)
            wanted = True
        while self._task is None and self._node.end is None:
            self._take_next()
        if self._node.end is not None:
            wanted = wanted and self._applied == self._sent and not self._in_vain
            self._take_last()
            return wanted
        wanted = wanted and not self._in_vain
        self._in_vain = False
        return wanted and not self._task.dropped

    def _send_gradient(self, loss: float, metrics: bytes) -> None:
        leases, self._round = self._round, []
        self._mean.clear()
        self._sent, self._task = self._task.lease, None
        also = [lease.number for lease in leases[1:]]
        samples = sum(len(lease.indices) for lease in leases)
        body = struct.pack(f"<QdI{len(also)}Q", samples, loss, len(also), *also)
        self._node.send(frames.GRADIENT, self._sent, body + metrics)

    def skip(self) -> None:
        """Gives back the batches since the last step: another worker, or this
        one, gets them again. Clears the gradients."""
        self._check()
        if not self._round:
            raise Error("skip() needs a batch: there is none since the last one")
        self._give_up_round()

    # -- the end --------------------------------------------------------------

    def close(self) -> None:
        """Leaves the run; what this worker had to compute goes to others."""
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None
        self._session.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *what: object) -> None:
        self.close()
