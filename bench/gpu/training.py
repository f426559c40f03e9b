"""Loops in Python on a device, to be measured beside each other.

    training.py plain|worker NETWORK BATCH STEPS DEVICE [EDGE]
    training.py step PARAMETERS STEPS DEVICE SERVER_DEVICE
    training.py bad STEPS DEVICE PORT SEED
    training.py serve NETWORK FOLDER PORT SETTING=VALUE...
    training.py script WIDTH FILE

plain: a loop of PyTorch's alone. worker: the same loop with a troupe.Worker and a
server beside it. Both take ready batches from pinned memory, in turn. NETWORK is
resnet50 (pictures of EDGE x EDGE, channels last, on a GPU in bfloat16) or resnet18
(32 x 32 in float32). Prints the samples a second of all steps but the first fifth.

step: the median milliseconds of worker.step() with one tensor and nothing to compute, and
what the worker has warned of, as that it shares no memory of the GPU with its program.
bad: a worker with LeNet that sends every third gradient as NaN; SEED 0: none. serve: a
server for the others. script: a network of about 794 x WIDTH parameters, as TorchScript.
"""

import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import torch
import troupe
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[1] / "peers"))
import networks  # noqa: E402

READY = 4  # Batches.
CLASSES = 256  # Of ResNet-50; as in steps.py.


# -- networks ------------------------------------------------------------------


class Bottleneck(nn.Module):
    def __init__(self, before, width, stride):
        super().__init__()
        after = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(before, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, after, 1, bias=False),
            nn.BatchNorm2d(after),
        )
        self.short = networks.shortcut(before, after, stride)

    def forward(self, x):
        return torch.relu(self.body(x) + self.short(x))


def resnet50():
    """As He et al. have it, with the stride in the 3x3 convolution as torchvision's."""
    layers = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
    ]
    before = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for block in range(blocks):
            layers.append(Bottleneck(before, width, 2 if stage > 0 and block == 0 else 1))
            before = 4 * width
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, CLASSES)]
    return nn.Sequential(*layers)


def make_network(name):
    if name != "resnet50":
        return networks.make_network(name)
    torch.manual_seed(1)
    return resnet50()


# -- the loops -------------------------------------------------------------------


class Task:
    def __init__(self, words):
        self.network, self.device = words[0], words[3]
        self.batch, self.steps = int(words[1]), int(words[2])
        self.large = self.network == "resnet50"
        self.edge = int(words[4]) if len(words) > 4 else 32
        self.model = make_network(self.network).to(self.device)
        if self.large:
            self.model.to(memory_format=torch.channels_last)
        self._batches = [self._batch(seed) for seed in range(READY)]

    def _batch(self, seed):
        draw = torch.Generator().manual_seed(seed)
        inputs = torch.rand(self.batch, 3, self.edge, self.edge, generator=draw)
        targets = torch.randint(CLASSES if self.large else 10, (self.batch,), generator=draw)
        if self.large:
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        if self.device != "cpu":
            inputs, targets = inputs.pin_memory(), targets.pin_memory()
        return inputs, targets

    def loss(self, turn):
        inputs, targets = (
            x.to(self.device, non_blocking=True) for x in self._batches[turn % READY]
        )
        # A CPU may be very slow at bfloat16.
        enabled = self.large and self.device != "cpu"
        with torch.autocast("cuda", torch.bfloat16, enabled=enabled):
            return nn.functional.cross_entropy(self.model(inputs), targets)

    def finish(self):
        if self.device != "cpu":
            torch.cuda.synchronize()

    def time(self, turns):
        """Makes all turns; returns the samples a second."""
        first = max(1, self.steps // 5)
        begin = 0.0
        for turn in turns:
            if turn == first - 1:
                self.finish()
                begin = time.monotonic()
        self.finish()
        return (self.steps - first) * self.batch / (time.monotonic() - begin)


def plain(task):
    optimizer = torch.optim.SGD(task.model.parameters(), lr=1e-3, momentum=0.9)
    for turn in range(task.steps):
        optimizer.zero_grad()
        task.loss(turn).backward()
        optimizer.step()
        yield turn


def worker(task):
    size = task.batch * task.steps
    settings = {"batch-size": task.batch, "momentum": 0.9, "lr": 1e-3}
    with Server(task.network, size, settings) as server:
        with troupe.Worker(task.model, dataset_size=size, port=server.port) as one:
            for turn, _ in enumerate(one):
                loss = task.loss(turn)
                loss.backward()
                # Not its value: reading that would hold the loop up.
                one.step(0.0)
                yield turn


# -- without computing -------------------------------------------------------------


def time_steps(words):
    parameters, steps, device, server_device = int(words[0]), int(words[1]), *words[2:4]
    model = nn.Linear(parameters, 1, bias=False).to(device)
    settings = {"batch-size": 1, "momentum": 0.9, "device": server_device}
    found = []
    with Server(f"linear:{parameters}", steps, settings) as server:
        with warnings.catch_warnings(record=True) as warned:
            one = troupe.Worker(model, dataset_size=steps, port=server.port)
        with one:
            gradient = torch.zeros_like(model.weight)
            for _ in one:
                (model.weight * gradient).sum().backward()
                if device != "cpu":
                    torch.cuda.synchronize()
                begin = time.perf_counter()
                one.step(0.0)
                if device != "cpu":
                    torch.cuda.synchronize()
                found.append(1000 * (time.perf_counter() - begin))
            at = server.device()
    return {
        "milliseconds": statistics.median(found[steps // 5 :]),
        "server": at,
        "warnings": " ".join(str(x.message) for x in warned),
    }


def bad(words):
    steps, device, port, seed = int(words[0]), words[1], int(words[2]), int(words[3])
    model = make_network("lenet").to(device)
    draw = torch.Generator().manual_seed(seed)
    inputs = torch.rand(8, 1, 28, 28, generator=draw).to(device)
    targets = torch.randint(10, (8,), generator=draw).to(device)
    sent = 0
    with troupe.Worker(model, dataset_size=8 * steps, port=port) as one:
        for _ in one:
            nn.functional.cross_entropy(model(inputs), targets).backward()
            sent += 1
            if seed != 0 and sent % 3 == 0:
                for x in model.parameters():
                    x.grad.fill_(float("nan"))
            one.step(0.0)
    return {"gradients": sent}


# -- the server beside ---------------------------------------------------------------


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Server:
    """A parameter server in a process, until the block is left."""

    def __init__(self, network, size, settings):
        self.port = free_port()
        self._folder = tempfile.TemporaryDirectory()
        given = {"workers": 1, "policy": "async", "epochs": 1, "lr": 1e-3, **settings}
        given |= {"size": size, "checkpoint-freq": 1000000}
        words = [f"{key}={value}" for key, value in given.items()]
        command = [sys.executable, __file__, "serve", network, self._folder.name]
        self._log = Path(self._folder.name) / "log"
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen([*command, str(self.port), *words], stdout=log)

    def device(self):
        """Where it says that it computes."""
        said = re.search(r"^device +(.*)$", self._log.read_text(), re.MULTILINE)
        return said.group(1) if said else "cpu"

    def __enter__(self):
        return self

    def __exit__(self, *what):
        try:
            self._process.wait(20 if what[0] is None else 0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()


def serve(words):
    network, folder, port, *given = words
    settings = dict(x.split("=", 1) for x in given)
    size = int(settings.pop("size"))
    kind, _, parameters = network.partition(":")
    model = nn.Linear(int(parameters), 1, bias=False) if parameters else make_network(kind)
    settings = {key.replace("-", "_"): value for key, value in settings.items()}
    settings["train_dir"] = os.path.join(folder, "run")
    sys.exit(troupe.serve(model, dataset_size=size, port=int(port), **settings))


def write_script(words):
    width, file = int(words[0]), words[1]
    layers = nn.Flatten(), nn.Linear(784, width), nn.ReLU(), nn.Linear(width, 10)
    torch.jit.script(nn.Sequential(*layers)).save(file)
    return {"parameters": 784 * width + width + 10 * width + 10}


def main():
    mode, *words = sys.argv[1:]
    if mode == "serve":
        serve(words)
    loops = {"plain": plain, "worker": worker}
    others = {"step": time_steps, "bad": bad, "script": write_script}
    if mode in loops:
        task = Task(words)
        found = {"samples_per_second": task.time(loops[mode](task))}
    elif mode in others:
        found = others[mode](words)
    else:
        sys.exit(f"no such mode: {mode}")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
