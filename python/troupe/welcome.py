"""What a process is told of the run when it has joined (docs/formats.md)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from troupe import safetensors
from troupe.description import CONSTANT
from troupe.errors import Error
from troupe.frames import Body

#: The types that a run's numbers may have, by what the welcome calls them.
TYPES = {1: torch.float32, 2: torch.float64}


@dataclass(frozen=True)
class Place:
    """What the welcome says of a tensor of the run."""

    name: str
    kind: int
    frozen: bool
    same_as: str
    first: int  # The first element in a block; of a constant, the first byte.
    shape: tuple[int, ...]
    dtype: torch.dtype | None = None  # Of a constant; None: the run's.


@dataclass(frozen=True)
class Welcome:
    """What a process is told of the run when it has joined."""

    dtype: torch.dtype
    count: int  # Elements of a block.
    frozen: int  # Elements that are not trained.
    region: int  # The one that holds these.
    batch_size: int
    seed: int
    local_steps: int  # Of a round, at most; 0: the server's optimiser makes all steps.
    overlap_steps: int  # Of a round, made before its weights come.
    by_rate: bool  # Slower workers make fewer.
    places: dict[str, Place]

    def rounds(self) -> str:
        """The local steps of a round, as a program gives them."""
        return f'"auto(max={self.local_steps})"' if self.by_rate else str(self.local_steps)


def read_welcome(body: Body) -> Welcome:
    element, *numbers, by_rate = body.take("IQQQQQQQB")
    places = {}
    for _ in range(body.number("I")):
        name = body.text()
        kind, is_frozen = body.take("BB")
        same_as = body.text()
        first, dims = body.take("QI")
        shape = tuple(body.take(f"{dims}Q"))
        dtype = _dtype_named(name, body.text()) if kind == CONSTANT else None
        places[name] = Place(name, kind, bool(is_frozen), same_as, first, shape, dtype)
    return Welcome(TYPES[element], *numbers, bool(by_rate), places)


def _dtype_named(tensor: str, dtype: str) -> torch.dtype:
    try:
        return safetensors.dtype_of(dtype)
    except KeyError:
        raise Error(f"{tensor} is {dtype} in the run, which is not known here") from None
