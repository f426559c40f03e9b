"""Steps that a worker makes itself, with an optimiser of its own."""

from __future__ import annotations

import math
import re
import warnings
from typing import Any

import torch

from troupe import frames
from troupe.contribution import Contribution, Exchange
from troupe.errors import Error
from troupe.regions import Block
from troupe.session import Session, number_of, require_one_number


#: Steps of the quickest worker under "auto", as the program has it.
_MOST_BY_RATE = 32


def most_steps(local_steps: int | str) -> int:
    """The most local steps of a round, as of `Worker`. Raises Error if it is neither a
    number nor "auto"."""
    if isinstance(local_steps, str):
        found = re.fullmatch(r"auto(\(max=(\d+)\))?", local_steps)
        if found is None:
            raise Error(f'local_steps={local_steps!r}: give a number, "auto" or "auto(max=N)"')
        most = int(found[2] or _MOST_BY_RATE)
    else:
        most = local_steps
    if not 1 <= most <= 1000:
        raise Error(f"local_steps={local_steps}: a round has from 1 to 1000 local steps")
    return most


class LocalSteps(Contribution):
    """The user's loop trains the model with an optimiser of its own. After a number of
    these local steps the worker pushes by how much they have changed the weights, as if
    that were a gradient: the weights before them less those after. Between two pushes
    parameters, gradients and optimiser are the loop's alone.

    Args:
        steps: Local steps of a round, as of the worker.
        accumulate: As of the worker.
    """

    def __init__(self, session: Session, steps: int | str, accumulate: int | None) -> None:
        super().__init__(accumulate)
        self._session = session
        self._given = steps
        self._most = most_steps(steps)  # Of this round.
        # With the weights before the first step; of each fragment those that came last.
        self._start: Block | None = None
        self._gives = range(0)
        self._has_warned = False
        self.clear()

    def join(self) -> None:
        run = self._session.run
        if run.local_steps != self._most or run.by_rate != isinstance(self._given, str):
            raise Error(
                f"the run makes {run.rounds() if run.local_steps else 'no'} local steps, and this "
                f"worker {self._given!r}: give serve(local_steps={self._given!r})"
            )

    def begin(
        self, weights: Block, version: int, gradient: Block, steps: int, exchange: Exchange
    ) -> None:
        tensors, every = self._session.tensors, self._session.run.count
        gets, self._gives = exchange.gets, exchange.gives
        tensors.load(weights, version, gets, merge=self._steps > 0)
        self._most = steps
        if len(self._gives) == every:
            self._start = weights
        elif len(gets) == every:
            self._start = Block(weights.flat.clone())  # It is kept from round to round.
        else:
            self._start.flat[gets.start : gets.stop] = weights.flat[gets.start : gets.stop]

    def may_go_on(self) -> bool:
        return self._steps < self._session.run.overlap_steps

    def add(self, samples: int) -> None:
        self._new.append(samples)

    def take_step(self, loss: Any, metrics: dict[str, Any]) -> None:
        if not self._new:
            raise Error("step() needs a batch, and the loop has taken none since the last step")
        values = {name: _quantity(name, x) for name, x in metrics.items()}
        self._loss.add(_quantity("loss", loss), sum(self._new))
        for name, value in values.items():
            self._metrics.setdefault(name, _Mean()).add(value, sum(self._new))
        self._steps += 1
        self._stepped += len(self._new)
        self._new = []

    def is_complete(self) -> bool:
        return self._steps >= self._most

    def is_due(self) -> bool:
        has_all = self.accumulate is None or len(self._new) >= self.accumulate
        return self._steps + 1 >= self._most and has_all

    def require_step(self) -> None:
        pass

    def skip(self) -> int:
        self._new = []
        return self._stepped

    def fill(self, gradient: Block) -> tuple[float, bytes]:
        self._check(self._session.tensors.fill_difference(self._start, gradient, self._gives))
        loss = self._loss.number()
        metrics = {name: mean.number() for name, mean in self._metrics.items()}
        self.clear()
        return loss, frames.metrics(metrics)

    def clear(self) -> None:
        self._steps = 0
        self._stepped = 0  # Batches of these steps.
        self._new: list[int] = []  # Samples of each batch since the last step.
        self._loss = _Mean()
        self._metrics: dict[str, _Mean] = {}

    def _check(self, differences: list[tuple[str, float, float]]) -> None:
        """Looks at the least and the most number of each parameter's difference."""
        for name, least, most in differences:
            if not (math.isfinite(least) and math.isfinite(most)):
                raise Error(
                    f"{name} became infinite or NaN in a local step: lower the learning rate "
                    "of the loop's optimiser, or clip its gradients"
                )
        if not self._has_warned and not any(least or most for _, least, most in differences):
            self._has_warned = True
            warnings.warn(
                "no weight has changed in a round of local steps: call optimizer.step() in "
                "the loop before worker.step()",
                RuntimeWarning,
                stacklevel=6,
            )


class _Mean:
    """A mean over samples. One of tensors on a GPU is made there, so that no step waits
    until the GPU has computed them."""

    def __init__(self) -> None:
        self._total: float | torch.Tensor = 0.0
        self._samples = 0

    def add(self, value: float | torch.Tensor, samples: int) -> None:
        self._total = self._total + value * samples
        self._samples += samples

    def number(self) -> float:
        """NaN if nothing was added."""
        return float(self._total) / self._samples if self._samples else math.nan


def _quantity(name: str, value: Any) -> float | torch.Tensor:
    if isinstance(value, torch.Tensor) and value.device.type != "cpu":
        require_one_number(name, value)
        return value.detach().double().reshape(())
    return number_of(name, value)
