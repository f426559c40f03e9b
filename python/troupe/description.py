"""Describes a model to the parameter server, which has no Python."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


def _require_values(name: str, tensor: torch.Tensor) -> None:
    if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
        raise Error(
            f"{name} has no shape yet: its layer is a lazy one; call the model with a batch "
            "first"
        )
    if tensor.is_meta:
        raise Error(
            f"{name} is on the meta device, without values: use model.to_empty(device=...) "
            "and initialise it, or load weights, first"
        )


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
        _require_values(name, tensor)
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


#: What a group may have of its own, and what the description calls it.
_NUMBERS = {"lr": "lr", "weight_decay": "weight-decay", "momentum": "momentum"}


def _number(about: str, key: str, value: Any) -> float:
    try:
        out = float(value)
    except (TypeError, ValueError):
        out = math.nan
    if not (math.isfinite(out) and out >= 0) or (key == "momentum" and out >= 1):
        most = " to below 1" if key == "momentum" else ""
        raise Error(f"{about}: {key}={value!r}: give a number from 0{most}")
    return out


def _numbers(group: Mapping[str, Any], about: str) -> str:
    """ "lr=0.01 weight-decay=0" """
    out = []
    for key, value in group.items():
        if key == "params":
            continue
        if key not in _NUMBERS:
            raise Error(f"{about} has {key!r}: a group may have {', '.join(_NUMBERS)} of its own")
        out.append(f"{_NUMBERS[key]}={_number(about, key, value)!r}")
    if not out:
        raise Error(f"{about} has neither {', '.join(list(_NUMBERS)[:-1])} nor momentum")
    return " ".join(out)


#: As torch's optimisers take them.
ParamGroups = Iterable[Mapping[str, Any]]


def _groups(all: list[Described], groups: ParamGroups) -> dict[str, str]:
    """The numbers of all parameters in groups, by their names."""
    names = {id(x.tensor): x.name for x in reversed(all)}
    first = {x.name: x.same_as or x.name for x in all}
    frozen = {x.name for x in all if x.frozen or x.kind != PARAMETER}
    out: dict[str, str] = {}
    for i, group in enumerate(groups):
        about = f"param_groups[{i}]"
        members = group.get("params", ())
        if isinstance(members, (str, torch.Tensor)):
            members = [members]
        numbers = _numbers(group, about)
        for one in members:
            name = first.get(one) if isinstance(one, str) else names.get(id(one))
            if name is None:
                what = repr(one) if isinstance(one, str) else f"a tensor {list(one.shape)}"
                raise Error(f"{about} has {what}, which is no parameter of the model")
            if name in frozen:
                continue  # As with torch's optimisers: there is no gradient.
            if name in out:
                raise Error(f"{about} has {name}, which is in a group before it")
            out[name] = numbers
    return out


def group_rules(model: torch.nn.Module, groups: ParamGroups) -> str:
    """The setting `param-groups` that says the same."""
    names: dict[str, list[str]] = {}
    for name, numbers in _groups(tensors_of(model), groups).items():
        names.setdefault(numbers, []).append(re.sub(r"([*?\[])", r"[\1]", name))
    return ",".join(f"{' '.join(its)}={numbers}" for numbers, its in names.items())


def describe(
    model: torch.nn.Module,
    path: str | Path,
    param_groups: ParamGroups | None = None,
) -> Path:
    """Writes the file for `--network weights:FILE`: what a parameter server has
    to know of the model, and its present weights, which are the first ones.

    The values of two such files may differ; what they describe may not.

    Args:
        param_groups: Parameters with numbers of their own, as torch's optimisers
            take them: `{"params": model.head.parameters(), "lr": 0.01}`, with
            lr, weight_decay and momentum; names may stand for parameters. Those
            in no group have the numbers of the server's settings, and so has a
            group for what it does not say.
    """
    all = tensors_of(model)
    lines = {
        "troupe.statistics": [x.name for x in all if x.kind == STATISTIC],
        "troupe.frozen": [x.name for x in all if x.frozen],
        "troupe.shared": [f"{x.name} = {x.same_as}" for x in all if x.same_as],
        "troupe.groups": [
            f"{name} = {numbers}" for name, numbers in _groups(all, param_groups or ()).items()
        ],
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
