"""Checks that the tensors which a run takes for constant do not change."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from troupe import safetensors
from troupe.description import CONSTANT, Described
from troupe.errors import Error


def equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors have the same bits."""
    return torch.equal(*map(safetensors.flat_bytes, (a, b)))


def _version(tensor: torch.Tensor) -> int:
    """How often a tensor was changed in place, as far as torch counts; else -1."""
    return -1 if tensor.is_inference() else tensor._version


class _Constant:
    """A tensor of the model, and its value in the run."""

    def __init__(self, its: Described, value: torch.Tensor) -> None:
        self.its = its
        self.value = value
        self.version = _version(its.tensor)
        self.looks = 1  # Steps from the next comparison to the one after it.
        self.due = 0  # The step from which on it may be compared again.

    def compare(self) -> None:
        now = self.its.held()
        same = isinstance(now, torch.Tensor) and now.shape == self.value.shape
        if not (same and now.dtype == self.value.dtype and equal(now, self.value)):
            raise Error(
                f"{self.its.name} has changed, and the run takes it for constant: nobody else "
                f"would have its new value. {self._advice()}"
            )
        self.its.tensor = now
        self.version = _version(now)


    def _advice(self) -> str:
        if self.its.kind == CONSTANT:
            return (
                f"It is {self.value.dtype}, and only what has the type of the parameters can "
                "be carried: a buffer with persistent=False stays with the process"
            )
        return (
            f'If the process shall change it, give carry={{"{self.its.name}": True}} to '
            "troupe.serve or troupe.describe; a normalising layer that is frozen needs "
            "eval(); a buffer with persistent=False stays with the process"
        )


class Constants:
    """All constants of a model. Torch does not count a change through `.data`, so the
    values themselves are compared, ever more rarely: at steps 1, 2, 4, 8 and so on, and
    at the end. A tensor whose change torch has counted is compared at once."""

    def __init__(self, all: Iterable[tuple[Described, torch.Tensor]]) -> None:
        self._all = [_Constant(its, value) for its, value in all]
        self._steps = 0

    def check(self) -> bool:
        """To be called at each step; says whether all were compared.

        Raises:
            Error: If one has changed.
        """
        self._steps += 1
        if self._steps & (self._steps - 1) == 0:
            self.compare()
            return True
        for x in self._all:
            now = x.its.held()
            if (now is not x.its.tensor or _version(now) != x.version) and self._steps >= x.due:
                x.compare()
                # So one that is often written with the same numbers is compared rarely.
                x.due, x.looks = self._steps + x.looks, 2 * x.looks
        return False

    def compare(self) -> None:
        """Compares all of them now. Raises Error if one has changed."""
        for x in self._all:
            x.compare()
