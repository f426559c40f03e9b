"""Checks that the tensors which a run knows are still those of the model."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from troupe.description import Described
from troupe.errors import Error


def require_attached(model: torch.nn.Module, all: Iterable[Described]) -> None:
    """Compares by identity, since a tensor may have got another name in the model.

    Raises:
        Error: If one of these tensors is no longer the model's.
    """
    held = {id(x) for x in (*model.parameters(), *model.buffers())}
    for x in all:
        # Other tensors were made for the state dict, as extra state or by a hook.
        in_module = x.extra_of is None and x.place[0]
        if in_module and id(x.tensor) not in held:
            raise Error(
                f"{x.name} is no longer the model's: its layer, or the tensor itself, was "
                "replaced or removed (load_state_dict with assign=True does that, too), and "
                "what is there now takes no part in the run; change the model before the "
                "worker or the evaluator is made"
            )
