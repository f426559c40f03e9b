"""The program trainer_node: where it is, and how it is started."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import torch

from troupe import safetensors
from troupe.description import Carry, ParamGroups, contents, file_name, group_rules
from troupe.errors import Error

#: Names the program where it is neither in the package nor in the PATH.
VARIABLE = "TROUPE_TRAINER_NODE"


def find() -> str:
    """The path of trainer_node."""
    given = os.environ.get(VARIABLE)
    if given:
        if not os.access(given, os.X_OK):
            raise Error(f"{VARIABLE}={given}: there is no program that can be started")
        return given
    bundled = Path(__file__).parent / "bin" / "trainer_node"
    if os.access(bundled, os.X_OK):
        return str(bundled)
    found = shutil.which("trainer_node")
    if not found:
        raise Error(
            "trainer_node is not in the PATH: build Troupe, and put build/release/bin "
            f"into the PATH or name the program with {VARIABLE}"
        )
    return found


def flags(config: str | os.PathLike | None, settings: Mapping[str, Any]) -> list[str]:
    """Settings as flags: batch_size=64 is --batch-size 64."""
    out = ["--config", os.fspath(config)] if config is not None else []
    for key, value in settings.items():
        if value is None:
            continue
        _refuse_torch(key, value)
        if isinstance(value, bool):
            value = "true" if value else "false"
        out += ["--" + key.replace("_", "-"), str(value)]
    return out


def _refuse_torch(key: str, value: Any) -> None:
    """Objects that would act on this process alone."""
    if isinstance(value, torch.optim.lr_scheduler.LRScheduler):
        raise Error(
            f"{key}: a scheduler of torch's changes nothing here, the learning rate is the "
            'server\'s: give the server lr_schedule="cosine" or another one by its name'
        )
    if isinstance(value, torch.optim.Optimizer):
        raise Error(
            f"{key}: an optimiser of torch's changes nothing here, the steps are the server's: "
            'give the server optimizer="adamw" or another one by its name, lr=... and so on'
        )


def dataset(size: int, name: str) -> str:
    if size < 1:
        raise Error(f"dataset_size={size}: there must be a sample at least")
    if any(c in name for c in "(),= \t\n"):
        raise Error(f"dataset_id={name!r}: give a word without blanks, commas and brackets")
    return f"external(samples={size},id={name or 'data'})"


def serve(
    model: torch.nn.Module,
    config: str | os.PathLike | None = None,
    *,
    dataset_size: int,
    dataset_id: str = "",
    param_groups: ParamGroups | None = None,
    carry: Carry | None = None,
    **settings: Any,
) -> int:
    """Runs the parameter server for this model, and returns its exit status.

    The model's present weights are the first ones of a new run, which keeps them in
    its folder. A run that goes on needs a model that has the same tensors, whatever
    the values.

    Args:
        config: An INI file of settings, docs/configuration.md.
        dataset_size: Samples of an epoch.
        dataset_id: A word that tells this data set from others.
        param_groups: Parameters with lr, weight_decay or momentum of their own,
            as torch's optimisers take them: `{"params": model.head.parameters(), "lr":
            0.01}`; names may stand for parameters. Those in no group have the numbers
            of the settings, and so has a group for what it does not say.
        carry: Which tensors that are not trained are sent with each step and
            combined, and which are constant, by name or pattern; the first that
            fits counts: `{"teacher.*": True, "*.mask": False}`. Without it,
            buffers below 1 MiB of layers that are not frozen are carried.
        settings: Any setting by its flag's name: policy="ssp", batch_size=64.
    """
    if param_groups is not None:
        settings["param_groups"] = group_rules(model, param_groups)
    given = flags(config, settings)
    command = [find(), "--role", "ps"]
    command += ["--dataset", dataset(dataset_size, dataset_id), *given]
    with _described(model, carry) as file:
        command += ["--network", f"weights:/proc/self/fd/{file.fileno()}"]
        return _wait(command, file.fileno())


def _described(model: torch.nn.Module, carry: Carry | None) -> IO[bytes]:
    """The description of a model in a file without a name, open for the program, which
    keeps it in the run's folder."""
    name = f"{file_name(model)}.safetensors"
    tensors, metadata = contents(model, carry=carry)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
    try:
        with tempfile.TemporaryDirectory(prefix="troupe-") as folder:
            number = os.open(os.path.join(folder, name), flags, 0o600)
    except OSError:  # No folder may be written to.
        number = os.memfd_create(name)
    out = open(number, "w+b")
    try:
        safetensors.write_to(out, tensors, metadata)
        out.flush()
    except OSError as why:
        out.close()
        raise Error(f"the model's description cannot be written: {why.strerror}") from None
    return out


def launch(
    config: str | os.PathLike | None,
    workers: int,
    script: str | os.PathLike,
    *arguments: str,
    evaluator: str | os.PathLike | None = None,
    max_restarts: int = 0,
    log_dir: str | os.PathLike | None = None,
) -> int:
    """Runs a parameter server, and a script so many times beside it, on this
    machine; returns the exit status of the run.

    Args:
        config: The settings of the server, with network and dataset.
        script: A Python program with a `troupe.Worker`; its arguments follow.
        evaluator: A Python program with a `troupe.Evaluator`.
        max_restarts: How often each process that died is started again.
        log_dir: A folder for what each process prints.
    """
    command = [find(), "launch", "--workers", str(workers)]
    command += ["--max-restarts", str(max_restarts)]
    if config is not None:
        command += ["--config", os.fspath(config)]
    if log_dir is not None:
        command += ["--log-dir", os.fspath(log_dir)]
    if evaluator is not None:
        words = [sys.executable, os.fspath(evaluator)]
        command += ["--evaluator-command", shlex.join(words)]
    command += ["--", sys.executable, os.fspath(script), *arguments]
    return _wait(command)


def _wait(command: list[str], *files: int) -> int:
    with subprocess.Popen(command, pass_fds=files) as process:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                pass  # It got the signal, too: it ends with a checkpoint.
