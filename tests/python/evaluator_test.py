"""Evaluators whose scores Python computes, with metrics of their own."""

import os
import signal
import sys
import time
import unittest
from unittest import mock

import cluster
import toy
import torch
import troupe
from torch.nn.functional import cross_entropy

DATA = toy.Points()


def score(model):
    """Of the toy: a metric that may rise, and one that may fall."""
    outputs = model(DATA.x)
    right = (outputs.argmax(1) == DATA.y).float().mean()
    return {"recall": right, "loss": cross_entropy(outputs, DATA.y)}


class Case(cluster.Case):
    def serve_scored(self, workers, *flags):
        return self.serve(
            "--policy", "async", "--workers", workers, "--batch-size", 25, "--lr", 0.05,
            "--eval-freq", 5, *flags,
        )

    def serve_until_told(self):
        """A run that ends when an evaluator says so."""
        return self.serve_scored(1, "--epochs", 100000, "--target", "recall>=2")

    def end(self, server, port, worker):
        """Another evaluator scores, and ends the run."""
        found = self.evaluate(port, lambda model: {**score(model), "recall": 2})
        self.require_end(worker)
        self.require_end(server)
        self.assertEqual(self.run_directory().summary["final_metrics"], found[-1][1])

    def evaluate(self, port, by=score, **settings):
        with troupe.Evaluator(toy.model(), by, port=port, **settings) as evaluator:
            return list(evaluator)


class Metrics(Case):
    def train(self, *flags):
        server, port = self.serve_scored(2, *flags)
        workers = [self.work(port, i) for i in range(2)]
        found = self.evaluate(port, samples=toy.SAMPLES)
        for process in [*workers, server]:
            self.require_end(process)
        return server, found, self.run_directory()

    def test_a_target(self):
        server, found, run = self.train("--epochs", 200, "--target", "recall>=0.85")
        self.assertIn("reached recall>=0.85", server.output())
        self.assertLess(run.summary["epochs"], 200)
        steps = [step for step, _ in found]
        self.assertEqual(steps, sorted(set(steps)))
        self.assertEqual(steps[-1], run.summary["steps"])
        self.assertEqual(run.summary["final_metrics"], found[-1][1])
        self.assertIsNone(run.summary["final_accuracy"])
        best = run.summary["best_metric"]
        self.assertEqual((best["name"], best["rule"]), ("recall", "max"))
        self.assertEqual(best["value"], max(metrics["recall"] for _, metrics in found))
        self.assertAlmostEqual(toy.accuracy(run.state_dict("best")), best["value"], places=6)
        rows = [x for x in run.metrics() if x["kind"] == "evaluation"]
        self.assertEqual([(x["step"], x["metrics"]) for x in rows], found)
        self.assertEqual({x["samples"] for x in rows}, {toy.SAMPLES})
        events = b"".join(x.read_bytes() for x in run.path.glob("events.out.*"))
        self.assertIn(b"eval/recall", events)
        self.assertRegex(server.output(), r"evaluation +step \d+  recall 0\.\d+  loss \d")

    def test_the_average_is_scored_too(self):
        server, found, run = self.train(
            "--epochs", 200, "--ema-decay", 0.5, "--target", "ema/recall>=0.85",
        )
        self.assertIn("reached ema/recall>=0.85", server.output())
        self.assertLess(run.summary["epochs"], 200)
        (step, weights), (same, average) = found[-2:]
        self.assertEqual(step, same)
        self.assertEqual(run.summary["final_metrics"], {**weights, **average})
        best = run.summary["best_metric"]
        self.assertEqual((best["name"], best["rule"]), ("ema/recall", "max"))
        self.assertAlmostEqual(toy.accuracy(run.state_dict("best")), best["value"], places=6)

    def test_the_lowest_is_the_best(self):
        _, found, run = self.train("--epochs", 4, "--best-by", "min(loss)")
        lowest = min(found, key=lambda x: x[1]["loss"])
        self.assertEqual(
            run.summary["best_metric"],
            {"name": "loss", "rule": "min", "value": lowest[1]["loss"], "step": lowest[0]},
        )
        self.assertEqual(run.summary["best_step"], lowest[0])
        model = toy.Net()
        model.load_state_dict(run.state_dict("best"))
        model.eval()
        with torch.no_grad():
            self.assertAlmostEqual(float(score(model)["loss"]), lowest[1]["loss"], places=5)


class Steps(Case):
    def test_metrics_of_steps(self):
        """What a worker tells of its steps is recorded as it was told."""
        server, port = self.serve_scored(1, "--epochs", 1)
        model, told = toy.model(), []
        with troupe.Worker(
            model, dataset_size=toy.SAMPLES, dataset_id="toy", port=port
        ) as worker:
            for x, y in worker.loader(DATA):
                outputs = model(x)
                loss = cross_entropy(outputs, y)
                loss.backward()
                right = (outputs.argmax(1) == y).float().mean()
                told.append({"right": float(right), "batch/number": len(told)})
                worker.step(loss, **told[-1])
        self.require_end(server)
        run = self.run_directory()
        rows = [x["metrics"] for x in run.metrics() if x["kind"] == "update"]
        self.assertEqual(rows, told)
        events = b"".join(x.read_bytes() for x in run.path.glob("events.out.*"))
        self.assertIn(b"train/right", events)


class Wrong(Case):
    def setUp(self):
        super().setUp()
        self.server, self.port = self.serve_until_told()

    def test_scores_that_are_refused(self):
        """Each evaluator ends with one line, and the run goes on."""
        def sleep(_):
            time.sleep(1.5)
            return {"recall": 0}

        def replace(model):
            found = score(model)
            model.last = torch.nn.Linear(256, 3)
            return found

        worker = self.work(self.port, 0)
        for pattern, by, settings in [
            ("score.. returned float: return a dictionary", lambda _: 0.5, {}),
            ("the metric recall is no number", lambda _: {"recall": "high"}, {}),
            ("a metric with the name '1st'; a letter comes first", lambda _: {"1st": 1}, {}),
            ("--target recall>=2: the score has no recall, only loss",
             lambda _: {"loss": 1}, {}),
            (r"has sent no score in 0.5 s \(--compute-timeout\)", sleep,
             {"compute_timeout": 0.5}),
            ("last.weight is no longer the model's", replace, {}),
        ]:
            with self.subTest(pattern), self.assertRaisesRegex(troupe.Error, pattern):
                self.evaluate(self.port, by, **settings)
        self.end(self.server, self.port, worker)

    def test_an_exception(self):
        with self.assertRaisesRegex(ZeroDivisionError, "division by zero"):
            self.work(self.port, 0)
            self.evaluate(self.port, lambda _: {"recall": 1 / 0})

    def test_a_worker_in_its_place(self):
        from troupe import node

        class Wrong(node.Node):
            def __init__(self, _, replay=None):
                super().__init__("evaluator", replay)

        with mock.patch("troupe.session.Node", Wrong):
            with self.assertRaisesRegex(troupe.Error, "computes gradients, and an evaluator"):
                troupe.Worker(toy.Net(), dataset_size=toy.SAMPLES, port=self.port)

    def test_two_in_one_process(self):
        with troupe.Evaluator(toy.Net(), score, port=self.port):
            with self.assertRaisesRegex(troupe.Error, "has an evaluator already"):
                troupe.Evaluator(toy.Net(), score, port=self.port)
            with self.assertRaisesRegex(troupe.Error, "has an evaluator already"):
                troupe.Worker(toy.Net(), dataset_size=toy.SAMPLES, port=self.port)


class Deaths(Case):
    """Whatever of an evaluator dies, the run goes on, and another one scores."""

    def check(self, kill):
        server, port = self.serve_until_told()
        worker = self.work(port, 0)
        evaluator = self.start("evaluator", [sys.executable, __file__, "evaluate", port])
        evaluator.await_line("second score")
        kill(evaluator.process.pid)
        evaluator.wait()
        self.end(server, port, worker)

    def test_the_server(self):
        """It comes back while the process is still at work for its life before."""
        flags = ("--policy", "async", "--workers", 1, "--batch-size", 25, "--eval-freq", 5,
                 "--epochs", 100000, "--target", "recall>=2", "--checkpoint-freq", 10)
        server, port = self.serve(*flags)
        worker = self.work(port, 0)
        evaluator = self.start("evaluator", [sys.executable, __file__, "evaluate", port])
        evaluator.await_line("second score")
        server.await_line("checkpoint +step-")
        server.end()
        server, _ = self.serve(*flags, "--resume", "auto", port=port, name="again")
        for process in (worker, evaluator, server):
            self.require_end(process)
        self.assertEqual(self.run_directory().summary["final_metrics"]["recall"], 2)

    def test_the_process(self):
        self.check(lambda pid: os.kill(pid, signal.SIGKILL))

    def test_its_node(self):
        def kill(pid):
            with open(f"/proc/{pid}/task/{pid}/children") as children:
                os.kill(int(children.read().split()[0]), signal.SIGKILL)

        self.check(kill)


def evaluate(port):
    """An evaluator that takes long for its second score, and ends the run with
    the next one."""

    def count(model):
        seen.append(1)
        if len(seen) == 2:
            print("second score", flush=True)
            time.sleep(3)
        return {**score(model), **({"recall": 2} if len(seen) > 2 else {})}

    seen = []
    with troupe.Evaluator(toy.model(), count, port=port) as evaluator:
        evaluator.run()


if __name__ == "__main__":
    if sys.argv[1:2] == ["evaluate"]:
        evaluate(sys.argv[2])
    else:
        unittest.main()
