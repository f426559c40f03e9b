"""The gradient of several batches: the mean over all of their samples."""

from __future__ import annotations

from troupe.blocks import Tensors


class Mean:
    """Weighs the batches that a step covers. The user's loop divides the mean loss of
    each batch by the same number, as is usual, and adds up the gradients.

    Args:
        accumulate: The number by which the loop divides; None: the most batches that
            a step has covered so far.
    """

    def __init__(self, accumulate: int | None) -> None:
        self.accumulate = accumulate
        self._most = 1
        self._samples: list[int] = []  # Samples of each backward().

    def clear(self) -> None:
        self._samples = []

    def add(self, samples: int, tensors: Tensors) -> None:
        """Adds a batch. Scales the gradients so far, so that those of its mean loss can
        be added to them. Without a gradient since, it forms one batch with the last."""
        if self._samples and not tensors.has_gradients():
            self._samples[-1] += samples
            return
        if self._samples and samples != self._samples[-1]:
            tensors.scale(self._samples[-1] / samples)
        self._samples.append(samples)

    def factor(self) -> float:
        """The factor that turns these sums into the mean over all samples."""
        self._most = max(self._most, len(self._samples))
        divisor = self.accumulate or self._most
        return divisor * self._samples[-1] / sum(self._samples)
