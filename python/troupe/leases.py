"""The leases of a worker: which it has, which one is computed, and which go into the
next step."""

from __future__ import annotations

import os
import struct
import threading
import time
import warnings
import weakref
from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from troupe import frames
from troupe.contribution import Contribution, Exchange
from troupe.errors import Error
from troupe.frames import Body
from troupe.regions import Block
from troupe.seeds import part_seeds
from troupe.session import Handler, Session

_T = TypeVar("_T")

#: s between two reports of a round's local steps, at least.
_BETWEEN_REPORTS = 0.1


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
    dropped: bool  # The gradient before this one came too late.
    goes_on: bool  # The model keeps its own weights, and merges these.
    steps: int  # Local ones, of a round that begins on these weights.
    exchange: Exchange


class LeaseBook:
    """Which leases a worker has, and how far each of them is. The worker and its
    loaders share the book: they take leases from it, begin them one after another, and
    tell it when their loop has ended. A *round* is the batches since the last push. To be
    used by the thread that made it.

    Args:
        session: The worker's. It must have joined before the first lease is asked for.
        contribution: What the batches of a round come to.
    """

    def __init__(self, session: Session, contribution: Contribution) -> None:
        self.contribution = contribution
        self.in_loader = 0  # Leases that a DataLoader has.
        self._session = session
        self._node = session.node
        self._thread = threading.get_ident()
        self._rank: int | None = None
        self._leases: deque[Lease] = deque()
        self._withdrawn: set[int] = set()
        self._task: _Task | None = None
        self._next_task: _Task | None = None  # Came before the round was answered.
        self._round: list[Lease] = []  # The batches since the last push.
        self._reported = 0.0  # When the round's local steps were reported last.
        #: The gradient sent last is not answered yet, and the next round may begin.
        self._awaits = False
        #: The model has steps whose leases were given back: it needs all of the weights.
        self._begins_anew = False
        self._in_vain = False  # The round, or the gradient sent last, was cancelled.
        self._sent = 0  # The lease of the gradient sent last.
        self._covered: list[int] = []  # Further leases of that.
        self._loop: weakref.ref[Generator] | None = None
        self._looped = False  # There was a loop.
        self._left = False  # The loop was left, and there is no other yet.

    def check(self) -> None:
        if os.getpid() != self._session.process_id:
            raise Error("a worker belongs to the process that made it, and not to its children")
        if threading.get_ident() != self._thread:
            raise Error("a worker belongs to the thread that made it")
        self._session.check_open()

    # -- frames ---------------------------------------------------------------

    def handlers(self) -> dict[int, Handler]:
        """The handlers of the frames that only workers get, by their kinds."""
        return {
            frames.LEASE: self._add_lease,
            frames.WITHDRAWN: self._withdraw,
            frames.WEIGHTS: self._take_weights,
            frames.CANCELLED: self._take_cancel,
            frames.PLACE: self._take_place,
        }

    def rank(self) -> int:
        """The rank of this worker; waits until it has one."""
        self.check()
        self._await_place()
        if self._rank is None:
            raise self._node.why_ended()
        return self._rank

    def _await_place(self) -> None:
        while self._rank is None and self._node.end is None:
            self._session.take_next()

    def _take_place(self, rank: int, _: Body) -> None:
        self._rank = rank

    def _add_lease(self, number: int, body: Body) -> None:
        epoch, part, count = body.take("QII")
        self._leases.append(Lease(number, epoch, part, body.take(f"{count}Q")))

    def _withdraw(self, lease: int, _: Body) -> None:
        self._withdrawn.add(lease)

    def _take_weights(self, lease: int, body: Body) -> None:
        """If weights come before a round is answered, it was cancelled, or has begun
        before they came: they wait until it is given up, or merges them. Those for a lease that the gradient sent last covers crossed
        that gradient, which is their answer: their memory is used for others already."""
        if lease in self._covered:
            return
        version, dropped, goes_on, *places, steps = body.take("QBBQQQQQ")
        gets, gives = body.take("QQ"), body.take("QQ")
        exchange = Exchange(*(range(first, first + count) for first, count in (gets, gives)))
        weights = self._session.weights(*places[:2])
        gradient = self._session.gradient(*places[2:])
        task = _Task(
            lease, version, weights, gradient, bool(dropped), bool(goes_on), steps, exchange
        )
        if self._round or (self._awaits and goes_on):
            self._next_task = task
        else:
            self._use(task)

    def _use(self, task: _Task) -> None:
        self._awaits = False
        if task.goes_on and self._begins_anew:
            self._withdrawn.add(task.lease)
            self._answer_without(task)
            return
        self._begins_anew = False
        self._task = task
        self.contribution.begin(
            task.weights, task.version, task.gradient, task.steps, task.exchange
        )

    def _take_cancel(self, lease: int, _: Body) -> None:
        """Each lease that was asked for is answered once. If the loop has not begun
        the lease yet, it is answered here, and not computed."""
        if self._round and self._round[0].number == lease or self._sent == lease:
            self._in_vain = True
            self._awaits = self._awaits and bool(self._round)
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
        self._session.tensors.wait()
        self._node.send(frames.RETURNED, task.lease)
        if task is self._next_task:
            self._next_task = None
        if task is self._task:
            self._task = None
            self._session.tensors.give_up_room()

    def _pump(self) -> None:
        """Takes the frames that have come, without waiting."""
        while self._node.end is None and self._node.waits():
            self._session.take_next()

    def look(self) -> None:
        """Takes the frames that have come, unless the session is closed."""
        if not self._session.closed:
            self.check()
            self._pump()

    # -- leases ---------------------------------------------------------------

    def next_lease(self, wait: bool) -> Lease | None:
        """Returns the next lease. If none has come: waits for it, or returns None
        where `wait` is False. After the end of the run it returns None, too."""
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
                if self._in_vain:
                    self.give_up_round()
                elif self._is_early():
                    self._await_weights()
                else:
                    self.contribution.require_step()
                    self.push()
                continue
            if self._awaits and self._next_task is not None and not self._node.waits():
                self._go_on()
                continue
            self._session.take_next()

    def begin(self, lease: Lease) -> bool:
        """Waits until the model has the weights for a lease; returns False if the
        lease is not to be computed any more."""
        if self._round:
            self._pump()
        while self._node.end is None:
            if lease.number in self._withdrawn:
                self._withdrawn.discard(lease.number)
                return False
            if self._round and self._in_vain:
                self.give_up_round()
            elif self._round:  # A further batch of the same round.
                return self._take_up(lease)
            elif self._task is not None and self._task.lease == lease.number:
                self._in_vain = False
                return self._take_up(lease)
            elif self._awaits and self.contribution.may_go_on():
                return self._take_up(lease)
            else:
                self._session.take_next()
        return False

    def _is_early(self) -> bool:
        """Whether the round has begun, and its weights have not come."""
        return bool(self._round) and self._task is None

    def _await_weights(self) -> None:
        """Waits for the weights of a round that has begun before they came, and has them
        merged. If the gradient before was not taken, the round is given up: its steps
        were made on weights that the run does not have."""
        while self._next_task is None and not self._in_vain and self._node.end is None:
            self._session.take_next()
        if self._node.end is not None:
            return
        task = self._next_task
        merges = task is not None and task.goes_on and task.lease == self._round[0].number
        if self._in_vain or not merges:
            self.give_up_round()
        else:
            self._go_on()

    def _take_up(self, lease: Lease) -> bool:
        self.contribution.add(len(lease.indices))
        self._round.append(lease)
        return True

    def accumulated(self) -> int:
        """Batches since the last push, except those that were given up meanwhile."""
        return len(self._round)

    def due(self) -> bool:
        """Whether the next step of the loop ends the round."""
        return self._gets_no_more() or self.contribution.is_due()

    def _gets_no_more(self) -> bool:
        """Whether the round has all the batches that it will get, or is in vain."""
        self._pump()
        if self._in_vain or self._session.stopping is not None or self._node.end is not None:
            return True
        return not self._has_leases()

    def _has_leases(self) -> bool:
        """Whether there is a lease that the loop has not begun."""
        ahead = any(x.number not in self._withdrawn for x in self._leases)
        return ahead or self.in_loader > 0

    # -- loops ----------------------------------------------------------------

    def only(self, loop: Generator[_T, None, None]) -> Iterator[_T]:
        """Makes this the worker's only loop: one before it that has not ended is
        closed. The book refers to a loop weakly, so that Python closes it as soon as
        the program has left it."""
        self.check()
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

    def leave(self) -> None:
        """The loop was left: gives back all that this worker has, and its place,
        so that nobody waits for it."""
        if self._session.closed or self._node.end is not None or self._left:
            return
        if os.getpid() != self._session.process_id:
            return  # A child's copy of the loop.
        self._session.tensors.keep()  # The run goes on using the shared memory.
        self.give_up_round()
        if self._task is not None:
            self._answer_without(self._task)
        self._leases.clear()
        self._left = True
        self._node.send(frames.PAUSED, 0)

    def finish(self) -> None:
        """To be called when the run is over: loads the weights that it ended with."""
        self._node.raise_failure()
        self._take_last()

    def _take_last(self) -> None:
        """Loads the weights that the run ends with, if they have come; else warns."""
        self._round, self._task, self._next_task = [], None, None
        self._awaits = False
        self.contribution.clear()
        if self._session.load_last() or self._node.failed:
            return
        if self._node.end is not None and self._node.end[1]:
            warnings.warn(
                f"the model has weights from before the run's end: {self._node.end[1]}",
                RuntimeWarning,
                stacklevel=4,
            )
            self._node.end = (self._node.end[0], "")

    def give_up_round(self) -> None:
        """Gives back the batches since the last push, and goes on with weights
        that have come meanwhile."""
        self._begins_anew = self._begins_anew or self._is_early()
        self._awaits = False
        given, self._round = self._round, []
        self._in_vain = False
        if not given:
            self._go_on()
            return
        numbers = {lease.number for lease in given}
        if self._next_task is not None and self._next_task.lease in numbers:
            self._next_task = None
        self._task = None
        self.contribution.clear()
        self._session.tensors.wait()
        self._give_back(given)
        self._go_on()

    def _give_back(self, leases: list[Lease]) -> None:
        if self._node.end is None:
            for lease in reversed(leases):  # Last the one that was asked for.
                self._node.send(frames.RETURNED, lease.number)

    def _go_on(self) -> None:
        if self._next_task is not None:
            task, self._next_task = self._next_task, None
            self._use(task)

    # -- gradients ------------------------------------------------------------

    def _require_round(self) -> None:
        """Raises an Error if there is no batch since the last push."""
        if self._round:
            return
        if self._node.end is not None:
            raise Error("step(): the run has ended, and takes no gradient any more")
        raise Error("step() needs a batch, and the loop has taken none since the last step")

    def take_step(self, loss: Any, metrics: dict[str, Any]) -> bool:
        """Takes a step of the loop; returns whether the round is to be pushed now."""
        self._require_round()
        self.contribution.take_step(loss, metrics)
        if self._is_early():
            if self.contribution.may_go_on() and not self._gets_no_more():
                self._report_step()
                return False
            self._await_weights()
            if self._task is None:
                return True
        if self.contribution.is_complete() or self._gets_no_more():
            return True
        self._report_step()
        return False

    def _report_step(self) -> None:
        """Shows the worker that this round goes on, now and then."""
        now = time.monotonic()
        task = self._task or self._next_task
        if task is not None and now - self._reported >= _BETWEEN_REPORTS:
            self._reported = now
            self._node.send(frames.STEPPED, task.lease)

    def push(self) -> bool:
        """Pushes the round and waits for new weights, unless the next round may begin
        before they come; False if it was not wanted any more, or came too late."""
        wanted = self._send_round()
        if wanted and self.contribution.may_go_on() and self._has_leases():
            self._awaits = True
            return True
        while self._task is None and self._node.end is None:
            self._session.take_next()
        if self._node.end is not None:
            wanted = wanted and self._session.applied == self._sent and not self._in_vain
            self._take_last()
            return wanted
        wanted = wanted and not self._in_vain
        self._in_vain = False
        return wanted and not self._task.dropped

    def _send_round(self) -> bool:
        """Sends what the round has come to; returns False if it was given up."""
        if self._task is not None and self._round:
            loss, metrics = self.contribution.fill(self._task.gradient)
            if not self._in_vain and self._node.end is None:
                self._send_gradient(loss, metrics)
                return True
        self.give_up_round()
        return False

    def _send_gradient(self, loss: float, metrics: bytes) -> None:
        leases, self._round = self._round, []
        self._sent, self._task = self._task.lease, None
        also = self._covered = [lease.number for lease in leases[1:]]
        samples = sum(len(lease.indices) for lease in leases)
        body = struct.pack(f"<QdI{len(also)}Q", samples, loss, len(also), *also)
        self._node.send(frames.GRADIENT, self._sent, body + metrics)

    def skip(self) -> None:
        """Gives back the batches since the last step."""
        kept = self.contribution.skip()
        given = self._round[kept:]
        if not given:
            raise Error("skip() needs a batch, and the loop has taken none since the last step")
        if kept == 0:
            self.give_up_round()
        else:
            del self._round[kept:]
            self._give_back(given)
