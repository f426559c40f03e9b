"""Workers that step with an optimiser of torch's, and push what has changed."""

import collections
import copy
import math
import os
import signal
import sys
import threading
import time
import unittest
import warnings
from unittest import mock

import cluster
import toy
import torch
import train
import troupe
from torch import nn
from torch.nn.functional import cross_entropy
from troupe.gradients import Gradients
from troupe.local_steps import LocalSteps

#: The server takes the weights of a lone worker as they are.
OUTER = ("--lr", 1, "--momentum", 0)


def network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(20, 16, bias=False), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 3)
    )


def merge(model, other):
    """Gives a model the mean of its numbers and another's."""
    for own, its in zip(model.state_dict().values(), other.state_dict().values()):
        if own.is_floating_point():
            own.add_(its).mul_(0.5)


class Case(cluster.Case):
    def begin(self, model, *flags, name="server"):
        """A server for a model, and the settings of its workers."""
        file = troupe.describe(model, self.folder / f"{name}.safetensors")
        double = next(model.parameters()).dtype == torch.float64
        server, port = self.serve(
            "--train-dir", self.folder / name, "--dtype", "float64" if double else "float32",
            *flags, network=f"weights:{file}", name=name,
        )
        return server, {"dataset_size": toy.SAMPLES, "dataset_id": "toy", "port": port}

    def end(self, server, samples, steps=None, name="server"):
        """The run ends in order; gives its last state."""
        self.require_end(server)
        run = troupe.Run(self.folder / name)
        self.assertEqual(run.summary["samples_applied"], samples)
        if steps is not None:
            self.assertEqual(run.summary["steps"], steps)
        return run.state_dict("last")

    def require_close(self, found, expected, tolerance):
        for name, value in expected.items():
            if value.is_floating_point():
                self.assertLess((found[name] - value).abs().max().item(), tolerance, name)


class PlainLoop(Case):
    """With one worker, whose weights the server takes as they are, the run is a loop
    without Troupe."""

    def train(
        self, make, steps, *, rounds, before=lambda model: model, fragments=1, overlap=0,
        **options,
    ):
        """Trains, and makes the same steps without a worker. `make` gets the model and
        returns what is to be done with each batch and its number. The weights that come
        after `overlap` steps are those that were pushed."""
        model = network().double()
        alone = copy.deepcopy(model)
        server, settings = self.begin(
            model, *OUTER, "--workers", 1, "--epochs", 2, "--batch-size", 30,
            "--local-steps", steps, "--fragments", fragments, "--overlap-steps", overlap,
        )
        computing = before(model)
        losses = []
        pushed, since = None, 0
        with troupe.Worker(
            model, local_steps=steps, overlap_steps=overlap, **settings, **options
        ) as worker:
            one, other = make(computing), make(alone)
            for number, (x, y) in enumerate(worker.loader(toy.Points()), 1):
                is_last = worker.due
                loss, stepped = one(x.double(), y, number, is_last)
                loss_alone, _ = other(x.double(), y, number, is_last)
                self.assertAlmostEqual(loss.item(), loss_alone.item(), delta=1e-10)
                losses.append(loss.item())
                if stepped:
                    self.assertTrue(worker.step(loss, twice=2 * loss))
                    self.assertEqual(worker.accumulated == 0, is_last)
                    since += 1
                    if pushed is not None and since == overlap:
                        merge(alone, pushed)
                    if is_last:
                        pushed, since = copy.deepcopy(alone), 0
        last = self.end(server, 2 * toy.SAMPLES, rounds)
        if fragments == 1:
            self.require_close(last, alone.state_dict(), 1e-12)
        self.assertLess(losses[-1], losses[0])
        return losses

    def test_fragments_come_back_in_turn(self):
        def make(model):
            optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

            def go(x, y, number, is_last):
                optimizer.zero_grad()
                loss = cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                return loss, True

            return go

        self.train(make, 4, rounds=10, fragments=3)
        summary = troupe.Run(self.folder / "server").summary
        self.assertEqual(summary["samples_partly_applied"], 2 * 4 * 30)

    def test_steps_before_the_weights(self):
        def make(model):
            optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

            def go(x, y, number, is_last):
                optimizer.zero_grad()
                loss = cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                return loss, True

            return go

        self.train(make, 4, rounds=10, overlap=3)

    def test_adamw_keeps_its_state(self):
        def make(model):
            optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)

            def go(x, y, number, is_last):
                loss = cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                return loss, True

            return go

        losses = self.train(make, 8, rounds=5)
        updates = [
            line for line in troupe.Run(self.folder / "server").metrics()
            if line["kind"] == "update"
        ]
        for number, line in enumerate(updates):
            mean = torch.tensor(losses[8 * number : 8 * number + 8]).mean().item()
            self.assertAlmostEqual(line["loss"], mean, 6)
            self.assertAlmostEqual(line["metrics"]["twice"], 2 * mean, 5)

    def test_a_compiled_model_with_a_scheduler_clipping_and_accumulation(self):
        def make(model):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
            scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.2, total_steps=40)

            def go(x, y, number, is_last):
                loss = cross_entropy(model(x), y)
                (loss / 2).backward()
                if number % 2 and not is_last:
                    return loss, False
                nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                optimizer.step()
                optimizer.zero_grad(set_to_none=False)
                scheduler.step()
                return loss, True

            return go

        self.train(
            make, 3, rounds=7, accumulate=2,
            before=lambda model: torch.compile(model, backend="eager"),
        )

    def test_scaled_gradients(self):
        def make(model):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20, growth_interval=5)

            def go(x, y, number, is_last):
                loss = cross_entropy(model(x), y)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
                return loss, True

            return go

        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            self.train(make, 7, rounds=6)


class OneStep(Case):
    def train(self, name, *flags, optimizer=None, **options):
        torch.manual_seed(0)
        model = nn.Linear(20, 3)
        own = optimizer(model.parameters()) if optimizer else None
        server, settings = self.begin(
            model, "--workers", 1, "--epochs", 2, "--batch-size", 30, *flags, name=name
        )
        with troupe.Worker(model, **settings, **options) as worker:
            for x, y in worker.loader(toy.Points()):
                loss = cross_entropy(model(x), y)
                loss.backward()
                if own is not None:
                    own.step()
                    own.zero_grad()
                self.assertTrue(worker.step(loss))
        return self.end(server, 2 * toy.SAMPLES, 40, name)

    def test_is_a_gradient(self):
        pushed = self.train("pushed", "--lr", 0.1, "--momentum", 0)
        local = self.train(
            "local", *OUTER, "--local-steps", 1, local_steps=1,
            optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        )
        self.require_close(local, pushed, 1e-6)


class Samples(cluster.Case):
    """Each sample of an epoch counts once, however the rounds end."""

    epochs = 4

    def check(self, *processes):
        for process in processes:
            self.require_end(process)
        run = self.run_directory()
        self.assertEqual(run.summary["samples_applied"], self.epochs * toy.SAMPLES)
        self.assertGreater(toy.accuracy(run.state_dict("last")), 0.8)
        return run

    def serve_two(self, policy, steps, *flags, **more):
        return self.serve(
            "--policy", policy, "--workers", 2, "--epochs", self.epochs, "--batch-size", 10,
            "--lr", 0.7, "--momentum", 0, "--local-steps", steps, *flags, **more,
        )

    def work_here(self, port, number, **options):
        """A worker of this process, until the run ends."""
        with open(self.folder / f"report-{number}.jsonl", "w") as report:
            train.train(report, port=port, **options)

    def overlap(self, policy):
        """Rounds begin before the weights come. Gives the kinds of what has happened."""
        server, port = self.serve_two(policy, 8, "--overlap-steps", 3)
        ahead = ("--local-steps", 8, "--overlap-steps", 3)
        other = self.work(port, 0, *ahead, "--seconds", 0.02)
        self.work_here(port, 1, local_steps=8, overlap_steps=3)
        return {line["kind"] for line in self.check(other, server).metrics()}

    def test_steps_before_the_weights(self):
        self.overlap("async")

    def test_steps_before_the_weights_of_rounds_that_come_too_late(self):
        self.assertIn("dropped", self.overlap("backup(backup-workers=1,late=drop)"))

    def each_once(self, policy, *slow, **fast):
        """With flags for a worker of another process, and options for one of this."""
        server, port = self.serve_two(policy, 8)
        other = self.work(port, 0, "--local-steps", 8, *slow)
        self.work_here(port, 1, local_steps=8, **fast)
        run = self.check(other, server)
        seen = collections.Counter()
        for batch in self.batches():
            if batch["wanted"]:
                seen.update((batch["epoch"], i) for i in batch["indices"])
        self.assertEqual(len(seen), self.epochs * toy.SAMPLES)
        self.assertEqual(set(seen.values()), {1})
        return run

    def test_async(self):
        run = self.each_once("async", loaders=1)
        losses = [line["loss"] for line in run.metrics() if line["kind"] == "update"]
        self.assertLess(sum(losses[-4:]) / 4, 0.8 * losses[0])

    def test_sync(self):
        self.each_once("sync")

    def test_rounds_by_rates(self):
        """A slow worker makes fewer steps than a quick one, though nobody waits long."""
        rates = "auto(max=8)"
        server, port = self.serve_two("sync", rates)
        slow = self.work(port, 0, "--local-steps", rates, "--seconds", 0.2)
        self.work_here(port, 1, local_steps=rates)
        self.check(slow, server)
        made = [len((self.folder / f"report-{i}.jsonl").read_text().splitlines()) for i in (0, 1)]
        self.assertGreater(made[1], 2 * made[0])

    def test_rounds_that_are_cancelled(self):
        run = self.each_once(
            "backup(backup-workers=1,late=cancel)", "--seconds", 0.01, "--workers", 1
        )
        self.assertIn("cancelled", {line["kind"] for line in run.metrics()})

    def test_of_a_worker_that_dies_in_a_round(self):
        server, port = self.serve_two("async", 20)
        victim = self.work(port, 0, "--local-steps", 20, "--seconds", 0.05)
        server.await_line("joined +worker 0")

        def kill():
            time.sleep(0.4)
            victim.process.kill()

        killer = threading.Thread(target=kill)
        killer.start()
        self.work_here(port, 1, local_steps=20, pause=0.004)
        killer.join()
        self.assertFalse((self.folder / "report-0.jsonl").read_text())
        self.check(server)

    def test_of_a_server_that_dies_in_a_round(self):
        flags = ("async", 10, "--checkpoint-freq", 1)
        server, port = self.serve_two(*flags)
        workers = [
            self.work(port, i, "--local-steps", 10, "--seconds", 0.005) for i in range(2)
        ]
        server.await_line(r"checkpoint +step-0*([3-9]|1\d)\b")  # Not each is written.
        server.end()
        server, _ = self.serve_two(*flags, "--resume", "auto", port=port, name="again")
        self.check(*workers, server)


class Loops(Case):
    def begin_loop(self, *flags, steps=4, **options):
        self.model = network()
        self.server, settings = self.begin(
            self.model, *OUTER, "--workers", 1, "--epochs", 1, "--batch-size", 30,
            "--local-steps", steps, *flags,
        )
        self.worker = troupe.Worker(self.model, local_steps=steps, **settings, **options)
        self.addCleanup(self.worker.close)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        return self.worker.loader(toy.Points())

    def step(self, batch, rate=0.1):
        x, y = batch
        loss = cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.param_groups[0]["lr"] = rate
        self.optimizer.step()
        self.optimizer.zero_grad()
        return self.worker.step(loss)

    def test_rounds_end_with_the_run(self):
        lengths = []
        for batch in self.begin_loop(steps=7):
            before = self.worker.accumulated
            self.assertTrue(self.step(batch))
            if self.worker.accumulated == 0:
                lengths.append(before)
        self.end(self.server, toy.SAMPLES, 3)
        self.assertEqual(lengths, [7, 7, 6])

    def test_batches_that_are_skipped_come_again(self):
        computed = []
        loader = self.begin_loop()
        for number, batch in enumerate(loader):
            if number in (2, 4):  # In a round, and at its beginning.
                kept = [x.clone() for x in self.model.parameters()]
                self.worker.skip()
                with self.assertRaisesRegex(troupe.Error, r"skip\(\) needs a batch"):
                    self.worker.skip()
                for was, now in zip(kept, self.model.parameters()):
                    self.assertTrue(torch.equal(was, now))
                continue
            computed += loader.lease.indices
            self.assertTrue(self.step(batch))
        self.end(self.server, toy.SAMPLES)
        self.assertEqual(sorted(computed), list(range(toy.SAMPLES)))

    def test_batches_after_the_last_step_count(self):
        """As in a loop that accumulates three batches, and does not look at `due`."""
        for number, (x, y) in enumerate(self.begin_loop(), 1):
            cross_entropy(self.model(x), y).div(3).backward()
            if number % 3 == 0:
                self.optimizer.step()
                self.optimizer.zero_grad()
                self.worker.step(1.0)
        self.end(self.server, toy.SAMPLES)
        (loss,) = {x["loss"] for x in troupe.Run(self.folder / "server").metrics()
                   if x["kind"] == "update"}
        self.assertEqual(loss, 1)

    def test_a_loop_that_is_left_gives_its_round_back(self):
        for number, batch in enumerate(self.begin_loop()):
            self.step(batch)
            if number == 5:
                break
        kept = [x.clone() for x in self.model.parameters()]
        time.sleep(0.1)
        for was, now in zip(kept, self.model.parameters()):
            self.assertTrue(torch.equal(was, now))
        for batch in self.worker.loader(toy.Points()):
            self.step(batch)
        self.end(self.server, toy.SAMPLES)

    def test_a_worker_that_is_told_to_stop_pushes_its_round(self):
        computed = 0
        loader = self.begin_loop("--epochs", 100000, steps=15)
        for number, batch in enumerate(loader):
            if number == 9:
                os.kill(os.getpid(), signal.SIGTERM)
                while self.worker.stopping is None:
                    time.sleep(0.01)
                self.assertTrue(self.worker.due)
            computed += len(loader.lease.indices)
            self.step(batch)
        self.assertEqual(computed, 10 * 30)
        self.worker.close()
        self.server.process.terminate()
        self.require_end(self.server, 75)
        summary = troupe.Run(self.folder / "server").summary
        self.assertEqual((summary["steps"], summary["samples_applied"]), (1, computed))

    def test_step_needs_a_batch(self):
        with self.assertRaisesRegex(troupe.Error, "step.. needs a batch"):
            for batch in self.begin_loop():
                self.step(batch)
                self.worker.step(0.0)

    def test_without_a_step_of_the_optimiser(self):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            for x, y in self.begin_loop():
                cross_entropy(self.model(x), y).backward()
                self.worker.step(0.0)
        self.end(self.server, toy.SAMPLES, 5)
        (line,) = [x for x in seen if x.category is RuntimeWarning]
        self.assertIn("no weight has changed in a round of local steps", str(line.message))
        self.assertEqual(line.filename, __file__)

    def test_weights_that_are_not_finite(self):
        loader = self.begin_loop()
        for number in (math.inf, math.nan):
            with self.assertRaisesRegex(
                troupe.Error, r"^3.weight became infinite or NaN in a local step: .*[^\n]$"
            ):
                for _ in loader:
                    with torch.no_grad():
                        self.model[3].weight[1, 2] = number
                    self.worker.step(0.0)
        for batch in loader:
            self.step(batch)
        self.end(self.server, toy.SAMPLES)


class Refused(cluster.Case):
    def test_what_the_run_has_otherwise(self):
        for at_server, here, why in [
            (4, None, r"makes 4 local steps .* give Worker\(local_steps=4\), and call opt"),
            (4, 8, "local-steps = 8 here, but 4 at"),
            (0, 8, "local-steps = 8 here, but 0 at"),
            ("4 --overlap-steps 2", 4, "overlap-steps = 0 here, but 2 at"),
            ("auto(max=4)", 4, r"local-steps = 4 here, but auto\(max=4\) at"),
            ("auto(max=4)", None, r'give Worker\(local_steps="auto\(max=4\)"\), and call'),
        ]:
            server, port = self.serve(
                "--workers", 1, "--local-steps", *str(at_server).split(), "--train-dir",
                self.folder / f"{at_server}-{here}", name=f"server-{at_server}-{here}",
            )
            with self.assertRaisesRegex(troupe.Error, why):
                troupe.Worker(
                    toy.Net(), dataset_size=toy.SAMPLES, dataset_id="toy", port=port,
                    local_steps=here,
                )
            server.end()

    def test_what_the_welcome_has_otherwise(self):
        session = mock.MagicMock()
        session.run.local_steps, session.run.by_rate, session.is_replay = 0, False, False
        with self.assertRaisesRegex(
            troupe.Error, r"makes no local steps, and this worker 8: give serve\(local_steps=8\)"
        ):
            LocalSteps(session, 8, None).join()
        session.run.local_steps, session.is_replay = 8, True
        session.run.rounds.return_value = "8"
        with self.assertRaisesRegex(troupe.Error, "has made 8 local steps .* computed again"):
            Gradients(session, None, False).join()

    def test_what_goes_not_together(self):
        for settings, why in [
            ({"local_steps": 0}, "local_steps=0: a round has from 1 to 1000 local steps"),
            ({"local_steps": 1001}, "local_steps=1001: a round has from 1 to 1000"),
            ({"local_steps": "fast"}, """local_steps='fast': give a number, "auto" or "auto"""),
            ({"local_steps": "auto(max=0)"}, r"local_steps=auto\(max=0\): a round has from 1"),
            ({"local_steps": "auto", "leases": 7}, "local_steps=auto needs 32 leases, and"),
            ({"local_steps": 8, "leases": 7}, "local_steps=8 needs 8 leases, and leases=7"),
            ({"local_steps": 8, "accumulate": 3, "leases": 23},
             "accumulate=3 and local_steps=8 needs 24 leases, and leases=23"),
            ({"local_steps": 1000, "accumulate": 2}, "needs 2000 leases, and leases=1024"),
            ({"local_steps": 8, "accumulate": 65}, "a step covers from 1 to 64 batches"),
            ({"local_steps": 8, "overlap_steps": 8}, "overlap_steps=8: are steps of a round"),
            ({"overlap_steps": 1}, "overlap_steps=1: are steps of .* give from 0 to 0"),
            ({"local_steps": 8, "views": True}, "views=True goes not with local_steps: "),
            ({"local_steps": 8, "replay": "tape-1.pb"}, "replay= goes not with local_steps: "),
        ]:
            with self.assertRaisesRegex(troupe.Error, why):
                troupe.Worker(toy.Net(), dataset_size=toy.SAMPLES, **settings)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
