"""Describes a model to the parameter server, which has no Python."""

from __future__ import annotations

import fnmatch
import json
import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from troupe import extra_state, safetensors
from troupe.errors import Error
from troupe.memory import refuse_shared

PARAMETER, STATISTIC, COUNTER, CONSTANT = range(4)

#: A buffer of this many bytes or more is not sent with each step, unless `carry` says
#: so or it is batch normalisation's.
_LARGE = 1 << 20

#: Whether tensors that are not trained are carried, that is sent with each step: by
#: patterns of their names, as a shell has them for files.
Carry = Mapping[str, bool]


@dataclass
class Described:
    """A tensor of a model as the server sees it."""

    name: str
    tensor: torch.Tensor
    kind: int
    frozen: bool = False
    same_as: str = ""  # Its first name, if this is a further one.
    #: The module whose extra state it is.
    extra_of: torch.nn.Module | None = None
    listed: bool = False  # As a statistic in the file, as earlier releases did it.
    #: Where the model holds it: a dictionary of its module, and the key in that.
    place: tuple[dict[str, Any], str] = field(default=({}, ""), repr=False, compare=False)

    @property
    def trained(self) -> bool:
        return self.kind == PARAMETER and not self.frozen

    def held(self) -> Any:
        """What the model holds there now: a module may have put another tensor there."""
        where, key = self.place
        return where.get(key, self.tensor if not where else None)


def plain(model: torch.nn.Module) -> torch.nn.Module:
    """The module that torch.compile has wrapped, or else the model itself."""
    return getattr(model, "_orig_mod", model)


def _is_frozen(module: torch.nn.Module) -> bool:
    """Whether a module has parameters of its own, and none of them needs a gradient."""
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


def _was_statistic(tensor: torch.Tensor, owner: torch.nn.Module) -> bool:
    """Whether earlier releases took a tensor for a statistic, as files of their runs do."""
    buffer = not isinstance(tensor, torch.nn.Parameter)
    return buffer and "Norm" in type(owner).__name__ and not _is_frozen(owner)


class _Kinds:
    """Says what becomes of the tensors of a model."""

    def __init__(self, model: torch.nn.Module, carry: Carry | None) -> None:
        #: The type of what is trained.
        self._dtype = next((x.dtype for x in model.parameters() if x.requires_grad), None)
        self._carry = carry or {}
        for pattern, carried in self._carry.items():
            if not isinstance(pattern, str) or not isinstance(carried, bool):
                raise Error(
                    f"carry has {pattern!r}: {carried!r}; give a name or a pattern, and "
                    "True or False"
                )
        self._idle = set(self._carry)

    def of(
        self, name: str, tensor: torch.Tensor, owner: torch.nn.Module
    ) -> tuple[int, bool]:
        """The kind of a tensor, and whether it is constant."""
        parameter = isinstance(tensor, torch.nn.Parameter)
        if parameter and tensor.requires_grad:
            return PARAMETER, False
        asked = self._asked(name)
        frozen = parameter or _is_frozen(owner)
        # Its layer is torch's for batch or instance normalisation, or derived from that.
        own = isinstance(owner, torch.nn.modules.batchnorm._NormBase)
        if own and name.rpartition(".")[2] == "num_batches_tracked":
            return (CONSTANT, True) if frozen else (COUNTER, False)
        if tensor.dtype != self._dtype:
            if asked:
                raise Error(
                    f"carry has {name}, which is {tensor.dtype}: only tensors of the type of "
                    "what is trained can be carried"
                )
            return CONSTANT, True
        if asked is None:
            small = own or tensor.numel() * tensor.element_size() < _LARGE
            asked = small and not frozen
        return (STATISTIC, False) if asked else (PARAMETER, True)

    def _asked(self, name: str) -> bool | None:
        """What `carry` says of a tensor, by the first pattern that fits; None: nothing."""
        for pattern, carried in self._carry.items():
            if fnmatch.fnmatchcase(name, pattern):
                self._idle.discard(pattern)
                return carried
        return None

    def require_patterns(self) -> None:
        for pattern in self._carry:
            if pattern in self._idle:
                raise Error(
                    f"carry: the pattern {pattern!r} has no effect: no buffer and no frozen "
                    "parameter fits it, or an earlier pattern has them all"
                )


def tensors_of(model: torch.nn.Module, carry: Carry | None = None) -> list[Described]:
    """What the server keeps of a model, in the order of its state dict.

    Parameters are trained, or constant (frozen) where they need no gradient. Buffers
    of floating point numbers are running statistics, which the server combines,
    unless their layer is frozen or they are large: then they are constants. What is
    left (masks, indices, the extra state of modules, what is not trained and of another
    type) is constant, too, in a type of its own.

    Args:
        carry: Says otherwise of tensors that are not trained.
    """
    model = plain(model)
    kinds = _Kinds(model, carry)
    out: list[Described] = []
    first: dict[int, Described] = {}
    modules = dict(model.named_modules(remove_duplicate=False))
    for name, tensor in model.state_dict(keep_vars=True).items():
        if extra_state.is_extra(name):
            out.append(_extra(name, tensor, modules.get(name.rpartition(".")[0], model)))
            continue
        _require_values(name, tensor)
        path, _, key = name.rpartition(".")
        owner = modules.get(path, model)
        place = owner._parameters if isinstance(tensor, torch.nn.Parameter) else owner._buffers
        known = first.get(id(tensor))
        kind = (known.kind, known.frozen) if known else kinds.of(name, tensor, owner)
        where = (place, key) if place.get(key) is tensor else ({}, "")
        listed = kind[0] != CONSTANT and _was_statistic(tensor, owner)
        same_as = known.name if known else ""
        one = Described(name, tensor, *kind, same_as, listed=listed, place=where)
        first.setdefault(id(tensor), one)
        out.append(one)
    kinds.require_patterns()
    _check(out)
    refuse_shared(out)
    return out


def _extra(name: str, state: Any, owner: torch.nn.Module) -> Described:
    return Described(
        name, extra_state.to_tensor(name, state), CONSTANT, True, extra_of=owner
    )


def _check_form(x: Described) -> None:
    """Refuses what no file of weights can hold."""
    its = x.tensor
    try:
        x.name.encode()
    except UnicodeEncodeError:
        raise Error(f"{x.name!r}: the name of a tensor must be text that UTF-8 can have") from None
    if x.name == "__metadata__":
        raise Error(f"{x.name}: a tensor cannot have this name, which files of weights use")
    if its.layout != torch.strided:
        raise Error(f"{x.name} is {its.layout}: a file of weights keeps dense tensors alone")
    if safetensors.name_of(its.dtype) is None:
        raise Error(
            f"{x.name} is {its.dtype}, which no file of weights can keep; with "
            "persistent=False a buffer stays with the process"
        )


def _check(all: Iterable[Described]) -> None:
    for x in all:
        _check_form(x)
    numbers = [x for x in all if x.kind not in (COUNTER, CONSTANT)]
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


#: The numbers that a group may have of its own, and their names in the description.
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


#: Groups of parameters, as torch's optimisers take them.
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


def _pattern(name: str, others: Iterable[str]) -> str:
    """A pattern of the setting `param-groups` that fits this name alone."""
    out = re.sub(r"([*?\[])", r"[\1]", name)
    # A character that means something in the setting becomes `?`, which fits any.
    out = re.sub(r"""[\x00-\x20\x7f,=;#"'\\]""", "?", out)
    if "?" in out.replace("[?]", ""):
        parts = re.sub(r"""[\x00-\x20\x7f,=;#"'\\]|(.)""", _either, name, flags=re.S)
        fits = re.compile(parts)
        for other in others:
            if other != name and fits.fullmatch(other):
                raise Error(
                    f"param_groups has {name!r}, which the setting param-groups cannot tell "
                    f"from {other!r}: rename one, or give param_groups to troupe.describe alone"
                )
    return out


def _either(found: re.Match) -> str:
    return re.escape(found[1]) if found[1] else "(?s:.)"


def group_rules(model: torch.nn.Module, groups: ParamGroups) -> str:
    """These groups as a value of the setting `param-groups`."""
    names: dict[str, list[str]] = {}
    all = tensors_of(model)
    for name, numbers in _groups(all, groups).items():
        names.setdefault(numbers, []).append(_pattern(name, (x.name for x in all)))
    return ",".join(f"{' '.join(its)}={numbers}" for numbers, its in names.items())


def _word(name: str) -> str:
    """A name in a line of the metadata: as JSON where it would be misread otherwise."""
    plain_text = name.isprintable() and " = " not in name and not name.startswith('"')
    return name if plain_text and not name.endswith(" =") else json.dumps(name)


def _is_new(x: Described) -> bool:
    """Whether a tensor is of a kind that earlier releases did not describe."""
    return x.kind == CONSTANT and not (x.tensor.dtype == torch.int64 and x.tensor.dim() == 0)


def describe(
    model: torch.nn.Module,
    path: str | os.PathLike,
    param_groups: ParamGroups | None = None,
    carry: Carry | None = None,
) -> Path:
    """Writes the file for `--network weights:FILE`: what a parameter server has
    to know of the model, and its present weights, with which the run begins.

    Files for one run may differ in their values, but must describe the same tensors.
    A file of another kind that is there already is not replaced: that is an Error.

    Args:
        param_groups: Parameters with numbers of their own, as torch's optimisers
            take them: `{"params": model.head.parameters(), "lr": 0.01}`, with
            lr, weight_decay and momentum; names may stand for parameters. The
            server's settings hold for parameters in no group, and for numbers that
            a group does not give.
        carry: Which of the tensors that are not trained are sent with each step and
            combined (True), and which are constant (False), by name or pattern; the
            first that fits counts: `{"teacher.*": True, "*.mask": False}`. Without it,
            buffers below 1 MiB of layers that are not frozen are sent.
    """
    path = Path(os.path.expanduser(path))
    safetensors.require_replaceable(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    safetensors.write(path, *contents(model, param_groups, carry))
    return path


def contents(
    model: torch.nn.Module,
    param_groups: ParamGroups | None = None,
    carry: Carry | None = None,
) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """The tensors and the metadata of the file that `describe` writes."""
    all = tensors_of(model, carry)
    once = [x for x in all if not x.same_as]
    still = [x for x in once if x.kind == STATISTIC or x.frozen]

    def words(tensors: Iterable[Described]) -> list[str]:
        return [_word(x.name) for x in tensors]

    lines = {
        "troupe.statistics": words(x for x in still if x.listed),
        "troupe.frozen": words(x for x in still if not x.listed),
        "troupe.carried": words(x for x in still if not x.listed and not x.frozen),
        "troupe.constant": words(x for x in still if x.listed and x.frozen),
        "troupe.shared": [f"{_word(x.name)} = {_word(x.same_as)}" for x in all if x.same_as],
        "troupe.groups": [
            f"{_word(name)} = {numbers}"
            for name, numbers in _groups(all, param_groups or ()).items()
        ],
    }
    # Constants come last, those of wide types first, so that all tensors are aligned.
    # A single int64 stays where earlier releases have it: to them it is a counter.
    once.sort(key=lambda x: -x.tensor.element_size() if _is_new(x) else -1000)
    metadata = {key: "\n".join(names) for key, names in lines.items() if names}
    return {x.name: x.tensor for x in once}, metadata


def file_name(model: torch.nn.Module) -> str:
    """A short name for the files of this model: that of its class."""
    name = type(plain(model)).__name__
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower() or "model"
