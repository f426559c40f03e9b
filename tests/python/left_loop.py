"""A program that leaves its loop in the middle of a batch, and goes on with another loop.

Usage: left_loop.py PORT [--views]

It prints which functions waited for the GPU, in their order. That of the name in
PROGRAM_FORGETS does not wait.
"""

import os
import sys

import on_fake_gpu  # noqa: F401
import toy
import torch
import troupe
from torch.nn.functional import cross_entropy

torch.set_num_threads(1)
troupe.blocks._EARLY = 0  # Gradients are born in the block.

waited = []


def wait(tensors, real=troupe.blocks.Tensors.wait):
    waited.append(sys._getframe(1).f_code.co_name)
    if waited[-1] != os.environ.get("PROGRAM_FORGETS"):
        real(tensors)


troupe.blocks.Tensors.wait = wait


def on_gpu(x):
    """Copies without waiting for what was enqueued before."""
    return x.pin_memory().to("cuda:1", non_blocking=True)


model, data = toy.Net().to("cuda:1"), toy.Points()
with troupe.Worker(
    model, dataset_size=len(data), dataset_id="toy", port=sys.argv[1],
    views="--views" in sys.argv,
) as worker:
    for leaves in (True, False):
        for x, y in worker.loader(data):
            loss = cross_entropy(model(on_gpu(x)), on_gpu(y))
            loss.backward()
            if leaves:
                break
            worker.step(loss)
print(*waited)
