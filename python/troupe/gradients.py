"""The gradient of several batches: the mean over all of their samples."""

from __future__ import annotations

from typing import Any

from troupe import frames
from troupe.contribution import Contribution, Exchange
from troupe.errors import Error
from troupe.own_steps import watch_own_steps
from troupe.regions import Block
from troupe.session import Session, number_of


class Gradients(Contribution):
    """Each step of the loop pushes the gradient of the batches since the one before. The
    user's loop divides the mean loss of each batch by the same number, as is usual, and
    adds up the gradients.

    Args:
        accumulate: The number by which the loop divides; None: the most batches that
            a step has covered so far.
        allow_unused: As of the worker.
    """

    def __init__(self, session: Session, accumulate: int | None, allow_unused: bool) -> None:
        super().__init__(accumulate)
        self.allow_unused = allow_unused
        self._session = session
        self._most = 1
        self._samples: list[int] = []  # Samples of each backward().
        self._batches = 0
        self._loss = 0.0
        self._metrics = b""

    def join(self) -> None:
        steps = self._session.run.local_steps
        rounds = self._session.run.rounds()
        if steps > 0 and self._session.is_replay:
            raise Error(
                f"the run has made {rounds} local steps a round, and what its workers' optimisers "
                "had kept is not in the event log: it cannot be computed again"
            )
        if steps > 0:
            raise Error(
                f"the run makes {rounds} local steps with an optimiser of the worker's own: give "
                f"Worker(local_steps={rounds}), and call optimizer.step() in the loop"
            )
        self._session.at_close(watch_own_steps(self._session.tensors.trained()))

    def begin(
        self, weights: Block, version: int, gradient: Block, steps: int, exchange: Exchange
    ) -> None:
        self._session.tensors.load(weights, version)
        self._session.tensors.make_room(gradient)

    def may_go_on(self) -> bool:
        return False

    def add(self, samples: int) -> None:
        """Scales the gradients so far, so that those of the batch's mean loss can be
        added to them. Without a gradient since, it forms one batch with the last."""
        tensors = self._session.tensors
        self._batches += 1
        if self._samples and not tensors.has_gradients():
            self._samples[-1] += samples
            return
        if self._samples and samples != self._samples[-1]:
            tensors.scale(self._samples[-1] / samples)
        self._samples.append(samples)

    def take_step(self, loss: Any, metrics: dict[str, Any]) -> None:
        self._loss = number_of("loss", loss)
        self._metrics = frames.metrics({name: number_of(name, x) for name, x in metrics.items()})

    def is_complete(self) -> bool:
        return True

    def is_due(self) -> bool:
        return self.accumulate is not None and self._batches >= self.accumulate

    def require_step(self) -> None:
        raise Error(
            "step() is due: this worker has no other batch until then; call it when "
            "worker.due is true, or give more leases"
        )

    def skip(self) -> int:
        return 0

    def fill(self, gradient: Block) -> tuple[float, bytes]:
        self._session.tensors.fill(gradient, self.allow_unused, self._factor())
        self.clear()
        return self._loss, self._metrics

    def clear(self) -> None:
        self._session.tensors.clear()
        self._samples = []
        self._batches = 0

    def _factor(self) -> float:
        """The factor that turns these sums into the mean over all samples."""
        self._most = max(self._most, len(self._samples))
        divisor = self.accumulate or self._most
        return divisor * self._samples[-1] / sum(self._samples)
