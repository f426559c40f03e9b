"""Programs that a step starts: each in a session of its own, with what it prints in a
file, and dead when the step is over."""

import os
import signal
import subprocess
import time
from pathlib import Path


class Failed(Exception):
    """A step came to nothing; the text is one line that says why."""


class OutOfTime(Failed):
    """A step was not over when its time was."""


def last_line(text):
    lines = [x.strip() for x in text.splitlines() if x.strip()]
    return lines[-1] if lines else ""


class Child:
    """A program that runs."""

    def __init__(self, name, command, environment, log):
        self.name = name
        self._out, self._err = log.with_suffix(".out"), log.with_suffix(".err")
        with open(self._out, "wb") as out, open(self._err, "wb") as err:
            try:
                self._process = subprocess.Popen(
                    [str(x) for x in command],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    start_new_session=True,
                )
            except OSError as why:
                raise Failed(f"{command[0]} cannot be started: {why.strerror}") from None

    @property
    def out(self):
        return self._out.read_text(errors="replace")

    @property
    def err(self):
        return self._err.read_text(errors="replace")

    @property
    def status(self):
        """None while it runs."""
        return self._process.poll()

    def signal(self, number):
        self._process.send_signal(number)

    def why(self):
        """Its own line about its end."""
        said = last_line(self.err) or last_line(self.out)
        return said or f"{self.name} ended with status {self.status} and said nothing"

    def wait(self, deadline):
        """The status with which it ends before this time (time.monotonic())."""
        try:
            return self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise OutOfTime(
                f"{self.name} was not over in time; its last line: {last_line(self.out)}"
            ) from None

    def kill(self):
        """Ends it and whatever it has started."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()


class Children:
    """The programs of one step."""

    def __init__(self, environment, folder, deadline):
        self.environment = environment
        self.folder = Path(folder)
        self.deadline = deadline
        self._all = []

    def start(self, name, command, **variables):
        """
        Args:
            variables: What its environment has beyond that of all.
        """
        log = self.folder / f"{len(self._all):02}-{name}"
        child = Child(name, command, {**self.environment, **variables}, log)
        self._all.append(child)
        return child

    def require_end(self, child, status=0):
        if child.wait(self.deadline) != status:
            raise Failed(child.why())

    def wait_until(self, holds, who, subject):
        """Waits until something holds; fails if that program ends first."""
        while not holds():
            if who.status is not None:
                raise Failed(who.why())
            if time.monotonic() > self.deadline:
                raise OutOfTime(f"no {subject} in time")
            time.sleep(0.02)

    def end(self):
        for child in self._all:
            child.kill()
