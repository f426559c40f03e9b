"""The loop of a worker: how it ends, how it is left, and what a step of several batches
is."""

import collections
import signal
import struct
import sys
import time
import unittest
from unittest import mock

import cluster
import toy
import torch
import troupe
from torch import nn
from torch.nn.functional import cross_entropy
from troupe import frames
from troupe.gradients import Gradients
from troupe.leases import LeaseBook


class Stops(cluster.Case):
    """A signal ends the loop, and the program goes on behind it."""

    def test_by_signals(self):
        server, port = self.serve(
            "--workers", 1, "--epochs", 100000, "--batch-size", 10, *cluster.RECORDED
        )
        for number, name in enumerate(("SIGTERM", "SIGUSR1")):
            process = self.work(port, number, "--seconds", 0.02, "--workers", 1)
            report = self.folder / f"report-{number}.jsonl"
            until = time.monotonic() + cluster.PATIENCE
            while not report.exists() or report.read_text().count("\n") < 3:
                self.assertLess(time.monotonic(), until, process.output())
                time.sleep(0.01)
            process.process.send_signal(getattr(signal, name))
            self.require_end(process)
            self.assertIn(f"left: told to stop by {name}", process.output())
        server.process.terminate()
        self.require_end(server, 75)
        self.check_replayed()


class LastWeights(cluster.Case):
    """After the loop a model is what the run has ended with."""

    def require_last(self, *files):
        last = self.run_directory().state_dict("last")
        for file in files:
            found = torch.load(self.folder / file)
            self.assertEqual(set(found), set(last))
            for name, value in last.items():
                self.assertTrue(torch.equal(found[name], value), f"{file}: {name}")

    def train(self, *flags, workers=((), ()), number=2):
        server, port = self.serve(
            "--workers", number, "--epochs", 3, "--batch-size", 25, "--lr", 0.05, *flags
        )
        started = [
            self.work(port, i, "--save", self.folder / f"{i}.pt", *more)
            for i, more in enumerate(workers)
        ]
        return server, started

    def check(self, *flags, workers=((), ())):
        server, started = self.train(*flags, workers=workers)
        for process in [*started, server]:
            self.require_end(process)
        self.require_last(*(f"{i}.pt" for i in range(len(workers))))

    def test_of_several_workers(self):
        self.check("--policy", "async", workers=(("--views",), ("--accumulate", "3")))

    def test_over_tcp_under_a_barrier(self):
        self.check("--policy", "backup(late=cancel)", workers=(
            ("transport=stream",), ("--workers", "2", "transport=chunked")))

    def test_of_shards_in_processes(self):
        file = troupe.describe(toy.model(), self.folder / "toy.safetensors")
        common = [
            "--network", f"weights:{file}", "--dataset",
            f"external(samples={toy.SAMPLES},id=toy)", "--shards", 2, "--workers", 1,
            "--epochs", 3, "--train-dir", self.folder / "run",
        ]
        lead = self.start(
            "lead", [cluster.PROGRAM, "--role", "ps", "--rank", 0, "--port", 0, *common]
        )
        port = lead.await_line(r"listening +on 127\.0\.0\.1:(\d+)").group(1)
        shard = self.start(
            "shard",
            [cluster.PROGRAM, "--role", "ps", "--rank", 1, "--port", port,
             "--listen", "127.0.0.1:0", *common],
        )
        worker = self.work(port, 0, "--save", self.folder / "0.pt")
        for process in (worker, lead, shard):
            self.require_end(process)
        self.require_last("0.pt")

    def test_of_a_run_that_is_stopped(self):
        server, started = self.train(
            "--epochs", 100000, "--policy", "async", workers=(("--seconds", "0.01"),), number=1
        )
        server.await_line("step [1-9]")
        server.process.terminate()
        self.require_end(server, 75)
        self.require_end(started[0])
        self.require_last("0.pt")

    def test_of_an_evaluator(self):
        server, port = self.serve(
            "--workers", 1, "--epochs", 2, "--eval-freq", 7, "--ema-decay", 0.9
        )
        worker = self.work(port, 0)
        model = toy.Net()
        with troupe.Evaluator(model, lambda net: {"one": 1.0}, port=port) as evaluator:
            evaluator.run()
        for process in (worker, server):
            self.require_end(process)
        last = self.run_directory().state_dict("last")
        for name, value in last.items():
            self.assertTrue(torch.equal(model.state_dict()[name], value), name)

    def test_not_after_a_break(self):
        server, port = self.serve("--workers", 1, "--epochs", 2, "--batch-size", 100)
        model, data = toy.Net(), toy.Points()
        with troupe.Worker(
            model, dataset_size=toy.SAMPLES, dataset_id="toy", port=port, views=True
        ) as worker:
            for x, y in worker.loader(data):
                cross_entropy(model(x), y).backward()
                worker.step(0.0)
                break
            kept = [x.clone() for x in model.parameters()]
            for x, y in worker.loader(data):
                cross_entropy(model(x), y).backward()
                for was, now in zip(kept, model.parameters()):
                    self.assertTrue(torch.equal(was, now))
                wanted = worker.step(0.0)
                kept = [x.clone() for x in model.parameters()]
            self.assertTrue(wanted)
        self.require_end(server)


class Rounds(cluster.Case):
    """A step of several batches is the mean over all of their samples."""

    samples = 50

    def setUp(self):
        super().setUp()
        # The gradient of this mean is the mean of x.
        self.data = torch.utils.data.TensorDataset(
            torch.arange(self.samples, dtype=torch.float64).square().unsqueeze(1)
        )

    def rounds(self, batch, k, loop, epochs=3, **options):
        """Runs a loop; gives the weight at the end, and what it should be."""
        model = nn.Linear(1, 1, bias=False).double()
        nn.init.zeros_(model.weight)
        file = troupe.describe(model, self.folder / "one.safetensors")
        server, port = self.serve(
            "--workers", 1, "--epochs", epochs, "--batch-size", batch, "--lr", 1,
            "--momentum", 0, "--dtype", "float64", network=f"weights:{file}",
            dataset=f"external(samples={self.samples},id=toy)",
        )
        expected, covered, steps = 0.0, [], []
        with troupe.Worker(
            model, dataset_size=self.samples, dataset_id="toy", port=port, **options
        ) as worker:
            loader = worker.loader(self.data)
            for number, (x,) in enumerate(loader):
                (model(x).mean() / k).backward()
                covered += loader.lease.indices
                for done in loop(worker, number):
                    if done:
                        expected -= sum(self.data[i][0].item() for i in covered) / len(covered)
                        steps.append(len(covered))
                    covered = []
        self.require_end(server)
        self.assertEqual(sum(steps), epochs * self.samples)
        found = self.run_directory().state_dict("last")["weight"].item()
        self.assertAlmostEqual(found / expected, 1, 12)
        return steps

    @staticmethod
    def each(k):
        def loop(worker, number):
            if number % k == k - 1 or worker.due:
                yield worker.step(0.0)

        return loop

    @staticmethod
    def when_due(worker, number):
        if worker.due:
            yield worker.step(0.0)

    def test_with_a_shorter_last_step(self):
        self.assertEqual(self.rounds(10, 4, self.each(4), leases=4), [40, 40, 40, 30])

    def test_with_batches_of_unequal_size(self):
        self.rounds(15, 2, self.each(2))

    def test_that_says_how_many(self):
        steps = self.rounds(20, 3, self.when_due, accumulate=3)
        self.assertEqual(steps, [50, 50, 50])

    def test_that_is_shorter_from_the_beginning(self):
        self.assertEqual(self.rounds(20, 5, self.when_due, epochs=1, accumulate=5), [50])

    def test_after_batches_that_were_skipped(self):
        def loop(worker, number):
            if number == 5:
                worker.skip()
                yield False
            elif number % 4 == 3 or worker.due:
                yield worker.step(0.0)

        self.rounds(10, 4, loop, leases=5)

    def test_of_one_loss_for_several_leases(self):
        model = nn.Linear(1, 1, bias=False).double()
        nn.init.zeros_(model.weight)
        file = troupe.describe(model, self.folder / "one.safetensors")
        server, port = self.serve(
            "--workers", 1, "--epochs", 1, "--batch-size", 30, "--lr", 1, "--momentum", 0,
            "--dtype", "float64", network=f"weights:{file}",
            dataset=f"external(samples={self.samples},id=toy)",
        )
        with troupe.Worker(
            model, dataset_size=self.samples, dataset_id="toy", port=port
        ) as worker:
            indices = []
            for lease in worker:
                indices += lease.indices
                if worker.due:
                    model(self.data[indices][0]).mean().backward()
                    worker.step(0.0)
        self.require_end(server)
        found = self.run_directory().state_dict("last")["weight"].item()
        self.assertAlmostEqual(-found / self.data[:][0].mean().item(), 1, 12)


class Cancelled(cluster.Case):
    def test_with_rounds_and_a_loader_that_is_ahead(self):
        server, port = self.serve(
            "--policy", "backup(backup-workers=1,late=cancel)", "--workers", 2,
            "--epochs", 12, "--batch-size", 10,
        )
        slow = self.work(
            port, 0, "--workers", "1", "--accumulate", "3", "--seconds", "0.02",
            "compute_timeout=30",
        )
        fast = self.work(port, 1, "--accumulate", "2", "--seconds", "0.005")
        for process in (slow, fast, server):
            self.require_end(process)
        self.assertEqual(self.run_directory().summary["samples_applied"], 12 * toy.SAMPLES)
        seen = collections.Counter()
        for batch in self.batches():
            if batch["wanted"]:
                seen.update((batch["epoch"], i) for i in batch["indices"])
        self.assertEqual(set(seen.values()), {1})
        self.assertEqual(len(seen), 12 * toy.SAMPLES)


class Crossed(unittest.TestCase):
    """Weights cross a gradient that covers their lease: they are not used, since the worker
    takes the gradient for their answer."""

    def test_they_are_left_alone(self):
        session = mock.MagicMock()
        session.node.end, session.node.waits.return_value = None, False
        book = LeaseBook(session, Gradients(session, 2, False))
        take = book.handlers()
        lease, weights = struct.pack("<QIIQ", 0, 0, 1, 7), struct.pack("<QBBQQQQQQQQQ", *[0] * 12)
        for number in (1, 2):
            take[frames.LEASE](number, frames.Body(lease))
        take[frames.WEIGHTS](1, frames.Body(weights))
        while book.accumulated() < 2:
            book.begin(book.next_lease(wait=True))
        coming = iter((2, 3))
        session.take_next = lambda: take[frames.WEIGHTS](next(coming), frames.Body(weights))
        self.assertTrue(book.take_step(0.5, {}))
        self.assertTrue(book.push())
        self.assertEqual(list(coming), [])  # It has waited for those of the next lease.
        self.assertEqual(session.tensors.load.call_count, 2)


class Left(cluster.Case):
    """A loop that is left keeps nobody waiting."""

    def lines(self, number):
        file = self.folder / f"report-{number}.jsonl"
        return file.read_text().count("\n") if file.exists() else 0

    def await_lines(self, process, number, count):
        until = time.monotonic() + cluster.PATIENCE
        while self.lines(number) < count:
            self.assertLess(time.monotonic(), until, process.output())
            self.assertIsNone(process.process.poll(), process.output())
            time.sleep(0.01)

    def test_by_break_or_an_exception(self):
        server, port = self.serve("--workers", 2, "--epochs", 100000, "--batch-size", 10)
        other = self.work(port, 1)
        model, data = toy.Net(), toy.Points()

        def go(worker, steps, workers, error=False):
            for number, (x, y) in enumerate(worker.loader(data, num_workers=workers)):
                cross_entropy(model(x), y).backward()
                if number == steps:
                    if error:
                        raise ValueError("of the user's")
                    break
                worker.step(0.0)

        with troupe.Worker(
            model, dataset_size=toy.SAMPLES, dataset_id="toy", port=port
        ) as worker:
            for workers, error in ((0, False), (1, False), (0, True)):
                try:
                    go(worker, 5, workers, error)
                except ValueError:
                    self.assertTrue(error)
                self.await_lines(other, 1, self.lines(1) + 20)
            loop = iter(worker)
            next(loop)
            worker.skip()
            del loop
            self.await_lines(other, 1, self.lines(1) + 20)
            server.process.terminate()
            self.require_end(server, 75)
            for _ in worker:
                self.fail("the run has ended")
        self.require_end(other)


class Seeds(cluster.Case):
    code = (
        "import random, sys, torch, toy, troupe\n"
        "class Data(toy.Points):\n"
        "    def __getitem__(self, i):\n"
        "        return torch.tensor([torch.randint(1 << 30, ()).item(),"
        " random.randrange(1 << 30)])\n"
        "torch.manual_seed(0); random.seed(0)\n"
        "with troupe.Worker(toy.Net(), dataset_size=600, port=sys.argv[1]) as worker:\n"
        "    for x in worker.loader(Data(), num_workers=int(sys.argv[2])):\n"
        "        print('rank', worker.rank, *x.flatten().tolist(), flush=True)\n"
        "        worker.skip(); break\n"
    )

    def check(self, workers):
        server, port = self.serve("--workers", 2, "--batch-size", 100)
        started = [
            self.start(f"worker-{i}", [sys.executable, "-c", self.code, port, workers])
            for i in range(2)
        ]
        draws, ranks = [], set()
        for process in started:
            self.require_end(process)
            rank, *its = process.output().split("rank ")[1].split()
            draws += its
            ranks.add(rank)
        self.assertEqual(ranks, {"0", "1"})
        self.assertEqual(len(set(draws)), len(draws))
        server.process.terminate()
        self.require_end(server, 75)

    def test_differ_between_workers_that_are_seeded_alike(self):
        self.check(0)

    def test_differ_between_their_loader_processes(self):
        self.check(1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
