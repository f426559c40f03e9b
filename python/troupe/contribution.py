"""What a worker makes of its batches for the run."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any

from troupe.regions import Block


@dataclass(frozen=True)
class Exchange:
    """Which elements of a block a round gets when it begins, and gives when it ends: all
    of them, or those of a fragment."""

    gets: range
    gives: range


class Contribution(abc.ABC):
    """What the batches of a round come to, and what the worker pushes for them. The book
    of leases says which batches these are; a contribution knows what they mean for the
    model's tensors."""

    def __init__(self, accumulate: int | None) -> None:
        self.accumulate = accumulate  #: As of the worker.

    @abc.abstractmethod
    def join(self) -> None:
        """To be called when the worker has a place in the run.

        Raises:
            Error: If the run wants contributions of another kind.
        """

    @abc.abstractmethod
    def begin(
        self, weights: Block, version: int, gradient: Block, steps: int, exchange: Exchange
    ) -> None:
        """Gives the model the weights on which the next round begins. They stay in
        their block until the round is pushed or given up; what is pushed goes into
        `gradient`. With local steps the round has so many, and may exchange a part of the
        weights only; if it has made some already, the weights are merged."""

    @abc.abstractmethod
    def may_go_on(self) -> bool:
        """Whether the round may make a step before its weights have come."""

    @abc.abstractmethod
    def add(self, samples: int) -> None:
        """The loop has taken a batch of so many samples."""

    @abc.abstractmethod
    def take_step(self, loss: Any, metrics: dict[str, Any]) -> None:
        """The loop has called `step`. Raises Error if one of these is no number."""

    @abc.abstractmethod
    def is_complete(self) -> bool:
        """Whether the round ends with the step that the loop has called last."""

    @abc.abstractmethod
    def is_due(self) -> bool:
        """Whether the loop has all batches of the round's last step."""

    @abc.abstractmethod
    def require_step(self) -> None:
        """Raises Error if only the loop's next step can end the round."""

    @abc.abstractmethod
    def skip(self) -> int:
        """Forgets the batches since the last step; returns how many the round keeps. If
        it keeps none, it is to be given up."""

    @abc.abstractmethod
    def fill(self, gradient: Block) -> tuple[float, bytes]:
        """Puts what is pushed into the block, and forgets the round. Returns its mean
        loss and the metrics, as a frame has them.

        Raises:
            Error: If the loop has left the model in a state that cannot be pushed.
        """

    @abc.abstractmethod
    def clear(self) -> None:
        """Forgets the round."""
