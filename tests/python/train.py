"""The program of a worker, as a user would write it.

Usage: train.py PORT REPORT [--workers N] [--seconds S] [--accumulate K] [--views]
       [--local-steps H] [--overlap-steps T] [--gpu N] [--early] [--save FILE] [--after FILE] [--sound N] [SETTING=VALUE...]
PORT: of the server; 0: as the environment says, or a replay.
REPORT: a file that gets a JSON line for each batch, its epoch and indices; in a
folder, report-<process>.jsonl.
--seconds: that a batch takes.
--local-steps: with an SGD of torch's.
--gpu: of the fake device; -1: the one of LOCAL_RANK.
--early: all gradients are put into the shared block by backward.
--save: the model as it is after the loop.
--after: begins when this file is there, at most a minute later.
--sound: gradients that are as they should be; all later ones are 1000 times as large.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

if __name__ == "__main__" and "--gpu" in sys.argv:
    import on_fake_gpu  # noqa: F401

import torch
import toy
import troupe
from torch.nn.functional import cross_entropy


def train(report, pause=0, loaders=0, save=None, device="cpu", sound=None, **settings):
    """The loop of a worker with these settings.

    pause: Seconds before each gradient. loaders: Processes of the DataLoader. save: A
    file for the model's state after the loop. sound: As --sound.
    """
    model, data = toy.Net().to(device), toy.Points()
    accumulates = settings.get("accumulate")
    optimizer = None
    if settings.get("local_steps") is not None:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
    with troupe.Worker(
        model, dataset_size=len(data), dataset_id="toy", **settings
    ) as worker:
        loader = worker.loader(data, num_workers=loaders)
        covered = []
        for number, (x, y) in enumerate(loader):
            time.sleep(pause)
            loss = cross_entropy(model(x.to(device)), y.to(device))
            (loss / (accumulates or 1)).backward()
            if sound is not None and number >= sound:
                for parameter in model.parameters():
                    parameter.grad.mul_(1000)
            covered = [*covered, loader.lease][-worker.accumulated :]
            if accumulates is not None and not worker.due:
                continue
            if optimizer is not None:
                optimizer.step()
                optimizer.zero_grad()
            wanted = worker.step(loss)
            if worker.accumulated:
                continue  # A local step that has pushed nothing.
            for lease in covered:
                line = {
                    "epoch": lease.epoch,
                    "lease": lease.number,
                    "indices": lease.indices,
                    "wanted": wanted,
                }
                report.write(json.dumps(line) + "\n")
            covered = []
    if worker.stopping is not None:
        print(f"left: {worker.stopping}", flush=True)
    if save is not None:
        torch.save(model.state_dict(), save)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("port")
    parser.add_argument("report", type=Path)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--accumulate", type=int)
    parser.add_argument("--local-steps", type=lambda x: int(x) if x.isdigit() else x)
    parser.add_argument("--overlap-steps", type=int, default=0)
    parser.add_argument("--views", action="store_true")
    parser.add_argument("--gpu", type=int)
    parser.add_argument("--early", action="store_true")
    parser.add_argument("--save")
    parser.add_argument("--after", type=Path)
    parser.add_argument("--sound", type=int)
    parser.add_argument("settings", nargs="*")
    given = parser.parse_intermixed_args()
    torch.set_num_threads(1)
    until = time.monotonic() + 60
    while given.after and not given.after.exists() and time.monotonic() < until:
        time.sleep(0.05)
    if given.early:
        troupe.blocks._EARLY = 0
    gpu = os.environ["LOCAL_RANK"] if given.gpu == -1 else given.gpu
    if given.report.is_dir():
        given.report /= f"report-{os.getpid()}.jsonl"
    with open(given.report, "w", buffering=1) as report:
        train(
            report,
            given.seconds,
            given.workers,
            given.save,
            "cpu" if gpu is None else f"cuda:{gpu}",
            given.sound,
            port=given.port if given.port != "0" else None,
            connect_timeout=30 if given.port != "0" else None,
            accumulate=given.accumulate,
            local_steps=given.local_steps,
            overlap_steps=given.overlap_steps,
            views=given.views,
            **dict(x.split("=") for x in given.settings),
        )


if __name__ == "__main__":
    main()
