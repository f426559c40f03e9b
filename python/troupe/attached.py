"""Whether what a run knows of a model is still in it."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from troupe.description import Described
from troupe.errors import Error


def require_attached(model: torch.nn.Module, all: Iterable[Described]) -> None:
    """Looks by identity: a tensor may have got another name in the model.

    Raises:
        Error: If one of these tensors is no longer the model's.
    """
    held = {id(x) for x in (*model.parameters(), *model.buffers())}
    for x in all:
        in_module = x.extra_of is None and x.place[0]  # Else a hook made it.
        if in_module and id(x.tensor) not in held:
            raise Error(
                f"{x.name} is no longer the model's: its layer, or the tensor itself, was "
                "replaced or removed (load_state_dict with assign=True does that, too), and "
                "what is there now takes no part in the run; change the model before the "
                "worker or the evaluator is made"
            )
