"""Loops in Python, to be measured beside each other.

    loops.py plain|async|sync NETWORK BATCH STEPS OUT [WORKERS]
    loops.py step|views BYTES 1 STEPS OUT
    loops.py launch - 1 1 OUT

The first line: as peers.py, whose networks and clock these are. plain: WORKERS
(2) processes that share nothing. async, sync: as many workers of Troupe.

step: the median seconds of worker.step() with a tensor of BYTES, after a
backward that computes almost nothing; views: with views=True. The only worker
has all cores. launch: the seconds from launching a server and a worker to the
worker's first step, without those that its import of torch took.
"""

import os
import socket
import statistics
import sys
import tempfile
import time
from pathlib import Path

BEGIN = time.monotonic()
import torch  # noqa: E402

IMPORT_SECONDS = time.monotonic() - BEGIN

import troupe  # noqa: E402
from torch import nn  # noqa: E402

sys.path.insert(0, str(Path(__file__).parents[1] / "peers"))
import peers  # noqa: E402

SAMPLES = 2000
SETTINGS = {"lr": 1e-3, "checkpoint_freq": 1000000, "batch_size": int(sys.argv[3])}


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


# -- loops that compute --------------------------------------------------------


def plain_loop(rank, task, barrier, times):
    torch.set_num_threads(1)
    network = peers.make_network(task.network)
    optimizer = peers.make_optimizer(network.parameters())

    def step(inputs, targets):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(inputs), targets).backward()
        optimizer.step()

    times.put(peers.time_steps(task, rank, step, barrier.wait))


def troupe_loop(rank, task, barrier, times, port):
    torch.set_num_threads(1)
    network = peers.make_network(task.network)
    draw = torch.Generator().manual_seed(1)
    inputs = torch.randn(SAMPLES, *peers.SHAPES[task.network], generator=draw)
    targets = torch.randint(10, (SAMPLES,), generator=draw)
    with troupe.Worker(network, dataset_size=samples(task), port=port) as worker:
        leases = iter(worker)

        def some(count):
            for _ in range(count):
                mine = list(next(leases).indices)
                loss = nn.functional.cross_entropy(network(inputs[mine]), targets[mine])
                loss.backward()
                worker.step(loss)

        some(task.steps // 4 + 1)
        barrier.wait()
        begin = time.monotonic()
        some(task.steps)
        times.put((begin, time.monotonic()))


def samples(task):
    """Only whole batches."""
    return SAMPLES // task.batch * task.batch


def serve(network, port, **settings):
    torch.set_num_threads(1)
    os.chdir(settings["train_dir"] + "/..")
    sys.exit(troupe.serve(network, port=port, **SETTINGS, **settings))


def run_together(task, loop, *arguments):
    context = peers.mp.get_context(peers.START)
    barrier, times = context.Barrier(peers.WORKERS), context.Queue()
    all_of_them = [
        context.Process(target=loop, args=(rank, task, barrier, times, *arguments))
        for rank in range(peers.WORKERS)
    ]
    for one in all_of_them:
        one.start()
    peers.report(task, [times.get(timeout=600) for _ in all_of_them])
    for one in all_of_them:
        one.join()


class Server:
    """A parameter server in a process, until the block is left."""

    def __init__(self, network, **settings):
        self.port = free_port()
        self.folder = tempfile.TemporaryDirectory()
        settings["train_dir"] = self.folder.name + "/run"
        os.mkdir(settings["train_dir"])
        self.process = peers.mp.get_context(peers.START).Process(
            target=serve, args=(network, self.port), kwargs=settings
        )
        self.process.start()

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.process.join(60)
        self.process.kill()
        self.folder.cleanup()


def train(task):
    if task.mode == "plain":
        return run_together(task, plain_loop)
    each = task.steps + task.steps // 4 + 1
    steps = each * (peers.WORKERS if task.mode == "async" else 1)
    network = peers.make_network(task.network)
    with Server(
        network,
        policy=task.mode,
        workers=peers.WORKERS,
        dataset_size=samples(task),
        max_steps=steps,
    ) as server:
        run_together(task, troupe_loop, server.port)


# -- without computing ---------------------------------------------------------


def time_step(size, steps, out, views):
    torch.set_num_threads(os.cpu_count())
    network = nn.Linear(size // 4, 1, bias=False)
    found = []
    settings = {"policy": "async", "workers": 1, "momentum": 0, "max_steps": steps + 5}
    with Server(network, dataset_size=100000, **settings) as server:
        with troupe.Worker(
            network, dataset_size=100000, port=server.port, views=views
        ) as worker:
            gradient = torch.zeros_like(network.weight)
            for _ in worker:
                # What it computes is this gradient.
                (network.weight * gradient).sum().backward()
                begin = time.perf_counter()
                worker.step(0.0)
                found.append(time.perf_counter() - begin)
    Path(out).write_text(f"{statistics.median(found[5:])}\n")


def launch(out):
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        file = troupe.describe(nn.Linear(8, 1), "linear.safetensors")
        Path("run.ini").write_text(
            f"[training]\nnetwork = weights:{file}\nmax-steps = 1\nbatch-size = 1\n"
            "[data]\ndataset = external(samples=8,id=data)\n"
        )
        os.environ["LAUNCHED_AT"] = str(time.time())
        arguments = ["first", "-", "1", "1", out]
        if status := troupe.launch("run.ini", 1, __file__, *arguments):
            sys.exit(status)


def first_step(out):
    begin = float(os.environ["LAUNCHED_AT"])
    network = nn.Linear(8, 1)
    with troupe.Worker(network, dataset_size=8) as worker:
        for _ in worker:
            network(torch.ones(1, 8)).sum().backward()
            worker.step(0.0)
            Path(out).write_text(f"{time.time() - begin - IMPORT_SECONDS}\n")
            return


def main():
    mode, what, _, steps, *rest = sys.argv[1:]
    if mode in ("step", "views"):
        time_step(int(what), int(steps), os.path.abspath(rest[0]), mode == "views")
    elif mode == "launch":
        launch(os.path.abspath(rest[0]))
    elif mode == "first":
        first_step(rest[0])
    else:
        train(peers.Task(sys.argv[1:]))


if __name__ == "__main__":
    main()
