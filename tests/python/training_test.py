"""Runs whose gradients Python computes: they learn, exactly and by each policy."""

import collections
import gzip
import random
import struct
import sys
import unittest

import cluster
import toy
import torch
import troupe
from torch import nn

EPOCHS = 8


class Policies(cluster.Case):
    def train(self, policy, *flags):
        server, port = self.serve(
            "--policy", policy, "--workers", 2, "--epochs", EPOCHS,
            "--batch-size", 25, "--lr", 0.05, *flags,
        )
        workers = [self.work(port, i) for i in range(2)]
        for process in [*workers, server]:
            self.require_end(process)
        run = self.run_directory()
        self.assertEqual(run.summary["samples_applied"], EPOCHS * toy.SAMPLES)
        self.assertGreater(toy.accuracy(run.state_dict("last")), 0.85)
        return run

    def test_sync(self):
        self.train("sync")

    def test_backup(self):
        self.train("backup(backup-workers=1)")

    def test_ssp(self):
        self.train("ssp(staleness=3)")

    def test_async(self):
        self.train("async")

    def test_several_shards(self):
        self.train("async", "--shards", 3)

    def test_tcp(self):
        run = self.train("async", "--transport", "stream")
        self.assertEqual(set(run.summary["transport"].values()), {"stream"})


class Samples(cluster.Case):
    def each_once(self, *flags):
        """Every epoch gives each sample to exactly one gradient."""
        server, port = self.serve(
            "--policy", "async", "--workers", 2, "--epochs", 3, "--batch-size", 7
        )
        workers = [self.work(port, i, *flags) for i in range(2)]
        for process in [*workers, server]:
            self.require_end(process)
        seen = collections.Counter()
        for batch in self.batches():
            if batch["wanted"]:
                seen.update((batch["epoch"], i) for i in batch["indices"])
        self.assertEqual(len(seen), 3 * toy.SAMPLES)
        self.assertEqual(set(seen.values()), {1})

    def test_loaded_here(self):
        self.each_once()

    def test_loaded_by_children(self):
        self.each_once("--workers", 2)


class LeNet(nn.Module):
    """The network `lenet` of Troupe."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 20, 5)
        self.conv2 = nn.Conv2d(20, 50, 5)
        self.fc1 = nn.Linear(800, 500)
        self.fc2 = nn.Linear(500, 10)

    def forward(self, x):
        x = torch.max_pool2d(self.conv1(x), 2).relu()
        x = torch.max_pool2d(self.conv2(x), 2).relu()
        return self.fc2(self.fc1(x.flatten(1)))


class Equality(cluster.Case):
    """A network of Troupe, computed by Python on the same samples."""

    samples, steps = 640, 50

    def write_pictures(self):
        random.seed(5)
        self.pixels = random.randbytes(self.samples * 28 * 28)
        self.labels = bytes(random.randrange(10) for _ in range(self.samples))
        for part in ("train", "t10k"):
            self.write(f"{part}-images-idx3-ubyte.gz", (3, self.samples, 28, 28), self.pixels)
            self.write(f"{part}-labels-idx1-ubyte.gz", (1, self.samples), self.labels)

    def write(self, name, head, content):
        dims, *extents = head
        data = struct.pack(f">BBBB{dims}I", 0, 0, 8, dims, *extents) + content
        (self.folder / name).write_bytes(gzip.compress(data, 1))

    def flags(self, run):
        return [
            "--data-dir", self.folder, "--policy", "sync", "--workers", 1,
            "--max-steps", self.steps, "--batch-size", 32, "--seed", 3,
            "--train-dir", self.folder / run,
        ]

    def test_lenet_in_python_is_lenet_in_cpp(self):
        self.write_pictures()
        native = self.start(
            "native",
            [cluster.PROGRAM, "--simulate", "--network", "lenet", "--dataset", "mnist"]
            + self.flags("native"),
        )
        self.require_end(native)
        server, port = self.serve(*self.flags("run"), network="lenet", dataset="mnist")
        x = torch.frombuffer(bytearray(self.pixels), dtype=torch.uint8)
        x = (x.view(-1, 1, 28, 28).float() / 255 - 0.1307) / 0.3081
        y = torch.tensor(list(self.labels))
        model = LeNet()
        with troupe.Worker(
            model, dataset_size=self.samples, port=port, data_dir=self.folder
        ) as worker:
            for lease in worker:
                mine = list(lease.indices)
                loss = nn.functional.cross_entropy(model(x[mine]), y[mine])
                loss.backward()
                worker.step(loss)
        self.require_end(server)
        ours = self.run_directory().state_dict("last")
        theirs = troupe.Run(self.folder / "native").state_dict("last")
        self.assertEqual(list(ours), list(theirs))
        for name, value in ours.items():
            self.assertLess((value - theirs[name]).abs().max().item(), 1e-5, name)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
