#!/usr/bin/env python3
"""Starts peers with torchrun, as users of PyTorch start theirs.

The example that stands for the tutorial of DistributedDataParallel runs to its end. The
one that stands for the ImageNet example does, too, over a small folder of images, with
the last process as the evaluator. And torchrun restarts a cluster in which a peer was
killed, which goes on at its newest checkpoint. Exits 1 if anything is otherwise.

Usage: launch_reference.py TRAINER_NODE EXAMPLES
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from ports import free_port

PATIENCE = 240  # s


def torchrun(processes, *flags, restarts=0):
    return subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run",
         "--nproc-per-node", str(processes), "--master-port", str(free_port()),
         "--max-restarts", str(restarts), "--no-python", sys.argv[1],
         "--role", "auto", *map(str, flags)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def await_end(launched):
    try:
        said, _ = launched.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        launched.terminate()  # torchrun ends its processes, too.
        said, _ = launched.communicate()
        said += f"\nnot over after {PATIENCE} s"
    assert launched.returncode == 0, said
    return said


def summary_of(run):
    return json.loads((run / "summary.json").read_text())


def check(what, found, expected):
    assert found == expected, f"{what}: {found} instead of {expected}"
    print(f"{what}: {found}")


def distributed_data_parallel(home, examples):
    run = home / "ddp"
    await_end(torchrun(2, "--config", examples / "distributed-data-parallel.ini",
                       "--train-dir", run))
    summary = summary_of(run)
    check("DistributedDataParallel's example", summary["status"], "completed")
    check("its workers and shards", (summary["workers"], summary["shards"]), (2, 2))


def imagenet(home, examples):
    random = np.random.default_rng(1)
    for part, count in (("train", 8), ("val", 4)):
        for label in ("dark", "light"):
            folder = home / "images" / part / label
            folder.mkdir(parents=True)
            for i in range(count):
                pixels = random.integers(0, 100, (72, 72, 3), np.uint8)
                if label == "light":
                    pixels += 150
                Image.fromarray(pixels).save(folder / f"{i}.jpg")
    run = home / "imagenet"
    await_end(torchrun(3, "--config", examples / "imagenet.ini",
                       "--data-dir", home / "images", "--train-dir", run,
                       "--network", "resnet18", "--image-size", 64,
                       "--global-batch-size", 8, "--epochs", 2))
    summary = summary_of(run)
    check("the ImageNet example", summary["status"], "completed")
    check("its epochs", summary["epochs"], 2)
    check("it was scored", summary["final_accuracy"] is not None, True)


def processes_below(parent):
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            stat = Path("/proc", name, "stat").read_text()
        except OSError:
            continue  # It has just ended.
        if int(stat.rpartition(")")[2].split()[1]) == parent:
            found.append(int(name))
    return found


def restart(home, examples):
    run = home / "restart"
    launched = torchrun(2, "--config", examples / "distributed-data-parallel.ini",
                        "--train-dir", run, "--epochs", 40,
                        "--checkpoint-freq", 20, "--resume", "auto", restarts=2)
    end = time.time() + PATIENCE
    while not list(run.glob("checkpoints/step-*/manifest.pb")):
        assert launched.poll() is None and time.time() < end, "no checkpoint"
        time.sleep(0.05)
    os.kill(processes_below(launched.pid)[-1], signal.SIGKILL)
    await_end(launched)
    summary = summary_of(run)
    check("a cluster that lost a peer", summary["status"], "completed")
    check("its epochs", summary["epochs"], 40)
    kinds = [json.loads(line)["kind"] for line in (run / "metrics.jsonl").open()]
    check("it was resumed", "resumed" in kinds, True)


def main():
    examples = Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as home:
        for part in distributed_data_parallel, imagenet, restart:
            part(Path(home), examples)


if __name__ == "__main__":
    main()
