"""Runs whose gradients Python computes: they learn, exactly and by each policy."""

import collections
import copy
import fcntl
import gzip
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import tty
import unittest

import cluster
import toy
import torch
import troupe
from reference import LeNet
from torch import nn
from troupe.description import group_rules

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

    def test_ssp_of_several_shards(self):
        self.train("ssp(staleness=3)", "--shards", 3)

    def test_async_over_tcp(self):
        run = self.train("async", "--transport", "stream")
        self.assertEqual(set(run.summary["transport"].values()), {"stream"})


class Launch(cluster.Case):
    def test_one_command_for_all(self):
        file = troupe.describe(toy.model(), self.folder / "toy.safetensors")
        (self.folder / "server.ini").write_text(
            # However late the evaluator comes, the run ends with its score.
            f"[training]\nnetwork = weights:{file}\nepochs = 100000\nlr = 0.05\n"
            f"target = recall>=0.7\ntrain-dir = {self.folder}/run\n"
            f"[data]\ndataset = external(samples={toy.SAMPLES},id=toy)\n"
        )
        launch = self.start(
            "launch",
            [sys.executable, "-c", "import sys, troupe; "
             "sys.exit(troupe.launch('server.ini', 2, *sys.argv[2:], log_dir='logs', "
             "evaluator=sys.argv[1]))",
             cluster.HERE / "evaluate.py", cluster.HERE / "train.py", "0", self.folder],
        )
        self.require_end(launch)
        run = self.run_directory()
        self.assertIn("reached recall>=0.7", launch.output())
        self.assertIn("recall", run.summary["final_metrics"])
        self.assertIn("[evaluator] scores", launch.output())
        self.assertEqual(run.summary["workers"], 2)
        self.assertEqual(len(list(self.folder.glob("report-*.jsonl"))), 2)
        self.assertIn("joined       worker 1", (self.folder / "logs" / "ps.log").read_text())

    @unittest.skipUnless(os.geteuid() == 0, "this needs the right to make mount namespaces")
    def test_hosts(self):
        """A command in place of ssh enters a host that has neither script nor settings."""
        file = troupe.describe(toy.model(), self.folder / "toy.safetensors")
        host, user = self.folder / "host", self.folder / "user"
        for folder in (host, user / "code"):
            folder.mkdir(parents=True)
        (user / "server.ini").write_text(
            f"[training]\nnetwork = weights:{file}\nepochs = 3\nlr = 0.05\n"
            f"train-dir = {self.folder}/run\n"
            f"[data]\ndataset = external(samples={toy.SAMPLES},id=toy)\n"
        )
        (user / "hosts").write_text("127.0.0.1\n")
        for name in ("train.py", "toy.py"):
            shutil.copy(cluster.HERE / name, user / "code")
        ssh = self.folder / "ssh"
        ssh.write_text(
            f"#!/bin/sh\nfor command; do :; done\ncd {host} && export HOME={host}\n"
            f"export XDG_CACHE_HOME={os.environ['TROUPE_HOSTS_CACHE']}\n"
            "exec unshare -m sh -c \"mount -t tmpfs none "
            f"{user} && cd / && $command\"\n"
        )
        ssh.chmod(0o700)
        launch = self.start(
            "launch",
            ["env", "-C", user, f"TROUPE_SSH={ssh}", sys.executable, "-c",
             "import sys, troupe; "
             "sys.exit(troupe.launch('server.ini', '1:2', 'code/train.py', *sys.argv[1:], "
             "hosts='hosts', copy=['code/toy.py']))", "0", self.folder],
        )
        self.require_end(launch)
        self.assertEqual(self.run_directory().summary["samples_applied"], 3 * toy.SAMPLES)
        self.assertEqual(len(list(self.folder.glob("report-*.jsonl"))), 2)

    def test_live_lines_on_a_terminal(self):
        columns = 90
        ours, theirs = os.openpty()
        tty.setraw(theirs)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen(
            [cluster.PROGRAM, "launch", "--workers", "2", "--log-dir", "logs", "--",
             "--train-dir", "run", "--epochs", "6", "--threads", "1"],
            stdout=theirs, cwd=self.folder,
        )
        os.close(theirs)
        text = b""
        try:
            while some := os.read(ours, 1 << 16):
                text += some
        except OSError:
            pass  # Nobody has it open any more.
        os.close(ours)
        self.assertEqual(process.wait(), 0)
        erase = "\r\x1b[K\x1b[A\r\x1b[K"
        drawn = [x for x in re.split(f"{re.escape(erase)}|\n", text.decode()) if x]
        for line in drawn:
            self.assertRegex(line, r"^\[(ps|worker-\d|launch)\] ")
        states = {x for x in drawn if x.startswith("[launch] ")}
        self.assertIn("[launch] all 3 run", states)
        live = [x for x in drawn if x.startswith("[ps] step ")]
        self.assertGreater(len(live), 2)
        self.assertLess(max(map(len, [*live, *states])), columns)
        # They are drawn over each other, and no line is lost below them.
        self.assertGreaterEqual(text.decode().count(erase), len(live) - 1)
        log = (self.folder / "logs" / "ps.log").read_text()
        self.assertNotIn("\x1b", log)
        for line in log.splitlines():
            self.assertIn(f"[ps] {line}", drawn)


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


class Accumulation(cluster.Case):
    """Several batches for a step are one large batch."""

    def train(self, run, batch, several, workers):
        torch.manual_seed(0)
        model, data = nn.Linear(20, 3), toy.Points()
        file = troupe.describe(model, self.folder / "linear.safetensors")
        server, port = self.serve(
            "--batch-size", batch, "--epochs", 3, "--workers", 1, "--lr", 0.1,
            "--train-dir", self.folder / run, network=f"weights:{file}", name=run,
        )
        with troupe.Worker(
            model, dataset_size=toy.SAMPLES, dataset_id="toy", port=port, leases=5
        ) as worker:
            batches = 0
            for x, y in worker.loader(data, num_workers=workers):
                loss = nn.functional.cross_entropy(model(x), y)
                (loss / several).backward()
                batches += 1
                if batches == several or worker.due:
                    self.assertTrue(worker.step(loss))
                    batches = 0
        self.require_end(server)
        found = troupe.Run(self.folder / run)
        self.assertEqual(found.summary["samples_applied"], 3 * toy.SAMPLES)
        self.assertEqual(found.summary["steps"], 3 * toy.SAMPLES / batch / several)
        return found.state_dict("last")

    def test_is_one_large_batch(self):
        whole = self.train("whole", 60, 1, 0)
        for workers in (0, 2):
            several = self.train(f"several-{workers}", 20, 3, workers)
            for name, value in whole.items():
                self.assertLess((several[name] - value).abs().max().item(), 1e-5, name)


class Kinds(cluster.Case):
    """Ways to compute that PyTorch has."""

    def train(self, model, forward):
        server, port = self.serve("--workers", 1, "--epochs", 6, "--lr", 0.05)
        data = toy.Points()
        with troupe.Worker(
            model, dataset_size=toy.SAMPLES, dataset_id="toy", port=port
        ) as worker:
            for x, y in worker.loader(data):
                forward(x, y).backward()
                worker.step(0.0)
        self.require_end(server)
        self.assertGreater(toy.accuracy(self.run_directory().state_dict("last")), 0.8)

    def test_a_compiled_model(self):
        model = torch.compile(toy.Net(), backend="eager")
        self.train(model, lambda x, y: nn.functional.cross_entropy(model(x), y))

    def test_autocast(self):
        model = toy.Net()

        def forward(x, y):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return nn.functional.cross_entropy(model(x), y)

        self.train(model, forward)


class Optimisers(cluster.Case):
    """The server's optimisers, with groups and an average, are torch's."""

    def train(self, make, *flags, as_setting=False, **numbers):
        """Trains, and makes the same steps with an optimiser of torch's."""
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(20, 8), nn.Tanh(), nn.Linear(8, 3)).double()
        reference = copy.deepcopy(model)

        def groups(net):
            return [
                {"params": [net[0].bias, net[2].bias], "weight_decay": 0},
                {"params": net[2].weight, **numbers},
            ]

        file = troupe.describe(model, self.folder / "net.safetensors", groups(model))
        if as_setting:
            file = troupe.describe(model, self.folder / "net.safetensors")
            flags += ("--param-groups", group_rules(model, groups(model)))
        server, port = self.serve(
            "--workers", 1, "--epochs", 3, "--batch-size", 60, "--ema-decay", 0.8,
            "--lr-schedule", "step(every=1,factor=0.5)", "--dtype", "float64", *flags,
            network=f"weights:{file}",
        )
        optimizer = make([*groups(reference), {"params": reference[0].weight}])
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        average = torch.optim.swa_utils.AveragedModel(
            reference, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.8)
        )
        epoch = 0
        with troupe.Worker(
            model, dataset_size=toy.SAMPLES, dataset_id="toy", port=port, leases=1
        ) as worker:
            loader = worker.loader(toy.Points())
            for x, y in loader:
                if loader.lease.epoch != epoch:
                    scheduler.step()
                    epoch = loader.lease.epoch
                loss = nn.functional.cross_entropy(model(x.double()), y)
                loss.backward()
                optimizer.zero_grad()
                nn.functional.cross_entropy(reference(x.double()), y).backward()
                optimizer.step()
                average.update_parameters(reference)
                worker.step(loss)
        self.require_end(server)
        run = self.run_directory()
        self.assertEqual(run.summary["steps"], 30)
        self.require_same(run.state_dict("last"), reference)
        self.require_same(run.state_dict("last", average=True), average.module)

    def require_same(self, found, expected):
        for name, value in expected.state_dict().items():
            self.assertLess((found[name] - value).abs().max().item(), 1e-12, name)

    def test_adamw(self):
        self.train(
            lambda groups: torch.optim.AdamW(groups, lr=0.01, weight_decay=0.1),
            "--optimizer", "adamw", "--lr", 0.01, "--weight-decay", 0.1, lr=0.05,
        )

    def test_sgd(self):
        self.train(
            lambda groups: torch.optim.SGD(groups, lr=0.1, momentum=0.9, weight_decay=0.01),
            "--lr", 0.1, "--momentum", 0.9, "--weight-decay", 0.01,
            as_setting=True, lr=0.02, momentum=0.5, weight_decay=0.05,
        )


class Words(nn.Module):
    def __init__(self, sparse):
        super().__init__()
        self.table = nn.Embedding(50, 8, sparse=sparse)
        self.last = nn.Linear(8, 2)

    def forward(self, x):
        return self.last(self.table(x))


class Sparse(cluster.Case):
    def train(self, sparse):
        torch.manual_seed(3)
        model = Words(sparse)
        data = torch.utils.data.TensorDataset(
            torch.randint(0, 50, (60,)), torch.randint(0, 2, (60,))
        )
        name = f"sparse-{sparse}"
        network = troupe.describe(model, self.folder / f"{name}.safetensors")
        server = self.start(
            name,
            [cluster.PROGRAM, "--role", "ps", "--port", 0, "--network", f"weights:{network}"]
            + ["--dataset", "external(samples=60,id=words)", "--train-dir", self.folder / name]
            + ["--workers", 1, "--epochs", 2, "--batch-size", 20],
        )
        port = server.await_line(r"listening +on 127\.0\.0\.1:(\d+)").group(1)
        with troupe.Worker(
            model, dataset_size=60, dataset_id="words", port=port
        ) as worker:
            for x, y in worker.loader(data):
                loss = nn.functional.cross_entropy(model(x), y)
                loss.backward()
                worker.step(loss)
        self.require_end(server)
        return troupe.Run(self.folder / name).summary["weights_sha256"]

    def test_gradients_are_those_of_dense_ones_also_under_a_long_path(self):
        dense = self.train(False)
        # The path of a Unix socket has 107 bytes at most.
        folder = self.folder / ("scratch-of-job-" + "x" * 80)
        folder.mkdir()
        self.addCleanup(setattr, tempfile, "tempdir", tempfile.tempdir)
        tempfile.tempdir = str(folder)
        self.assertEqual(self.train(True), dense)
        self.assertEqual(os.listdir(folder), [])


class Late(cluster.Case):
    def test_a_dropped_gradient_is_told(self):
        server, port = self.serve(
            "--policy", "backup(backup-workers=1)", "--workers", 2, "--epochs", 4,
            "--batch-size", 25,
        )
        slow = self.work(port, 0, "--seconds", 0.05)
        fast = self.work(port, 1)
        for process in (slow, fast, server):
            self.require_end(process)
        wanted = collections.Counter(batch["wanted"] for batch in self.batches())
        run = self.run_directory()
        kinds = collections.Counter(row["kind"] for row in run.metrics())
        self.assertEqual(run.summary["samples_applied"], 4 * toy.SAMPLES)
        self.assertGreater(run.summary["gradients_dropped"], 0)
        self.assertEqual(run.summary["gradients_dropped"], kinds["dropped"])
        # Whoever was late three times in a row is told to stop: no gradient comes,
        # and a batch that was not begun is not reported either.
        late = kinds["dropped"] + kinds["cancelled"]
        self.assertLessEqual(wanted[False], late + 2, kinds)
        self.assertGreaterEqual(wanted[False], kinds["dropped"])


class Outliers(cluster.Case):
    def train(self, policy, *flags):
        """Of three workers one sends gradients that are 1000 times too large."""
        epochs = 2 * EPOCHS
        server, port = self.serve(
            "--policy", policy, "--workers", 3, "--epochs", epochs, "--batch-size", 25,
            "--lr", 0.05, "--outliers", "refuse", *flags, *cluster.RECORDED,
        )
        honest = [self.work(port, i, "--seconds", 0.01) for i in range(2)]
        culprit = self.work(port, 2, "--seconds", 0.01, "--sound", 15)
        self.require_end(culprit, 1)
        for process in [*honest, server]:
            self.require_end(process)
        self.assertRegex(culprit.output(), r"expelled: its last 20 gradients were refused")
        run = self.run_directory()
        self.assertGreaterEqual(run.summary["gradients_refused"], 20)
        self.assertEqual(run.summary["samples_applied"], epochs * toy.SAMPLES)
        self.assertGreater(toy.accuracy(run.state_dict("last")), 0.85)
        for line in (self.folder / "run" / "metrics.jsonl").read_text().splitlines():
            entry = json.loads(line)
            if entry["kind"] == "refused":
                self.assertGreater(entry["norm"], 100 * entry["median"])
        self.check_replayed()

    def test_sync(self):
        self.train("sync")

    def test_async(self):
        self.train("async")

    def test_backup_of_several_shards(self):
        self.train("backup(backup-workers=1)", "--shards", 3)


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
