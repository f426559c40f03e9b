"""An evaluator whose scores this process computes."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from troupe import frames
from troupe.errors import Error
from troupe.frames import Frame
from troupe.program import flags
from troupe.session import Session, number_of

#: Metrics by their names; tensors of one number are numbers, too.
Metrics = Mapping[str, Any]


class Evaluator:
    """Makes this process an evaluator of a run.

        def score(model):
            return {"accuracy": ..., "loss": ...}

        with troupe.Evaluator(model, score, "cluster.ini") as evaluator:
            evaluator.run()

    Versions of the weights come by the settings of the run (`eval_freq`), the
    newest first; the run's last one is always scored. The metrics are in
    metrics.jsonl, TensorBoard and summary.json; `target` and `best_by` name one.

    Args:
        model: As that of a `troupe.Worker`.
        score: Gets the model with the weights of a version, in eval mode and
            without gradients; returns its metrics. A name begins with a letter,
            then come letters, digits and _.-/ (64 at most).
        config: An INI file of settings, docs/configuration.md.
        samples: How many samples a score is about, for the records.
        settings: Any setting of an evaluator by its flag's name.

    Raises:
        troupe.Error: If the evaluator cannot join, or has lost the run.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        score: Callable[[torch.nn.Module], Metrics],
        config: str | os.PathLike | None = None,
        *,
        samples: int = 0,
        **settings: Any,
    ) -> None:
        self._model = model
        self._score = score
        self._samples = samples
        self._due: Frame | None = None
        #: What the run ends with: version, region, offset.
        self._last: tuple[int, int, int] | None = None
        self._session = Session("evaluator", model)
        try:
            hello = struct.pack("<QI", 0, 0) + frames.text("")
            self._session.join(flags(config, settings), hello, self._take_own)
        except BaseException:
            self.close()
            raise

    def _take_own(self, frame: Frame) -> None:
        if frame.kind == frames.LAST:
            _, *place = frame.body.take("QQQ")
            self._last = (frame.number, *place)
        elif frame.kind == frames.SCORE:
            self._due = frame
        else:
            raise Error(f"the evaluator sent a frame of unknown kind {frame.kind}")

    def run(self) -> None:
        """Scores until the run ends. Then the model has the run's last weights."""
        for _ in self:
            pass

    def __iter__(self) -> Iterator[tuple[int, dict[str, float]]]:
        """The steps of the versions, each with its metrics, until the run ends. Those
        of an average of the weights come next, named as in the run: ema/accuracy."""
        if self._session.closed:
            raise Error("the evaluator is closed")
        node = self._session.node
        while node.end is None:
            self._session.take(node.receive(), self._take_own)
            if self._due is not None:
                due, self._due = self._due, None
                region, offset, of_average = due.body.take("QQB")
                found = self._metrics_of(due.number, region, offset)
                self._send(due.number, found)
                yield due.number, {("ema/" if of_average else "") + x: found[x] for x in found}
        node.raise_failure()
        if self._last is not None:
            last, self._last = self._last, None
            self._session.load_last(*last)

    def _metrics_of(self, version: int, region: int, offset: int) -> dict[str, float]:
        self._session.tensors.require_attached()
        self._session.tensors.load(self._session.weights(region, offset), version)
        self._model.eval()
        with torch.no_grad():
            found = self._score(self._model)
        if not isinstance(found, Mapping):
            raise Error(f"score() returned {type(found).__name__}, and not metrics by their names")
        return {name: number_of(name, value) for name, value in found.items()}

    def _send(self, step: int, found: Mapping[str, float]) -> None:
        body = struct.pack("<Q", self._samples) + frames.metrics(found)
        self._session.node.send(frames.SCORED, step, body)

    def close(self) -> None:
        """Leaves the run."""
        self._session.close()

    def __enter__(self) -> Evaluator:
        return self

    def __exit__(self, *what: object) -> None:
        self.close()
