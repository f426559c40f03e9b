"""Describes a model to the parameter server, which has no Python."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch

from troupe import safetensors
from troupe.errors import Error

PARAMETER, STATISTIC, COUNTER = 0, 1, 2


@dataclass
class Described:
    """A tensor of a model as the server sees it."""

    name: str
    tensor: torch.Tensor
    kind: int
    frozen: bool = False
    same_as: str = ""  # The first name of a tensor with several.


def plain(model: torch.nn.Module) -> torch.nn.Module:
    """The module that torch.compile wrapped, if it did."""
    return getattr(model, "_orig_mod", model)


def _normalises(module: torch.nn.Module) -> bool:
    return "Norm" in type(module).__name__


def _is_frozen(module: torch.nn.Module) -> bool:
    """Whether it has parameters, of which none needs a gradient."""
    own = list(module.parameters(recurse=False))
    return bool(own) and not any(x.requires_grad for x in own)


def tensors_of(model: torch.nn.Module) -> list[Described]:
    """What the server keeps of a model, in the order of its state dict.

    Parameters are trained, or frozen where they need no gradient. Buffers that
    a normalising layer keeps are running statistics, which the server averages,
    unless the layer is frozen. Other buffers of floating point numbers are constants: frozen. What is left
    (masks, indices) stays with the process.
    """
    model = plain(model)
    out: list[Described] = []
    first: dict[int, str] = {}
    modules = dict(model.named_modules())
    for name, tensor in model.state_dict(keep_vars=True).items():
        if not isinstance(tensor, torch.Tensor):
            continue
        if id(tensor) in first:
            kind = next(x.kind for x in out if x.name == first[id(tensor)])
            out.append(Described(name, tensor, kind, False, first[id(tensor)]))
            continue
        if isinstance(tensor, torch.nn.Parameter):
            one = Described(name, tensor, PARAMETER, not tensor.requires_grad)
        elif tensor.dtype == torch.int64 and tensor.dim() == 0:
            one = Described(name, tensor, COUNTER)
        elif tensor.is_floating_point():
            owner = modules.get(name.rpartition(".")[0], model)
            statistic = _normalises(owner) and not _is_frozen(owner)
            one = Described(
                name, tensor, STATISTIC if statistic else PARAMETER, not statistic
            )
        else:
            continue
        first[id(tensor)] = name
        out.append(one)
    _check(out)
    return out


def _check(all: Iterable[Described]) -> None:
    numbers = [x for x in all if x.kind != COUNTER]
    for x in numbers:
        if x.tensor.dtype not in (torch.float32, torch.float64):
            raise Error(
                f"{x.name} is {x.tensor.dtype}: the server keeps float32 or "
                "float64; compute in less with torch.autocast"
            )
        if x.tensor.dtype != numbers[0].tensor.dtype:
            raise Error(
                f"{x.name} is {x.tensor.dtype} and {numbers[0].name} "
                f"{numbers[0].tensor.dtype}: all must have one type"
            )
    if not any(x.kind == PARAMETER and not x.frozen for x in numbers):
        raise Error("the model has no parameter that needs a gradient")


def describe(model: torch.nn.Module, path: str | Path) -> Path:
    """Writes the file for `--network weights:FILE`: what a parameter server has
    to know of the model, and its present weights, which are the first ones.

    The values of two such files may differ; what they describe may not.
    """
    all = tensors_of(model)
    lines = {
        "troupe.statistics": [x.name for x in all if x.kind == STATISTIC],
        "troupe.frozen": [x.name for x in all if x.frozen],
        "troupe.shared": [f"{x.name} = {x.same_as}" for x in all if x.same_as],
    }
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    safetensors.write(
        path,
        {x.name: x.tensor for x in all if not x.same_as},
        {key: "\n".join(names) for key, names in lines.items() if names},
    )
    return path


def file_name(model: torch.nn.Module) -> str:
    """A short name for the files of this model: that of its class."""
    name = type(plain(model)).__name__
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower() or "model"
