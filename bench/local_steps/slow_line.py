"""Trains the GPT of text.py with two workers on two machines that a slow line joins, and
prints samples a second and the loss on test data, a line of JSON for each system:

    ddp            PyTorch's DistributedDataParallel over gloo
    troupe         Troupe, each gradient pushed
    troupe-local   Troupe with 32 local steps
    torchft        torchft's DiLoCo with 32 steps, if torchft is installed

    slow_line.py FOLDER [--rate 100mbit] [--epochs 2] [--systems ddp,troupe,...]

The machines are network namespaces of this one, and the line is a pair of virtual
interfaces that `tc tbf` limits in each direction: this needs root, ip and tc. FOLDER/text
is as for rounds.py. TROUPE_TRAINER_NODE names the program; PYTHONPATH has the folder
python/.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import text
import torch

HOSTS = ("10.77.0.1", "10.77.0.2")
PORT, LOCAL_STEPS, LR, BATCH = 29510, 32, 0.003, text.BATCH
SYSTEMS = ["ddp", "troupe", "troupe-local", "torchft"]
PATIENCE = 600  # Seconds for a run.
#: The server's SGD, and torchft's outer one: the new weights are the workers' mean.
OUTER = {"lr": 1.0, "momentum": 0.0}


# -- a worker ------------------------------------------------------------------


class Task:
    """What all systems train, on the rank's machine."""

    def __init__(self, folder, rank, epochs):
        self.rank, self.epochs, self.model = rank, epochs, text.make_model()
        (self.x, self.y), self.test = text.read(folder)
        self.began = None

    def begin(self):
        self.began = self.began or time.monotonic()

    def loss(self, model, indices):
        return text.loss_of(model, self.x[indices], self.y[indices])

    def optimizer(self):
        """A worker's own, and how its rate falls."""
        own = torch.optim.AdamW(self.model.parameters(), LR, weight_decay=0)
        steps = self.epochs * text.TRAIN // BATCH // len(HOSTS)
        return own, torch.optim.lr_scheduler.CosineAnnealingLR(own, steps)

    def shares(self):
        """The indices of each batch, as DistributedSampler deals them."""
        for epoch in range(self.epochs):
            draw = torch.Generator().manual_seed(epoch)
            order = torch.randperm(text.TRAIN, generator=draw)[self.rank :: len(HOSTS)]
            yield from order.split(BATCH)

    def report(self, system):
        seconds = time.monotonic() - self.began
        with torch.no_grad():
            loss = text.loss_of(self.model, *self.test).item()
        if self.rank == 0:
            print(json.dumps({
                "system": system, "samples_per_second": self.epochs * text.TRAIN / seconds,
                "loss": loss, "seconds": seconds,
            }), flush=True)  # fmt: skip


def own_steps(task, model, optimizer, schedule):
    for indices in task.shares():
        task.begin()
        optimizer.zero_grad()
        task.loss(model, indices).backward()
        torch.nn.utils.clip_grad_norm_(task.model.parameters(), 1)
        optimizer.step()
        schedule.step()


def work_ddp(task):
    import torch.distributed as dist

    dist.init_process_group(
        "gloo", init_method=f"tcp://{HOSTS[0]}:{PORT}", rank=task.rank, world_size=len(HOSTS)
    )
    own_steps(task, torch.nn.parallel.DistributedDataParallel(task.model), *task.optimizer())
    dist.destroy_process_group()


def work_troupe(task, local_steps):
    import troupe

    own, schedule = task.optimizer()
    with troupe.Worker(
        task.model, host=HOSTS[0], port=PORT, local_steps=local_steps, insecure_network=True,
        **text.DATA,
    ) as worker:  # fmt: skip
        for lease in worker:
            task.begin()
            loss = task.loss(task.model, list(lease.indices))
            loss.backward()
            if local_steps:
                torch.nn.utils.clip_grad_norm_(task.model.parameters(), 1)
                own.step()
                own.zero_grad()
                schedule.step()
            worker.step(loss)


def serve_troupe(epochs, local_steps, run):
    import troupe

    own = {"optimizer": "adamw", "lr": LR, "lr_schedule": "cosine", "clip_norm": 1}
    return troupe.serve(
        text.make_model(), host=HOSTS[0], port=PORT, insecure_network=True,
        workers=len(HOSTS), epochs=epochs, batch_size=BATCH, threads=1, train_dir=run,
        overwrite=True, checkpoint_freq=1000000, **text.DATA,
        **({"local_steps": local_steps, **OUTER} if local_steps else own),
    )  # fmt: skip


def work_torchft(task):
    import torchft
    from torchft.coordination import LighthouseServer
    from torchft.local_sgd import DiLoCo

    lighthouse = None
    if task.rank == 0:
        lighthouse = LighthouseServer(
            bind=f"{HOSTS[0]}:{PORT}", min_replicas=len(HOSTS), join_timeout_ms=60000
        )
    host = HOSTS[task.rank]
    store = torch.distributed.TCPStore(host, 0, is_master=True, wait_for_workers=False)
    own, schedule = task.optimizer()
    outer = torch.optim.SGD(task.model.parameters(), **OUTER)
    manager = torchft.Manager(
        pg=torchft.ProcessGroupGloo(timeout=timedelta(seconds=60)), min_replica_size=len(HOSTS),
        load_state_dict=task.model.load_state_dict, state_dict=task.model.state_dict,
        use_async_quorum=False, replica_id=f"replica_{task.rank}", rank=0, world_size=1,
        store_addr=host, store_port=store.port, hostname=host, init_sync=False,
        lighthouse_addr=f"http://{HOSTS[0]}:{PORT}",
    )  # fmt: skip
    with DiLoCo(manager, [task.model], own, outer, sync_every=LOCAL_STEPS):
        own_steps(task, task.model, own, schedule)
    task.report("torchft")
    manager.shutdown(wait=False)
    if lighthouse:
        lighthouse.shutdown()
    os._exit(0)


def work(system, folder, rank, epochs):
    task = Task(folder, rank, epochs)
    local_steps = LOCAL_STEPS if system == "troupe-local" else None
    if system == "ddp":
        work_ddp(task)
    elif system == "torchft":
        work_torchft(task)
    else:
        work_troupe(task, local_steps)
    task.report(system)


# -- the machines --------------------------------------------------------------


@contextlib.contextmanager
def machines(rate):
    """The names of two namespaces that a line joins. Removed in the end."""
    names = [f"troupe-{os.getpid()}-{i}" for i in range(len(HOSTS))]

    def ip(*words):
        subprocess.run(["ip", *words], check=True)

    try:
        for name in names:
            ip("netns", "add", name)
        ip("link", "add", "eth0", "netns", names[0], "type", "veth", "peer", "name", "eth0",
           "netns", names[1])  # fmt: skip
        for name, host in zip(names, HOSTS):
            ip("-n", name, "address", "add", f"{host}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "link", "set", "lo", "up")
            ip("netns", "exec", name, "tc", "qdisc", "add", "dev", "eth0", "root", "tbf",
               "rate", rate, "burst", "128kb", "latency", "400ms")  # fmt: skip
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name])


def train(system, names, folder, epochs):
    """Its processes, which end with this function. Returns whether all went well."""
    environment = {
        **os.environ, "GLOO_SOCKET_IFNAME": "eth0", "TP_SOCKET_IFNAME": "eth0",
        "OMP_NUM_THREADS": "1", "RUST_LOG": "error",
    }  # fmt: skip

    def start(name, *words):
        command = ["ip", "netns", "exec", name, sys.executable, __file__, *map(str, words)]
        return subprocess.Popen(command, env=environment)

    roles = [(name, "work", system, folder, rank, epochs) for rank, name in enumerate(names)]
    if system.startswith("troupe"):
        roles.insert(0, (names[0], "serve", system, folder, 0, epochs))
    started = []
    try:
        for role in roles:
            started.append(start(*role))
        until = time.monotonic() + PATIENCE
        return not any([x.wait(until - time.monotonic()) for x in started])
    finally:
        for process in started:
            if process.poll() is None:
                process.kill()
                process.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rate", default="100mbit")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    given = parser.parse_args()
    text.make_text(given.folder)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    good = True
    with machines(given.rate) as names:
        for system in given.systems.split(","):
            if system == "torchft" and not importlib.util.find_spec("torchft"):
                continue
            good = train(system, names, given.folder, given.epochs) and good
    sys.exit(not good)


if __name__ == "__main__":
    torch.set_num_threads(1)
    if len(sys.argv) == 6 and sys.argv[1] in ("work", "serve"):
        kind, system, folder, rank, epochs = sys.argv[1:]
        if kind == "work":
            work(system, folder, int(rank), int(epochs))
        else:
            local_steps = LOCAL_STEPS if system == "troupe-local" else None
            sys.exit(serve_troupe(int(epochs), local_steps, Path(folder) / f"run-{system}"))
    else:
        main()
