"""A program that leaves its loop in the middle of a batch, and goes on with another loop.

Usage: left_loop.py PORT [--views]
"""

import sys

import on_fake_gpu
import toy
import torch
import troupe
from torch.nn.functional import cross_entropy

torch.set_num_threads(1)
troupe.blocks._EARLY = 0  # Gradients are born in the block.


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
print(on_fake_gpu.waits())
