"""Starts a parameter server and workers for tests, and ends what is left."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import torch
import toy
import train
import troupe

HERE = Path(__file__).parent
PROGRAM = os.environ["TROUPE_TRAINER_NODE"]
REPLAYED_CHECKPOINTS = os.environ["TROUPE_REPLAYED_CHECKPOINTS"]

#: What a server needs for `check_replayed`.
RECORDED = ("--tape", "true", "--keep", 100000, "--threads", 1)

#: Seconds that a test waits for something; far more than it takes.
PATIENCE = 60


class Process:
    """A process whose output lies in a file."""

    def __init__(self, command, log):
        self.log = log
        with open(log, "wb") as out:
            self.process = subprocess.Popen(
                [str(x) for x in command], stdout=out, stderr=out, cwd=log.parent
            )

    def output(self):
        return self.log.read_text(errors="replace")

    def await_line(self, pattern):
        until = time.monotonic() + PATIENCE
        while not (found := re.search(pattern, self.output())):
            if self.process.poll() is not None or time.monotonic() > until:
                raise AssertionError(f"no {pattern!r} in:\n{self.output()}")
            time.sleep(0.01)
        return found

    def wait(self):
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired as problem:
            logs = sorted(self.log.parent.glob("*.log"))
            said = "\n".join(f"--- {x.name}\n{x.read_text(errors='replace')}" for x in logs)
            raise AssertionError(f"{problem}; all logs:\n{said}") from None

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


class Case(unittest.TestCase):
    """A test with a folder, in which its processes run."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="troupe-test-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def start(self, name, command):
        out = Process(command, self.folder / f"{name}.log")
        self.addCleanup(out.end)
        return out

    def serve(self, *flags, port=0, name="server", network=None, dataset=None):
        """A parameter server for the toy, and its port."""
        if network is None:
            file = troupe.describe(toy.model(), self.folder / "toy.safetensors")
            network = f"weights:{file}"
        dataset = dataset or f"external(samples={toy.SAMPLES},id=toy)"
        server = self.start(
            name,
            [PROGRAM, "--role", "ps", "--port", port, "--network", network]
            + ["--dataset", dataset, "--train-dir", self.folder / "run", *flags],
        )
        found = server.await_line(r"listening +on 127\.0\.0\.1:(\d+)")
        return server, found.group(1)

    def work(self, port, number, *flags):
        report = self.folder / f"report-{number}.jsonl"
        return self.start(
            f"worker-{number}",
            [sys.executable, HERE / "train.py", port, report, *flags],
        )

    def require_end(self, process, status=0):
        self.assertEqual(process.wait(), status, process.output())

    def run_directory(self):
        return troupe.Run(self.folder / "run")

    def batches(self):
        """What all workers report."""
        out = []
        for file in sorted(self.folder.glob("report-*.jsonl")):
            for line in file.read_text().splitlines():
                out.append(json.loads(line))
        return out

    def check_replayed(self, **options):
        """Computes the gradients of all lives of a RECORDED run again: each checkpoint
        that the run has written must have the same bits.

        options: Of the loop, as its workers had them.
        """
        torch.set_num_threads(1)
        run = self.folder / "run"
        compared = 0
        for log in run.glob("tape-*.pb"):
            life = log.stem.removeprefix("tape-")
            again = self.folder / f"replay-{life}"
            with open(os.devnull, "w") as nowhere:
                train.train(nowhere, replay=log, train_dir=again, keep=100000, **options)
            found = subprocess.run(
                [REPLAYED_CHECKPOINTS, run, life, again],
                capture_output=True,
                text=True,
                check=False,
            )
            self.assertEqual(found.returncode, 0, found.stderr)
            compared += int(found.stdout)
            shutil.rmtree(again)
        saved = len(list((run / "checkpoints").glob("*/manifest.pb")))
        self.assertEqual(compared, saved)
        self.assertGreater(saved, 0)
