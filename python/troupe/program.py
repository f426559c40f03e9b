"""The program trainer_node: where it is, and how it is started."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import torch

from troupe import safetensors
from troupe.description import Carry, ParamGroups, contents, file_name, group_rules
from troupe.errors import Error

#: Names the program where it is neither in the package nor in the PATH.
VARIABLE = "TROUPE_TRAINER_NODE"

#: Names a process: when that has ended, the program stops as by SIGTERM.
_LEASH = "TROUPE_LEASH"


#: The release of torch that the program is built for; pyproject.toml asks for it.
BUILT_FOR = "2.11"

#: The program that the wheel has inside.
_BUNDLED = Path(__file__).parent / "bin" / "trainer_node"


def _libraries_of_torch() -> Path:
    return Path(torch.__file__).parent / "lib"


def environment(program: str) -> dict[str, str]:
    """The environment for the program: that of this process. The program in this package
    looks for torch's libraries beside the package; if this Python has them elsewhere,
    LD_LIBRARY_PATH names the folder."""
    out = dict(os.environ)
    libraries = str(_libraries_of_torch())
    if os.path.realpath(program) != os.path.realpath(_BUNDLED):
        return out  # Another program finds its own libraries.
    beside = os.path.realpath(_BUNDLED.parents[2] / "torch" / "lib")
    before = [x for x in out.get("LD_LIBRARY_PATH", "").split(":") if x]
    if os.path.realpath(libraries) != beside and libraries not in before:
        out["LD_LIBRARY_PATH"] = ":".join([libraries, *before])
    return out


def start(
    command: Sequence[str], without: Iterable[str] = (), **options: Any
) -> subprocess.Popen:
    """Starts the program, which ends with this process, however that ends.

    Args:
        without: Variables that it does not get.
        options: Of Popen.
    """
    leashed = {**environment(command[0]), _LEASH: str(os.getpid())}
    for variable in without:
        leashed.pop(variable, None)
    try:
        return subprocess.Popen(command, env=leashed, **options)
    except OSError as why:
        raise Error(f"{command[0]} cannot be started: {why.strerror}") from None


def last_word(line: str) -> str | None:
    """The reason for its end, if the program gives it in this line."""
    if line.startswith('{"level":'):  # --log-format json
        try:
            line = json.loads(line)["message"]
        except (ValueError, KeyError):
            return None
    begin = "trainer_node: "
    return line.removeprefix(begin).strip() if line.startswith(begin) else None


def why_not_loaded(program: str, lines: Iterable[str]) -> str | None:
    """What the system's loader said, if it could not load the program."""
    for line in lines:
        if line.startswith(f"{program}: "):
            why = line.removeprefix(f"{program}: ").strip()
            return (
                f"trainer_node cannot start: {why} ({program} is built for torch "
                f"{BUILT_FOR}; this Python has torch {torch.__version__} in "
                f"{_libraries_of_torch().parent})"
            )
    return None


def find() -> str:
    """The path of trainer_node."""
    given = os.environ.get(VARIABLE)
    if given:
        if not os.access(given, os.X_OK):
            raise Error(f"{VARIABLE}={given}: there is no program that can be started")
        return given
    if os.access(_BUNDLED, os.X_OK):
        return str(_BUNDLED)
    found = shutil.which("trainer_node")
    if not found or _is_ours(found):
        raise Error(
            "trainer_node is not in the PATH: build Troupe, and put build/release/bin "
            f"into the PATH or name the program with {VARIABLE}"
        )
    return found


def _is_ours(command: str) -> bool:
    """Whether this is the script that a wheel installs, and not the program itself."""
    with open(command, "rb") as file:
        return file.read(2) == b"#!"


def flags(config: str | os.PathLike | None, settings: Mapping[str, Any]) -> list[str]:
    """Settings as flags: batch_size=64 is --batch-size 64."""
    out = ["--config", os.fspath(config)] if config is not None else []
    for key, value in settings.items():
        if key == "resume" and isinstance(value, bool):
            value = "auto" if value else None
        if value is None:
            continue
        _refuse_torch(key, value)
        out += ["--" + key.replace("_", "-"), _text(key, value)]
    return out


def _text(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)) and all(isinstance(x, str) for x in value):
        return ",".join(value)
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    if isinstance(value, (str, int, float, os.PathLike)) or hasattr(value, "__float__"):
        return str(value)
    hint = ""
    if isinstance(value, Mapping):
        hint = '; each number is a setting of its own: optimizer="sgd", lr=0.1, momentum=0.9'
    raise Error(f"{key}={value!r}: a setting is a text, a number or a path{hint}")


def _refuse_torch(key: str, value: Any) -> None:
    """Refuses objects of torch's that would act on this process alone."""
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
    its folder. A run that goes on needs a model with the same tensors; their values do
    not matter.

    Args:
        config: An INI file of settings, docs/configuration.md.
        dataset_size: Samples of an epoch.
        dataset_id: A word that tells this data set from others.
        param_groups: Parameters with lr, weight_decay or momentum of their own,
            as torch's optimisers take them: `{"params": model.head.parameters(), "lr":
            0.01}`; names may stand for parameters. The settings hold for parameters in
            no group, and for numbers that a group does not give.
        carry: Which of the tensors that are not trained are sent with each step and
            combined (True), and which are constant (False), by name or pattern; the
            first that fits counts: `{"teacher.*": True, "*.mask": False}`. Without it,
            buffers below 1 MiB of layers that are not frozen are sent.
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
    except OSError:  # There is no folder to write to.
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
    workers: int | str,
    script: str | os.PathLike,
    *arguments: str,
    evaluator: str | os.PathLike | None = None,
    max_restarts: int = 0,
    log_dir: str | os.PathLike | None = None,
    hosts: str | os.PathLike | None = None,
    copy: Iterable[str | os.PathLike] = (),
) -> int:
    """Runs a parameter server and, beside it, a script in as many processes as there
    are workers, on this machine or over ssh on others; returns the exit status of the
    run.

    Args:
        config: An INI file with the server's settings, network and dataset included.
        workers: Their number, or "2:4" for at least two and at most four.
        script: A Python program with a `troupe.Worker`; its arguments follow.
        evaluator: A Python program with a `troupe.Evaluator`.
        max_restarts: How often each process that died is started again.
        log_dir: A folder for what each process prints.
        hosts: A file with a line for each machine, docs/cluster.md. Each needs this
            Python, with its packages, in the same place. The settings go along, and
            script and evaluator if they lie below this working folder.
        copy: What else goes along: files and folders.
    """
    command = [find(), "launch", "--workers", str(workers)]
    command += ["--max-restarts", str(max_restarts)]
    if config is not None:
        command += ["--config", os.fspath(config)]
    if log_dir is not None:
        command += ["--log-dir", os.fspath(log_dir)]
    copies = [os.fspath(one) for one in copy]
    if hosts is not None:
        command += ["--hosts", os.fspath(hosts)]
    program = _program_of(script, hosts is not None, copies)
    if evaluator is not None:
        words = _program_of(evaluator, hosts is not None, copies)
        command += ["--evaluator-command", shlex.join(words)]
    for one in copies:
        command += ["--copy", one]
    command += ["--", *program, *arguments]
    return _wait(command)


def _program_of(
    script: str | os.PathLike, travels: bool, copies: list[str]
) -> list[str]:
    """The command that runs a script. If that travels, and lies below the working
    folder, it is added to the copies, and is named as on each host."""
    path = os.path.expanduser(script)
    inside = os.path.relpath(path)
    if travels and not inside.startswith(os.pardir):
        path = inside
        if inside not in copies:
            copies.append(inside)
    return [sys.executable, path]


#: The signals that are passed on to the program, and as which. A terminal that is
#: closed (SIGHUP) means the same as a request to stop.
_PASSED_ON = {
    signal.SIGINT: signal.SIGINT,
    signal.SIGTERM: signal.SIGTERM,
    signal.SIGHUP: signal.SIGTERM,
}


def _wait(command: list[str], *files: int) -> int:
    """Runs a program to its end, and returns its exit status. Signals to this process
    are passed on to the program, which ends with a checkpoint; the user's handlers are
    called, too. The program ends with this process in any case. If it refuses its
    settings (exit status 2), that is an Error with its line."""
    relay = _Relay()
    with relay:
        # In a session of its own, so that Ctrl-C reaches it once: from here.
        process = start(
            command, stderr=subprocess.PIPE, start_new_session=True, pass_fds=files
        )
        relay.start(process)
        lines = _Lines(process, command[0])
        try:
            status = process.wait()
        except BaseException:  # From a handler of the user's.
            process.terminate()
            process.wait()
            lines.finish()
            raise
        line = lines.finish(silent=status == 2)
    if lines.why_not_loaded is not None:
        raise Error(lines.why_not_loaded)
    if status == 2:
        raise Error(line or "the settings are refused: see what was printed before")
    return 128 - status if status < 0 else status


class _Relay:
    """Passes signals on to a process while it runs. Python lets only the main thread do
    that; from another thread nothing is passed on, and a signal that ends this process
    ends the program as well."""

    def __init__(self) -> None:
        self._process: subprocess.Popen | None = None
        self._early: list[int] = []
        self._before: dict[int, Any] = {}

    def __enter__(self) -> _Relay:
        if threading.current_thread() is threading.main_thread():
            for number in _PASSED_ON:
                before = signal.getsignal(number)
                if before is not signal.SIG_IGN and before is not None:
                    self._before[number] = before
                    signal.signal(number, self._take)
        return self

    def __exit__(self, *what: object) -> None:
        for number, before in self._before.items():
            if signal.getsignal(number) == self._take:
                signal.signal(number, before)

    def start(self, process: subprocess.Popen) -> None:
        self._process = process
        for number in self._early:
            process.send_signal(_PASSED_ON[signal.Signals(number)])

    def _take(self, number: int, frame: Any) -> None:
        if self._process is None:
            self._early.append(number)
        else:
            self._process.send_signal(_PASSED_ON[signal.Signals(number)])
        before = self._before[number]
        if callable(before) and before is not signal.default_int_handler:
            before(number, frame)


class _Lines:
    """Passes on what a program writes to its standard error. Its last word, the line
    that says why it ends, is passed on when it has ended."""

    def __init__(self, process: subprocess.Popen, program: str) -> None:
        self._from = process.stderr
        self._program = program
        self.why_not_loaded: str | None = None
        self._last: list[str] = []
        self._thread = threading.Thread(target=self._pass_on, daemon=True)
        self._thread.start()

    def _pass_on(self) -> None:
        assert self._from is not None
        for line in self._from:
            text = line.decode(errors="replace")
            self.why_not_loaded = self.why_not_loaded or why_not_loaded(self._program, [text])
            if self.why_not_loaded is not None:
                continue
            if last_word(text) is not None:
                self._last.append(text)
            else:
                _say(text)

    def finish(self, silent: bool = False) -> str:
        """Returns the last word, and passes it on unless this is to be silent."""
        self._thread.join(2)  # A child of the program's may hold the pipe.
        if not silent:
            for text in self._last:
                _say(text)
        return " ".join(last_word(text) or "" for text in self._last)


def _say(text: str) -> None:
    print(text, end="", file=sys.stderr, flush=True)
