"""The files that a run leaves (docs/run-directory.md)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from troupe import safetensors
from troupe.errors import Error


class Run:
    """A run directory: `Run("runs/net-1").summary["final_loss"]`."""

    def __init__(self, path: str | os.PathLike) -> None:
        self.path = Path(os.path.expanduser(path))
        if not (self.path / "config.ini").is_file():
            raise Error(f"{self.path}: is no run directory, it has no config.ini")

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The results of the run, once it has ended."""
        file = self.path / "summary.json"
        try:
            return json.loads(file.read_text())
        except FileNotFoundError:
            raise Error(f"{file}: is not there; it is written when the run ends") from None

    def metrics(self) -> Iterator[dict[str, Any]]:
        """The lines of metrics.jsonl, in their order, as far as they are complete."""
        with open(self.path / "metrics.jsonl") as lines:
            for line in lines:
                if line.endswith("\n"):
                    yield json.loads(line)

    def state_dict(
        self, step: str | int = "best", *, average: bool = False
    ) -> dict[str, torch.Tensor]:
        """Weights for `model.load_state_dict`: of the best score ("best"), of the
        newest checkpoint ("last") or of the checkpoint at this step.

        Args:
            average: Take the average of the weights at that checkpoint (`ema_decay`). The
                best weights are an average if `best_by` names a metric of it.
        """
        if step == "best" and average:
            raise Error(
                "the best weights are the average only if the server got best_by with a metric "
                "of it, such as max(ema/accuracy): leave average out"
            )
        if step == "best":
            return safetensors.read(self.path / "best.safetensors")
        steps = {
            int(folder.name.removeprefix("step-")): folder
            for folder in (self.path / "checkpoints").glob("step-*")
            if folder.name.removeprefix("step-").isdigit()
        }
        if not steps:
            raise Error(f"{self.path}: has no checkpoint")
        if step == "last":
            step = max(steps)
        if step not in steps:
            known = ", ".join(str(x) for x in sorted(steps))
            raise Error(f"{self.path}: has no checkpoint of step {step}; it has {known}")
        weights = safetensors.read(steps[int(step)] / "model.safetensors")
        if average:
            weights.update(self._average(steps[int(step)] / "optimizer.safetensors"))
        return weights

    def _average(self, file: Path) -> dict[str, torch.Tensor]:
        prefix = "optim.ema."
        out = {
            name.removeprefix(prefix): tensor
            for name, tensor in safetensors.read(file).items()
            if name.startswith(prefix)
        }
        if not out:
            raise Error(f"{file}: has no average of the weights; train with ema_decay above 0")
        return out
