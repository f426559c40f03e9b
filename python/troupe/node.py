"""The program of a worker or an evaluator, which this process starts and talks to."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence

from troupe import frames
from troupe.errors import Error
from troupe.failures import ERROR_FILE
from troupe.frames import Connection, Frame
from troupe.program import find, last_word, start, why_not_loaded

#: Seconds that the program has to open its socket, and as many to end.
_PATIENCE = 60.0

#: Seconds that it has to tell the run why this process fails.
_PATIENCE_TO_SAY_SO = 3.0


class Node:
    """A `trainer_node --role ROLE --compute external`, and the connection to it. What it
    prints goes into a file, from which its last line is read when it has ended."""

    def __init__(self, role: str, replay: str | os.PathLike | None = None) -> None:
        self._as = ["--role", role] if replay is None else ["--replay", os.fspath(replay)]
        try:
            self._folder = tempfile.TemporaryDirectory(prefix="troupe-")
        except OSError as why:
            raise Error(f"no folder for temporary files: {why}; see TMPDIR") from None
        # This file has no name, so a process that is killed leaves none behind.
        self._log = tempfile.TemporaryFile()
        self._line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._connection = Connection(self._line)
        self.process: subprocess.Popen | None = None
        self._program = ""
        #: How the run ended for the program: exit status and line.
        self.end: tuple[int, str] | None = None
        self.send = self._connection.send
        self.waits = self._connection.waits
        self.files = self._connection.files

    def start(self, flags: Sequence[str]) -> None:
        where, passed = _short(self._folder.name)
        where = os.path.join(where, "socket")
        command = [find(), *self._as, "--compute", "external"]
        command += ["--compute-socket", where, *flags]
        self._program = command[0]
        self.process = start(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,  # Ctrl-C is for this process, which then ends the program.
            pass_fds=passed,
            without=[ERROR_FILE],  # This process says itself why it fails.
        )
        try:
            self._connect(where)
        finally:
            for folder in passed:
                os.close(folder)

    def _connect(self, where: str) -> None:
        assert self.process is not None
        until = time.monotonic() + _PATIENCE
        while self._line.connect_ex(where) != 0:
            if self.process.poll() is not None:
                raise self.why_ended()
            if time.monotonic() > until:
                raise Error(f"{self._program} has not opened its socket in {_PATIENCE:.0f} s")
            time.sleep(0.005)
        self._folder.cleanup()  # The connection needs no name.

    def receive(self) -> Frame:
        """The next frame. Raises Error if the program has ended without a last frame."""
        frame = self._connection.receive()
        if frame is None:
            raise self.why_ended()
        return frame

    def why_ended(self) -> Error:
        """The line with which the program has ended."""
        if self.end is not None and self.end[1]:
            return Error(self.end[1])
        status = None
        if self.process is not None:
            try:
                status = self.process.wait(10)
            except subprocess.TimeoutExpired:
                pass
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").split("\n")
        for line in reversed(lines):
            if (said := last_word(line)) is not None:
                return Error(said)
        said = why_not_loaded(self._program, lines)
        return Error(said or f"trainer_node has ended without a reason, with exit status {status}")

    @property
    def failed(self) -> bool:
        """Whether the run has ended with an error."""
        return self.end is not None and self.end[0] in (1, 2)

    def raise_failure(self) -> None:
        """Raises Error if the run has ended with an error."""
        if self.failed:
            raise self.why_ended()

    def stop_in_time(self, number: int) -> None:
        """Passes this signal on: the program leaves when it has the gradient that is
        computed now."""
        if self.process is not None and self.end is None and self.process.poll() is None:
            self.process.send_signal(number)

    def fail(self, text: str) -> None:
        """Tells the program that this process fails, and gives it time to pass that on."""
        if self.process is not None and self.end is None:
            self.send(frames.FAILED, 0, frames.text(text))
            _ended_within(_PATIENCE_TO_SAY_SO, self.process)

    def stop(self) -> None:
        """Ends the program, if it has not ended, and waits until it has."""
        process, self.process = self.process, None
        if process is not None and self.end is None and process.poll() is None:
            process.send_signal(signal.SIGINT)  # At once: nothing is computed any more.
            # It takes a connection that closes before the signal comes for an error.
            _ended_within(1, process)
        self._connection.close()
        if process is not None and not _ended_within(_PATIENCE, process):
            process.kill()
            process.wait()
        self._log.close()
        self._folder.cleanup()


def _short(folder: str) -> tuple[str, list[int]]:
    """A path of the folder that is short enough for a socket in it, since the path of a
    socket has at most 107 bytes; and the descriptors that a child needs to use it."""
    if len(os.fsencode(folder)) < 90:
        return folder, []
    opened = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    return f"/proc/self/fd/{opened}", [opened]


def _ended_within(seconds: float, process: subprocess.Popen) -> bool:
    try:
        process.wait(seconds)
        return True
    except subprocess.TimeoutExpired:
        return False
