"""A launcher and all processes that it starts. Only these are killed or ended here.
One thread; one launcher for each process of ours."""

import ctypes
import os
import signal
import subprocess
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
PATIENCE = 40  # Seconds; a server of Troupe may take 25 for its end.


def children(pid):
    try:
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [int(x) for x in found]


def descendants(pid):
    found = []
    for child in children(pid):
        found += [child, *descendants(child)]
    return found


class Launched:
    """
    Args:
        command: Of the launcher.
        output: The file for what all of its processes print.
    """

    def __init__(self, command, output):
        # What outlives its parent becomes a child of this process.
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        with open(output, "wb") as file:
            self.launcher = subprocess.Popen(
                command, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
            )

    def runs(self):
        return self.launcher.poll() is None

    def kill(self, pid):
        """Returns the time; None if that process is not there any more."""
        if pid not in descendants(self.launcher.pid):
            return None
        now = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        return now

    def end(self):
        """Asks the launcher to end, and ends what is left after that."""
        if self.runs():
            self.launcher.terminate()
        try:
            self.launcher.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.launcher.kill()
            self.launcher.wait()
        for pid in descendants(os.getpid()):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            while True:
                os.waitpid(-1, 0)
        except ChildProcessError:
            pass
