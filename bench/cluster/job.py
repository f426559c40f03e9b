"""What the workers of each system train, and the log of their steps.

A worker writes lines to FOLDER/steps.log, each with one system call, before it goes on:

    start PID TIME SLOT [STEP]    a worker has begun in this slot (rank) of the cluster,
                                  with the weights of this step if it has a snapshot
    begin PID TIME STEP EPOCH COUNTS INDEX,...
                                  it is about to compute and send a gradient of these
                                  samples; COUNTS is 0 if the sum is made without it
    end PID TIME MEMBERS          the step is made, by the gradients of so many members;
                                  0: this gradient is not in the weights
"""

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

WORKERS, BATCH = 2, 64
SAMPLES = 23 * WORKERS * BATCH  # Of an epoch: whole batches, and snapshots lie within it.
#: So long a forward takes at least, as it does on an accelerator: the core is free then.
FORWARD_SECONDS = 0.03
#: Of the weights and the optimiser, in steps.
SNAPSHOT_STEPS = 20


@dataclass
class Step:
    """A gradient that a worker has computed."""

    pid: int
    slot: int
    began: float
    number: int
    epoch: int
    counts: bool
    indices: tuple
    ended: float | None = None
    members: int = 0  # Whose gradients made the step; 0: not known, or it was not made.

    def samples(self):
        return [(self.epoch, index) for index in self.indices]


@dataclass
class Start:
    pid: int
    slot: int
    time: float
    step: int


class StepLog:
    """Writes the lines of this process."""

    def __init__(self, folder):
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self.file = os.open(f"{folder}/steps.log", flags)

    def start(self, slot, step=0):
        self._write("start", slot, step)

    def begin(self, number, epoch, indices, counts=True):
        self._write("begin", number, epoch, int(counts), ",".join(map(str, indices)))

    def end(self, members):
        self._write("end", int(members))

    def _write(self, kind, *fields):
        words = [kind, os.getpid(), f"{time.monotonic():.4f}", *fields]
        os.write(self.file, (" ".join(map(str, words)) + "\n").encode())


class ReadLog:
    """Follows the log while it is written."""

    def __init__(self, folder):
        self.path, self.position = Path(folder) / "steps.log", 0
        self.starts, self.steps = [], []
        self._slots, self._newest = {}, {}

    def read_on(self):
        if not self.path.exists():
            return
        with open(self.path, "rb") as file:
            file.seek(self.position)
            text = file.read()
        text = text[: text.rfind(b"\n") + 1]
        self.position += len(text)
        for line in text.decode().splitlines():
            kind, pid, at, *fields = line.split(" ")
            getattr(self, "_" + kind)(int(pid), float(at), *fields)

    def newest_pid(self, slot):
        """The id of the process that was started last for this slot; None if no process
        was started for it."""
        held = [x.pid for x in self.starts if x.slot == slot]
        return held[-1] if held else None

    def _start(self, pid, at, slot, step):
        self._slots[pid] = int(slot)
        self.starts.append(Start(pid, int(slot), at, int(step)))

    def _begin(self, pid, at, number, epoch, counts, indices):
        new = Step(
            pid, self._slots[pid], at, int(number), int(epoch), counts == "1",
            tuple(map(int, indices.split(","))),
        )
        self._newest[pid] = new
        self.steps.append(new)

    def _end(self, pid, at, members):
        self._newest[pid].ended, self._newest[pid].members = at, int(members)


class Training:
    """The network on random samples. Needs torch, which only workers import."""

    def __init__(self):
        import torch

        sys.path.insert(0, str(Path(__file__).parents[1] / "peers"))
        import networks

        torch.set_num_threads(1)
        draw = torch.Generator().manual_seed(1)
        self.inputs = torch.randn(SAMPLES, *networks.SHAPES["lenet"], generator=draw)
        self.targets = torch.randint(10, (SAMPLES,), generator=draw)
        self.network = networks.make_network("lenet")
        self.make_optimizer = networks.make_optimizer
        self._cross_entropy = torch.nn.functional.cross_entropy

    def loss(self, network, indices):
        begin = time.monotonic()
        found = self._cross_entropy(network(self.inputs[indices]), self.targets[indices])
        time.sleep(max(0.0, begin + FORWARD_SECONDS - time.monotonic()))
        return found
