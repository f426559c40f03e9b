"""An evaluator whose scores this process computes."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from troupe import frames
from troupe.errors import Error
from troupe.frames import Body
from troupe.session import Participant, Session, number_of

#: Metrics by their names: numbers, or tensors of one number.
Metrics = Mapping[str, Any]


class Evaluator(Participant):
    """Makes this process an evaluator of a run.

        def score(model):
            return {"accuracy": ..., "loss": ...}

        with troupe.Evaluator(model, score, "cluster.ini") as evaluator:
            evaluator.run()

    The run's settings (`eval_freq`) say which versions of the weights are scored. An
    evaluator that is slow gets the newest; the run's last version is always scored.
    The metrics are in metrics.jsonl, TensorBoard and summary.json; `target` and
    `best_by` may name one.

    Args:
        model: A model like that of a `troupe.Worker`.
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
        super().__init__(Session("evaluator", model))
        self._model = model
        self._score = score
        self._samples = samples
        #: The version to be scored now, and where its weights are.
        self._due: tuple[int, Body] | None = None
        self._session.join(config, settings, frames.hello(), {frames.SCORE: self._note_due})

    def _note_due(self, version: int, body: Body) -> None:
        self._due = version, body

    def run(self) -> None:
        """Scores until the run ends. Then the model has the run's last weights."""
        for _ in self:
            pass

    def __iter__(self) -> Iterator[tuple[int, dict[str, float]]]:
        """The step of each version with its metrics, until the run ends. If the run
        keeps an average of the weights, the metrics of that come next, named as in
        the run: ema/accuracy."""
        self._session.check_open()
        node = self._session.node
        while node.end is None:
            self._session.take_next()
            if self._due is not None:
                (version, body), self._due = self._due, None
                region, offset, of_average = body.take("QQB")
                found = self._metrics_of(version, region, offset)
                self._send(version, found)
                yield version, {("ema/" if of_average else "") + x: found[x] for x in found}
        node.raise_failure()
        self._session.load_last()

    def _metrics_of(self, version: int, region: int, offset: int) -> dict[str, float]:
        self._session.tensors.require_attached()
        self._session.tensors.load(self._session.weights(region, offset), version)
        self._model.eval()
        with torch.no_grad():
            found = self._score(self._model)
        if not isinstance(found, Mapping):
            raise Error(
                f"score() returned {type(found).__name__}: return a dictionary of numbers by "
                "their names"
            )
        return {name: number_of(name, value) for name, value in found.items()}

    def _send(self, step: int, found: Mapping[str, float]) -> None:
        self._session.tensors.wait()
        body = struct.pack("<Q", self._samples) + frames.metrics(found)
        self._session.node.send(frames.SCORED, step, body)
