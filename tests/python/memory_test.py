"""Where a worker's weights and gradients lie, and what that changes: nothing."""

import copy
import os
import shutil
import subprocess
import sys
import unittest
from unittest import mock

import cluster
import toy
import torch
import troupe
from torch import nn


class Heap(unittest.TestCase):
    """What a step frees stays with the process for the next one."""

    PROGRAM = """
import resource, sys, torch
from troupe.heap import keep_memory
if sys.argv[1] == "keep": keep_memory()
def step():
    for block in [torch.ones(1 << 20) for _ in range(8)]: pass
for _ in range(3): step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20): step()
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 20)
"""

    def faults_of_a_step(self, how, **more):
        return float(
            subprocess.run(
                [sys.executable, "-c", self.PROGRAM, how],
                env={**os.environ, **more}, stdout=subprocess.PIPE, check=True, timeout=60,
            ).stdout
        )

    PAGES = 8 * (4 << 20) / 4096  #: Of a step.

    def test_it_is_kept(self):
        self.assertLess(self.faults_of_a_step("keep"), self.PAGES / 10)

    def test_the_user_may_choose(self):
        faults = self.faults_of_a_step("keep", MALLOC_TRIM_THRESHOLD_="131072")
        self.assertGreater(faults, self.PAGES / 2)


class Views(cluster.Case):
    """The model's parameters are the run's own weights."""

    def train(self, views, *flags):
        name = f"views-{views}"
        server, port = self.serve(
            "--workers", 1, "--epochs", 2, "--lr", 0.05, "--train-dir", self.folder / name,
            *flags, name=name,
        )
        model, data = toy.model(), toy.Points()
        own = {x.data_ptr() for x in model.parameters()}
        seen = set()
        with troupe.Worker(
            model, dataset_size=toy.SAMPLES, dataset_id="toy", port=port, views=views
        ) as worker:
            for x, y in worker.loader(data):
                seen.update(x.data_ptr() for x in model.parameters())
                loss = nn.functional.cross_entropy(model(x), y)
                loss.backward()
                self.assertTrue(worker.step(loss))
        self.require_end(server)
        self.assertEqual(seen == own, not views)
        # Nothing of the run's memory is left to the user.
        self.assertFalse(seen.intersection(x.data_ptr() for x in model.parameters()) - own)
        for x in model.parameters():
            self.assertTrue(x.isfinite().all())
        return troupe.Run(self.folder / name).state_dict("last")

    def test_it_trains_alike(self):
        for path in ("auto", "stream"):
            with self.subTest(path):
                copied = self.train(False, "--transport", path)
                viewed = self.train(True, "--transport", path)
                for name, value in copied.items():
                    self.assertTrue(torch.equal(viewed[name], value), name)
                for name in ("views-False", "views-True"):
                    shutil.rmtree(self.folder / name)

    def test_a_change_is_refused_and_reaches_nobody(self):
        server, port = self.serve("--workers", 1, "--epochs", 3)
        model, data = toy.model(), toy.Points()
        settings = {"dataset_size": toy.SAMPLES, "dataset_id": "toy", "port": port}
        with (
            self.assertRaisesRegex(troupe.Error, "last.weight was changed in place"),
            troupe.Worker(model, **settings, views=True) as worker,
        ):
            for x, y in worker.loader(data):
                with torch.no_grad():
                    model.last.weight.fill_(float("nan"))
                nn.functional.cross_entropy(model(x), y).backward()
                worker.step(0.0)
        other = self.work(port, 1)
        self.require_end(other)
        self.require_end(server)
        weights = self.run_directory().state_dict("last")
        self.assertTrue(all(x.isfinite().all() for x in weights.values()))


class Early(cluster.Case):
    """Gradients that backward puts into the shared memory, as large ones are."""

    def train(self, least, backward=None, between=None):
        """Trains, with gradients from `least` bytes on put there early."""
        name = f"early-{least}"
        server, port = self.serve(
            "--workers", 1, "--epochs", 2, "--lr", 0.05, "--train-dir", self.folder / name,
            name=name,
        )
        model = toy.model()
        with (
            mock.patch("troupe.blocks._EARLY", least),
            troupe.Worker(
                model, dataset_size=toy.SAMPLES, dataset_id="toy", port=port
            ) as worker,
        ):
            for x, y in worker.loader(toy.Points()):
                for half in (slice(0, None, 2), slice(1, None, 2)):
                    loss = nn.functional.cross_entropy(model(x[half]), y[half])
                    (backward or torch.Tensor.backward)(loss)
                if backward is None:
                    self.assertEqual(self.are_in_a_block(model), least == 0)
                if between:
                    between(model)
                self.assertTrue(worker.step(loss))
                self.assertTrue(all(x.grad is None for x in model.parameters()))
        self.require_end(server)
        run = troupe.Run(self.folder / name)
        self.assertEqual(run.summary["gradients_refused"], 0)
        return run.state_dict("last")

    @staticmethod
    def are_in_a_block(model):
        """Whether the gradients are parts of something larger."""
        return all(x.grad.untyped_storage().nbytes() > x.grad.nbytes for x in model.parameters())

    def compare(self, **how):
        late = self.train(1 << 40, **how)
        for name, value in self.train(0, **how).items():
            self.assertTrue(torch.equal(late[name], value), name)

    def test_they_add_up(self):
        self.compare()

    def test_the_user_may_change_them(self):
        def between(model):
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            model.last.bias.grad = torch.ones(3)

        self.compare(between=between)

    def test_the_user_may_clear_them(self):
        def between(model):
            model.zero_grad()
            model(torch.ones(4, 20)).sum().backward()
            model.zero_grad(set_to_none=False)
            model(torch.ones(4, 20)).square().sum().backward()

        self.compare(between=between)

    def test_they_may_have_gradients(self):
        self.compare(backward=lambda loss: loss.backward(create_graph=True))

    def test_a_child_does_not_have_them(self):
        def between(model):
            child = os.fork()
            if child == 0:
                os._exit(any(x.grad is not None for x in model.parameters()))
            self.assertEqual(os.waitpid(child, 0)[1], 0)

        self.compare(between=between)

    def test_a_loop_that_is_left_keeps_none(self):
        server, port = self.serve("--workers", 1, "--epochs", 1)
        model, data = toy.model(), toy.Points()
        with (
            mock.patch("troupe.blocks._EARLY", 1000),
            troupe.Worker(
                model, dataset_size=toy.SAMPLES, dataset_id="toy", port=port
            ) as worker,
        ):
            for stays in (False, True):
                for x, y in worker.loader(data):
                    self.assertTrue(all(x.grad is None for x in model.parameters()))
                    nn.functional.cross_entropy(model(x), y).backward()
                    if not stays:
                        break
                    worker.step(0.0)
        copy.deepcopy(model)(torch.ones(4, 20)).sum().backward()
        self.require_end(server)
        self.assertEqual(self.run_directory().summary["samples_applied"], toy.SAMPLES)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
