"""An evaluator of the toy that `launch` starts.

Usage: evaluate.py [--gpu] [READY]
--gpu: on the fake device.
READY: a file that is there once it is part of the run.
"""

import sys
from pathlib import Path

if "--gpu" in sys.argv:
    import on_fake_gpu  # noqa: F401

import toy
import troupe

data, device = toy.Points(), "cuda:0" if "--gpu" in sys.argv else "cpu"


def score(model):
    print("scores", flush=True)
    return {"recall": (model(data.x.to(device)).argmax(1) == data.y.to(device)).float().mean()}


with troupe.Evaluator(toy.model().to(device), score) as evaluator:
    for file in sys.argv[1:]:
        if file != "--gpu":
            Path(file).touch()
    evaluator.run()
