"""Small clusters of processes on one GPU, to which something happens."""

import json
import os
import signal
import socket
import statistics
import time

from processes import Failed

DIGITS = 1437  # Samples of the bundled data set's train part.


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def lines_of(folder):
    """Those of metrics.jsonl; a last one that is not whole is left out."""
    try:
        text = (folder / "metrics.jsonl").read_text()
    except FileNotFoundError:
        return []
    return [json.loads(x) for x in text.splitlines(keepends=True) if x.endswith("\n")]


class Run:
    """A run that has ended, by what it has left in its folder."""

    def __init__(self, folder):
        self.lines = lines_of(folder)
        try:
            self.summary = json.loads((folder / "summary.json").read_text())
        except FileNotFoundError:
            raise Failed("the run has left no summary") from None
        self.updates = [x for x in self.lines if x["kind"] == "update"]
        if not self.updates:
            raise Failed("the run has made no update")

    @property
    def last_loss(self):
        """Of the last tenth of the updates, since that of one is noise."""
        last = self.updates[-max(1, len(self.updates) // 10) :]
        return statistics.mean(x["loss"] for x in last)

    def rate(self):
        """Samples a second of all updates but those of the first fifth."""
        first = max(1, len(self.updates) // 5)
        measured = self.updates[first:]
        seconds = measured[-1]["time"] - self.updates[first - 1]["time"] if measured else 0
        if seconds <= 0:
            raise Failed("the run has too few updates to measure")
        return sum(x["samples"] for x in measured) / seconds


class Cluster:
    """A server on this host and its workers, each a process."""

    def __init__(self, bench, transport, *settings):
        self._bench = bench
        self.port = free_port()
        self.folder = bench.new_folder()
        self._way = ["--transport", transport] if transport else []
        self._variables = {}
        if transport == "nccl":
            settings += ("--device", "cuda")
            self._variables = bench.machine.for_nccl()
        self.server = self._node("ps", *settings, "--train-dir", self.folder)

    def worker(self, device=""):
        return self._node("worker", "--device", device or self._bench.device)

    def stop(self):
        self.server.signal(signal.SIGTERM)
        self._bench.require_end(self.server, status=os.EX_TEMPFAIL)

    def _node(self, role, *more):
        command = [self._bench.program, "--role", role, "--port", self.port, *self._way, *more]
        return self._bench.start(role, command, **self._variables)

    def await_lines(self, kind, count):
        def are_there():
            return sum(x["kind"] == kind for x in lines_of(self.folder)) >= count

        self._bench.wait_until(are_there, self.server, f"{count} lines of {kind}")

    def require_all_samples(self, epochs):
        self._bench.require_end(self.server)
        run = Run(self.folder)
        if run.summary["samples_applied"] != epochs * DIGITS:
            raise Failed(f"{run.summary['samples_applied']} samples in {epochs} epochs")
        return run


def train(bench, workers, transport):
    epochs = 4
    cluster = Cluster(
        bench, transport, "--workers", workers, "--policy", "sync", "--epochs", epochs
    )
    all_of_them = [cluster.worker() for _ in range(workers)]
    run = cluster.require_all_samples(epochs)
    for one in all_of_them:
        bench.require_end(one)
    ways = set(run.summary["transport"].values())
    if ways != {transport}:
        raise Failed(f"tensors went over {', '.join(sorted(ways))}, not {transport}")
    return run.rate()


def kill(bench, transport):
    """Kills a worker of a synchronous run; returns the seconds that this took more until
    its end. Every sample must count once."""
    epochs = 8
    cluster = Cluster(bench, transport, "--workers", 3, "--policy", "sync", "--epochs", epochs)
    first, second, third = (cluster.worker() for _ in range(3))
    cluster.await_lines("update", 10)
    third.signal(signal.SIGKILL)
    begin = time.monotonic()
    cluster.require_all_samples(epochs)
    took = time.monotonic() - begin
    for one in (first, second):
        bench.require_end(one)
    return took


def refuse_nan(bench):
    """A Python worker that sends NaN beside one that does not, under sync; returns how
    many gradients the server has refused."""
    steps = 24
    port, folder = free_port(), bench.new_folder()
    settings = ["workers=2", "policy=sync", "epochs=1", "batch-size=8", f"size={8 * steps}"]
    words = ["serve", "lenet", folder, port, *settings]
    server = bench.start("ps", bench.python_command("training.py", *words))
    workers = [
        bench.start(
            f"worker-{seed}",
            bench.python_command("training.py", "bad", steps, bench.python_device, port, seed),
        )
        for seed in (0, 1)
    ]
    bench.require_end(server)
    run = Run(folder / "run")
    for one in workers:
        bench.require_end(one)
    refused = run.summary["gradients_refused"]
    if refused == 0:
        raise Failed("no gradient was refused, though a worker has sent NaN")
    if run.summary["samples_applied"] != 8 * steps:
        raise Failed(f"{run.summary['samples_applied']} samples of {8 * steps}")
    return refused


def join_and_leave(bench, times):
    """A worker joins and leaves beside one that stays; returns the mean seconds."""
    cluster = Cluster(
        bench, "", "--workers", 1, "--policy", "async", "--epochs", 1000000, "--momentum", 0
    )
    cluster.worker()
    cluster.await_lines("update", 1)
    begin = time.monotonic()
    for i in range(times):
        guest = cluster.worker()
        cluster.await_lines("joined", i + 2)
        guest.signal(signal.SIGTERM)
        bench.require_end(guest)
    took = time.monotonic() - begin
    cluster.stop()
    return took / times


def refuse_one_too_many(bench, devices):
    """As many workers as devices take one each, and the next is refused; returns its
    line."""
    cluster = Cluster(bench, "", "--workers", devices, "--policy", "async", "--epochs", 1000000)
    for _ in range(devices):
        cluster.worker("cuda")
    cluster.await_lines("joined", devices)
    refused = cluster.worker("cuda")
    if refused.wait(bench.deadline) != 1 or "other processes have taken" not in refused.err:
        raise Failed(f"one worker too many was not refused, but: {refused.why()}")
    cluster.stop()
    return refused.why()
