"""A worker whose gradients this process computes."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from typing import Any

import torch

from troupe import frames
from troupe.contribution import Contribution
from troupe.description import ParamGroups, group_rules
from troupe.errors import Error
from troupe.gradients import Gradients
from troupe.heap import keep_memory
from troupe.leases import Lease, LeaseBook
from troupe.loader import Loader
from troupe.local_steps import LocalSteps, most_steps
from troupe.program import dataset
from troupe.session import Participant, Session

#: Batches that a worker may have at a time.
_MOST_LEASES = 1024

#: Batches that the loader may have ahead of a round.
_AHEAD = 4


def _leases_for(
    leases: int | None,
    accumulate: int | None,
    local_steps: int | str | None,
    overlap_steps: int,
) -> int:
    """How many batches a worker has at a time. Raises Error if there can be no round."""
    if accumulate is not None and not 1 <= accumulate <= 64:
        raise Error(f"accumulate={accumulate}: a step covers from 1 to 64 batches")
    most = 1 if local_steps is None else most_steps(local_steps)
    if not 0 <= overlap_steps < most:
        raise Error(
            f"overlap_steps={overlap_steps}: are steps of a round of local_steps={local_steps!r}, "
            f"before its weights come: give from 0 to {most - 1}"
        )
    a_round = (accumulate or 1) * most
    early = (accumulate or 1) * overlap_steps
    needed = a_round if local_steps is None else a_round + early + _AHEAD
    if leases is None:
        leases = min(max(_AHEAD, needed), _MOST_LEASES)
    if not 1 <= leases <= _MOST_LEASES:
        raise Error(f"leases={leases}: a worker has from 1 to {_MOST_LEASES} batches at a time")
    if a_round > leases:
        given = {"accumulate": accumulate, "local_steps": local_steps}
        words = " and ".join(f"{name}={x}" for name, x in given.items() if x is not None)
        raise Error(f"{words} needs {a_round} leases, and leases={leases}")
    return leases


def _require_own_weights(views: bool, replay: str | os.PathLike | None) -> None:
    """What a worker with local steps cannot do."""
    if views:
        raise Error(
            "views=True goes not with local_steps: the parameters would be the run's own "
            "memory, which the loop's optimiser must not change"
        )
    if replay is not None:
        raise Error(
            "replay= goes not with local_steps: what each worker's optimiser had kept is not "
            "in the event log, so its steps cannot be computed again"
        )


class Worker(Participant):
    """Makes this process a worker of a run.

        with troupe.Worker(model, "cluster.ini", dataset_size=len(data)) as worker:
            for x, y in worker.loader(data, num_workers=2):
                loss = loss_fn(model(x), y)
                loss.backward()
                worker.step(loss)

    The model's weights are those of the run from the first batch on. One worker
    a process; to be used by the thread that made it.

    Args:
        model: Its parameters need the names, shapes and types that the
            parameter server knows (`troupe.serve`, `troupe.describe`).
        config: An INI file of settings, docs/configuration.md.
        dataset_size: Samples of an epoch, the same on all workers.
        dataset_id: A word that tells this data set from others.
        leases: How many batches the worker may have at a time, at most 1024. The loader
            prefetches no more, and a step accumulates no more. None: 4, or
            `accumulate`, if that is more; with `local_steps` 4 more than a round has, and
            those of `overlap_steps`.
        accumulate: How many batches a step is to cover. The loop divides each loss by
            this number, and calls `step` when `due` says so.
        local_steps: How many steps the loop makes with an optimiser of its own before
            their difference is pushed, at most 1000: a round. The server must be
            given the same number. "auto": the quickest worker makes 32, and others as many
            as they can meanwhile; "auto(max=64)" has another number. None: the server's
            optimiser makes all steps.
        overlap_steps: How many steps of a round the loop makes before the push of the
            round before is answered. Then the model gets the mean of the weights that come
            and its own. Less than `local_steps`; the server must be given the same number.
        allow_unused: Whether a parameter without a gradient has one of zeros;
            else that is an error.
        param_groups: The groups that the server was given (`troupe.serve`): if these
            differ, the worker is refused. None: they are not compared.
        views: The model's parameters are the run's own weights, in shared
            memory, instead of a copy: they may be read from one batch to the
            `step` or `skip` after it, and never be changed.
        replay: The event log of a run (`tape=True`). This process computes the
            gradients of all workers of that run again, as the log has them, and a
            server of its own, for which settings may be given (`train_dir`), makes the
            same decisions. Ends with an error where something differs from the log.
        settings: Any setting of a worker by its flag's name: host="10.0.0.1".

    Raises:
        troupe.Error: If the worker cannot join, or has lost the run.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        config: str | os.PathLike | None = None,
        *,
        dataset_size: int,
        dataset_id: str = "",
        leases: int | None = None,
        accumulate: int | None = None,
        local_steps: int | str | None = None,
        overlap_steps: int = 0,
        allow_unused: bool = False,
        param_groups: ParamGroups | None = None,
        views: bool = False,
        replay: str | os.PathLike | None = None,
        **settings: Any,
    ) -> None:
        dataset(dataset_size, dataset_id)  # Refuses what the server would.
        leases = _leases_for(leases, accumulate, local_steps, overlap_steps)
        if local_steps is not None:
            _require_own_weights(views, replay)
            settings["local_steps"] = local_steps
            settings["overlap_steps"] = overlap_steps
        self._size = dataset_size
        if param_groups is not None:
            settings["param_groups"] = group_rules(model, param_groups)
        super().__init__(Session("worker", model, views, replay))
        keep_memory()
        contribution: Contribution
        if local_steps is None:
            contribution = Gradients(self._session, accumulate, allow_unused)
        else:
            contribution = LocalSteps(self._session, local_steps, accumulate)
        self._book = LeaseBook(self._session, contribution)
        hello = frames.hello(dataset_size, leases, dataset_id)
        self._session.join(config, settings, hello, self._book.handlers())
        try:
            contribution.join()
        except BaseException:
            self._session.close()
            raise

    @property
    def batch_size(self) -> int:
        """Samples of a batch; the last one of an epoch may be smaller."""
        return self._session.run.batch_size

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return self._session.run.seed

    @property
    def accumulate(self) -> int | None:
        """How many batches a step is to cover, by which the loop also divides each
        loss; None: the loop decides. May be set between two steps."""
        return self._book.contribution.accumulate

    @accumulate.setter
    def accumulate(self, batches: int | None) -> None:
        self._book.contribution.accumulate = batches

    @property
    def rank(self) -> int:
        """The number of this worker among those of the run, from 0 on. It may be
        another one when the worker comes back after a loss. Waits until there is one."""
        return self._book.rank()

    @property
    def stopping(self) -> str | None:
        """Why this worker is about to leave the run, such as "told to stop by SIGTERM";
        None: it is not. The gradient of the batch at hand still counts, and then the loop
        ends by itself."""
        self._book.look()
        return self._session.stopping

    # -- leases ---------------------------------------------------------------

    @property
    def accumulated(self) -> int:
        """How many batches the next push covers: those since the last one, except
        those that were given up meanwhile."""
        return self._book.accumulated()

    @property
    def due(self) -> bool:
        """Whether a loop that accumulates must call `step` before it takes another
        batch: there are `accumulate` batches, or no other comes, or those so far are
        not wanted any more. With `local_steps`: whether that step ends the round."""
        return self._book.due()

    def __iter__(self) -> Iterator[Lease]:
        """The leases one after another, until the run ends: for programs that load
        batches without a DataLoader. They call `step` or `skip` for each."""
        return self._book.only(self._each_lease())

    def _each_lease(self) -> Generator[Lease, None, None]:
        book = self._book
        try:
            while (lease := book.next_lease(wait=True)) is not None:
                if book.begin(lease):
                    yield lease
        except BaseException:
            book.leave()
            raise
        book.finish()

    def loader(self, dataset: Any, **options: Any) -> Loader:
        """Batches of a map-style data set until the run ends; takes the options
        of torch's DataLoader, except those that the run decides."""
        self._book.check()
        return Loader(self._book, self._size, dataset, options)

    # -- gradients ------------------------------------------------------------

    def step(self, loss: torch.Tensor | float, **metrics: torch.Tensor | float) -> bool:
        """Pushes the gradients of the batches since the last step, and clears
        them. On return the model has new weights.

        With `local_steps` it counts a step of the loop's optimiser. Only the one that
        ends a round pushes: by how much the round has changed the weights. Gradients
        are the loop's.

        Args:
            loss: The mean over the samples of these batches, for the records.
            metrics: Further means, by their names.

        Returns:
            False if the gradient, or the round, was not wanted any more, or came too
            late. With `overlap_steps` a round that is pushed is not answered yet: then a
            later step returns False if it came too late, as its steps are lost, too.
        """
        self._book.check()
        return not self._book.take_step(loss, metrics) or self._book.push()

    def skip(self) -> None:
        """Gives back the batches since the last step: another worker, or this
        one, gets them again. Clears the gradients, except with `local_steps`, where the
        steps before count all the same."""
        self._book.check()
        self._book.skip()
