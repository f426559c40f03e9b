"""Notices what a worker's loop must not do itself: steps of an optimiser of torch's,
of a scheduler, or scaled gradients."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau
from torch.optim.optimizer import register_optimizer_step_post_hook


class _Watch:
    def __init__(self, parameters: Iterable[torch.Tensor]) -> None:
        self._ours = {id(x) for x in parameters}
        self._said: set[str] = set()

    def steps(self, optimizer: Any) -> bool:
        """Whether an optimiser changes parameters of the worker's model."""
        groups = getattr(optimizer, "param_groups", ())
        return any(id(x) in self._ours for group in groups for x in group["params"])

    def say(self, what: str, why: str) -> None:
        if what not in self._said:
            self._said.add(what)
            warnings.warn(f"{what} in a worker's loop: {why}", RuntimeWarning, stacklevel=4)

    def optimizer(self, optimizer: Any, *_: Any) -> None:
        if self.steps(optimizer):
            self.say(
                f"{type(optimizer).__name__}.step()",
                "the parameter server makes the steps, and its weights replace these; leave "
                "it out, and give the server optimizer=..., lr=...",
            )

    def scheduler(self, scheduler: Any) -> None:
        is_made = not getattr(scheduler, "_is_initial", False)  # A constructor steps, too.
        if is_made and self.steps(getattr(scheduler, "optimizer", None)):
            self.say(
                f"{type(scheduler).__name__}.step()",
                "the learning rate is the parameter server's; leave it out, and give the "
                "server lr_schedule=...",
            )

    def scaler(self, scaler: Any) -> None:
        if scaler.is_enabled():
            self.say(
                f"{type(scaler).__name__}.scale()",
                "its factor would be in the gradients that are pushed; call backward() on "
                "the loss itself, and compute in bfloat16 with torch.autocast",
            )


def _before(owner: type, name: str, call: Callable[[Any], None]) -> Callable[[], None]:
    """Has `call` get the object before each call of a method. Returns a function that
    undoes this."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def method(self: Any, *given: Any, **named: Any) -> Any:
        call(self)
        return original(self, *given, **named)

    setattr(owner, name, method)

    def undo() -> None:
        if owner.__dict__.get(name) is method:
            setattr(owner, name, original)

    return undo


def _kinds_of(kind: type) -> Iterator[type]:
    yield kind
    for one in kind.__subclasses__():
        yield from _kinds_of(one)


def watch_own_steps(parameters: Iterable[torch.Tensor]) -> Callable[[], None]:
    """Warns once for each kind of step that a worker's loop makes itself. Returns a
    function that ends the watch."""
    watch = _Watch(parameters)
    undo = [register_optimizer_step_post_hook(watch.optimizer).remove]
    for kind in {ReduceLROnPlateau, *_kinds_of(LRScheduler)}:
        if "step" in kind.__dict__:
            undo.append(_before(kind, "step", watch.scheduler))
    undo.append(_before(torch.amp.GradScaler, "scale", watch.scaler))

    def stop() -> None:
        for one in reversed(undo):
            one()

    return stop
