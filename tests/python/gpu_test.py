"""Programs whose model is on a GPU: the fake device, which has the bits of the CPU and
reports each access that nothing orders, also between a program and its worker's process."""

import os
import shutil
import sys
import unittest

import cluster
import fault_test
import torch
import troupe

#: Names of the devices, so that no other test takes them.
DEVICES = [f"python-{os.getpid()}-{i}" for i in range(2)]


class Case(cluster.Case):
    def setUp(self):
        super().setUp()
        self.set("TROUPE_CUDA_LIBRARY", os.environ["TROUPE_FAKE_CUDA"])
        self.set("CUDA_VISIBLE_DEVICES", ",".join(DEVICES))

    def set(self, name, value):
        """Sets a variable for the processes that this test starts."""
        before = os.environ.get(name)
        os.environ[name] = str(value)
        self.addCleanup(
            lambda: os.environ.pop(name) if before is None else os.environ.update({name: before})
        )

    def train(self, *flags, serve=(), workers=1):
        """The weights that a run ends with, and what its workers have said."""
        if "--local-steps" in flags:
            serve = (*serve, "--local-steps", flags[flags.index("--local-steps") + 1])
        server, port = self.serve(
            "--workers", workers, "--epochs", 2, "--lr", 0.05, "--momentum", 0.9, *serve
        )
        all = [self.work(port, i, *flags) for i in range(workers)]
        for worker in all:
            self.require_end(worker)
        self.require_end(server)
        self.assertEqual(self.run_directory().summary["gradients_refused"], 0)
        weights = self.run_directory().state_dict("last")
        shutil.rmtree(self.folder / "run")
        return weights, "".join(x.output() for x in all)

    cpu = {}  #: The weights of runs on the CPU, by their workers' flags.

    def compare(self, *flags, loop=(), **how):
        """Trains with these flags; returns what the worker has said.

        loop: Further flags, with which the CPU's run is made, too.
        """
        if loop not in self.cpu:
            self.cpu[loop], _ = self.train(*loop)
        found, said = self.train(*flags, *loop, **how)
        for name, value in self.cpu[loop].items():
            self.assertTrue(torch.equal(found[name], value), name)
        return said


class Training(Case):
    """A GPU gives the weights that the CPU gives, bit for bit."""

    def test_it_trains_as_the_cpu_does(self):
        for path, flags in (("auto", ()), ("auto", ("--views",)), ("stream", ("--early",))):
            with self.subTest(path, flags=flags):
                said = self.compare("--gpu", 1, *flags, serve=("--transport", path))
                self.assertEqual(said, "")

    def test_steps_of_several_batches(self):
        said = self.compare("--gpu", 0, loop=("--accumulate", 3, "--workers", 1))
        self.assertEqual(said, "")

    def test_local_steps(self):
        loop = ("--local-steps", 5)
        for refused, says in (("", ""), ("share", "host's memory")):
            self.set("FAKE_CUDA_REFUSES", refused)
            self.assertIn(says, self.compare("--gpu", 1, loop=loop))

    def test_where_no_memory_can_be_shared(self):
        line = r".*RuntimeWarning: weights and gradients go through the host's memory: {}\n"
        for refused in ("share", "open", "open,register"):
            with self.subTest(refused):
                self.set("FAKE_CUDA_REFUSES", refused)
                flags = ["--views"] if refused == "open" else []
                said = self.compare("--gpu", 1, *flags)
                self.assertRegex(said, line.format(".* operation not supported"))
                self.assertEqual(said.count("host's memory"), 1)

    def test_launch_with_a_gpu_for_each_worker_and_an_evaluator(self):
        expected, _ = self.train(serve=("--policy", "sync"), workers=2)
        file = troupe.describe(cluster.toy.model(), self.folder / "toy.safetensors")
        ready = self.folder / "evaluator-is-there"  # A short run would end without it.
        evaluator = f"{sys.executable} {cluster.HERE / 'evaluate.py'} --gpu {ready}"
        run = self.start(
            "launch",
            [cluster.PROGRAM, "launch", "--workers", 2, "--config", self.config(file)]
            + ["--evaluator-command", evaluator, "--"]
            + [sys.executable, cluster.HERE / "train.py", 0, self.folder]
            + ["--gpu", -1, "--after", ready],
        )
        self.require_end(run)
        weights = self.run_directory().state_dict("last")
        for name, value in weights.items():
            self.assertTrue(torch.equal(expected[name], value), name)
        found = self.run_directory().summary["final_metrics"]["recall"]
        self.assertAlmostEqual(found, cluster.toy.accuracy(weights), places=6)

    def test_gradients_and_weights_go_to_the_gpu_of_a_server(self):
        self.set("TROUPE_NCCL_LIBRARY", os.environ["TROUPE_FAKE_NCCL"])
        expected, _ = self.train()
        server, port = self.serve(
            "--workers", 1, "--epochs", 2, "--lr", 0.05, "--momentum", 0.9, "--device", "cuda:0"
        )
        worker = self.work(port, 0, "--gpu", 1)
        self.require_end(worker)
        self.require_end(server)
        self.assertEqual(self.run_directory().summary["transport"], {"worker-0": "nccl"})
        weights = self.run_directory().state_dict("last")
        for name, value in weights.items():  # A GPU's optimiser rounds in another way.
            self.assertTrue(torch.allclose(expected[name], value, rtol=1e-3, atol=1e-4), name)

    def test_a_replay_computes_there(self):
        server, port = self.serve("--workers", 1, "--epochs", 1, *cluster.RECORDED)
        self.require_end(self.work(port, 0))
        self.require_end(server)
        log, again = self.folder / "run" / "tape-1.pb", self.folder / "again"
        self.require_end(self.work(0, 1, "--gpu", 0, f"replay={log}", f"train_dir={again}"))
        replayed = troupe.Run(again).state_dict("last")
        for name, value in self.run_directory().state_dict("last").items():
            self.assertTrue(torch.equal(replayed[name], value), name)

    def config(self, network):
        file = self.folder / "server.ini"
        file.write_text(
            "[policy]\nname = sync\n[training]\nlr = 0.05\nmomentum = 0.9\nepochs = 2\n"
            f"network = weights:{network}\ntrain-dir = {self.folder / 'run'}\n"
            f"[data]\ndataset = external(samples={cluster.toy.SAMPLES},id=toy)\n"
        )
        return file


    def test_a_gpu_that_fails_or_is_full_is_one_line(self):
        _, port = self.serve("--workers", 1)
        for number, (name, value, line) in enumerate((
            ("FAKE_CUDA_MEMORY", 5 << 20, "taking 2 MiB of cuda:1 .* failed: out of memory"),
            ("FAKE_CUDA_FAILS_AFTER", 20, "copying .* CUDA error: .* cannot use the GPU any more"),
        )):
            with self.subTest(name):
                self.set(name, value)
                worker = self.work(port, number, "--gpu", 1)
                self.require_end(worker, 1)
                self.assertRegex(worker.output(), rf"troupe.errors.Error: {line}.*\n$")
                self.set(name, 1 << 30)


class Waits(Case):
    """Whoever hands a block over has waited for its GPU."""

    def run_program(self, *flags):
        name = f"run-{len(list(self.folder.glob('run*')))}"
        server, port = self.serve(
            "--workers", 1, "--max-steps", 2, "--train-dir", self.folder / name, name=name
        )
        program = self.start(
            f"program-{name}", [sys.executable, cluster.HERE / "left_loop.py", port, *flags]
        )
        status = program.wait()
        server.end()
        return status, program.output()

    def test_none_can_be_left_out(self):
        status, said = self.run_program()
        self.assertEqual(status, 0, said)
        # A lease may be on its way when the loop is left: the next loop answers it, or takes
        # it up and fills a gradient that nobody reads.
        waits = [x for x in said.split() if x != "_answer_without"]
        self.assertIn(waits[2:-1], (["fill"], ["fill", "fill"]))
        self.assertEqual([*waits[:2], waits[-1]], ["give_up_round", "fill", "close"])
        for wait, *flags in (
            ["give_up_round"], ["fill"], ["fill", "--views"], ["close", "--views"]
        ):
            with self.subTest(wait, flags=flags):
                self.set("PROGRAM_FORGETS", wait)
                status, said = self.run_program(*flags)
                self.assertNotEqual(status, 0)
                # If a worker's process gives memory back that it has not waited for, its
                # fake device aborts.
                self.assertRegex(said, "fake device: |exit status -6")

    def test_nor_that_of_the_worker(self):
        self.set("FAKE_CUDA_FORGETS", 1)
        status, said = self.run_program()
        self.assertNotEqual(status, 0)
        self.assertIn("what another process uses, and its host has not waited for it", said)


class Kills(Case, fault_test.KillsOfRounds):
    """Programs and their workers' processes die, and nothing is lost or left."""

    kills, other, test_servers = 1, 0.002, None
    options = (*fault_test.KillsOfRounds.options, "--gpu", "1", "--views")


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
