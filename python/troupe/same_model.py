"""Checks that a model is the one of the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from troupe.description import CONSTANT, COUNTER, PARAMETER, STATISTIC, Described
from troupe.errors import Error
from troupe.welcome import TYPES, Place, Welcome


def require_same_model(all: Sequence[Described], run: Welcome) -> None:
    """Raises Error if the tensors of a model are not those of the run."""
    mine = {x.name: x for x in all}
    _compare_ties(mine, run.places)
    for name, place in run.places.items():
        if place.kind == COUNTER:
            continue
        if name not in mine:
            raise Error(f"the run has the tensor {name}, and the model has not")
        _compare_one(mine[name], place, run.dtype)
    for name, x in mine.items():
        # Runs of earlier releases have no constants.
        if name not in run.places and x.kind not in (COUNTER, CONSTANT):
            raise Error(f"the model has the tensor {name}, and the run has not")


def _compare_ties(mine: Mapping[str, Described], places: Mapping[str, Place]) -> None:
    """What is one tensor on one side must be one on the other."""
    ours: dict[str, tuple[str, str]] = {}  # By the first name in the run.
    theirs: dict[str, tuple[str, str]] = {}  # By that in the model.
    for name, place in places.items():
        if name not in mine:
            continue
        run, model = place.same_as or name, mine[name].same_as or name
        its, other = ours.setdefault(run, (model, name))
        if its != model:
            raise Error(
                f"{other} and {name} are one tensor in the run, and two in the model: "
                "tie them here, too"
            )
        its, other = theirs.setdefault(model, (run, name))
        if its != run:
            raise Error(
                f"{other} and {name} are one tensor in the model, and two in the run: "
                "tie them where the run is described, too, or nowhere"
            )


def _compare_one(mine: Described, place: Place, dtype: torch.dtype) -> None:
    name, its = mine.name, mine.tensor
    if mine.extra_of is not None:
        return  # Extra state may have any size.
    if tuple(its.shape) != place.shape:
        raise Error(f"{name} has the shape {tuple(its.shape)}, and in the run {place.shape}")
    dtype = place.dtype or dtype
    if its.dtype != dtype:
        raise Error(f"{name} is {its.dtype}, and in the run {dtype}{_advice(its, place)}")
    if place.frozen or place.same_as:
        return
    if place.kind == PARAMETER and not its.requires_grad:
        raise Error(f"{name} is trained in the run, and frozen in the model")
    if place.kind == STATISTIC and mine.trained:
        raise Error(f"{name} is trained in the model, and not in the run")


def _advice(its: torch.Tensor, place: Place) -> str:
    """What to do about a tensor of another type than the run's."""
    numbers = place.dtype is None and its.dtype in TYPES.values()
    if not numbers:
        return ""
    return (
        f'; the setting dtype says what a run keeps: give the server dtype="{_word(its.dtype)}", '
        "or convert the model with "
        + (".double()" if its.dtype == torch.float32 else ".float()")
    )


def _word(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
