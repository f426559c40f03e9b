"""The gradient of several batches: the mean over all of their samples."""

from __future__ import annotations

from troupe.blocks import Tensors


class Mean:
    """Weighs the batches that a step covers. The loop adds up the gradients of their
    mean losses, each divided by one number, as is usual.

    Args:
        accumulate: That number; None: the most batches of a step so far.
    """

    def __init__(self, accumulate: int | None) -> None:
        self.accumulate = accumulate
        self._most = 1
        self._samples: list[int] = []  # Of each backward().

    def clear(self) -> None:
        self._samples = []

    def add(self, samples: int, tensors: Tensors) -> None:
        """Another batch comes. The gradients so far are scaled, so that those of its
        mean can be added to them. Without any, it is one batch with the one before."""
        if self._samples and not tensors.has_gradients():
            self._samples[-1] += samples
            return
        if self._samples and samples != self._samples[-1]:
            tensors.scale(self._samples[-1] / samples)
        self._samples.append(samples)

    def factor(self) -> float:
        """What makes of these sums the mean over all samples."""
        self._most = max(self._most, len(self._samples))
        divisor = self.accumulate or self._most
        return divisor * self._samples[-1] / sum(self._samples)
