"""What goes wrong is one exception that says what to do; nothing hangs."""

import multiprocessing
import os
import re
import sys
import threading
import unittest
import warnings
from pathlib import Path
from unittest import mock

import cluster
import toy
import torch
import troupe
from troupe import frames, gpu, program, regions, safetensors, session
from troupe.program import BUILT_FOR
from torch import nn
from torch.nn.functional import cross_entropy


class Renamed(toy.Net):
    def __init__(self):
        super().__init__()
        self.other = self.last
        del self.last


class Unused(toy.Net):
    def __init__(self):
        super().__init__()
        self.idle = nn.Linear(2, 2)


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        yield torch.ones(20), 0


class Loop(cluster.Case):
    def worker(self, model, *flags):
        server, port = self.serve("--workers", 1, "--batch-size", 20, *flags)
        return server, troupe.Worker(
            model, dataset_size=toy.SAMPLES, dataset_id="toy", port=port
        )

    def test_steps_of_its_own_are_warned_of_once(self):
        model = toy.Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        others = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1)
        scaler = torch.amp.GradScaler("cpu")
        server, worker = self.worker(model, "--max-steps", 3)
        with worker, warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            for x, y in worker.loader(toy.Points()):
                loss = cross_entropy(model(x), y)
                scaler.scale(loss.detach())
                loss.backward()
                optimizer.step()
                scheduler.step()
                others.step()
                worker.step(loss)
        self.require_end(server)
        lines = [str(x.message) for x in seen if x.category is RuntimeWarning]
        self.assertEqual(len(lines), 3, lines)
        for what in ("GradScaler.scale()", "SGD.step()", "StepLR.step()"):
            self.assertIn(f"{what} in a worker's loop: ", "\n".join(lines))

    def test_a_loss_of_each_sample(self):
        model = toy.Net()
        server, worker = self.worker(model, "--max-steps", 1)
        with worker:
            for x, y in worker.loader(toy.Points()):
                losses = cross_entropy(model(x), y, reduction="none")
                losses.mean().backward()
                with self.assertRaisesRegex(
                    troupe.Error, r"loss has the shape \(20,\): give the mean .*loss.mean\(\)"
                ):
                    worker.step(losses)
                worker.step(losses.mean())
        self.require_end(server)


class Refused(cluster.Case):
    """A worker that cannot begin."""

    def refuse(self, pattern, model=None, **settings):
        settings = {"dataset_size": toy.SAMPLES, "dataset_id": "toy", **settings}
        with self.assertRaisesRegex(troupe.Error, pattern):
            troupe.Worker(model or toy.Net(), **settings).close()

    def test_models(self):
        _, port = self.serve("--workers", 1)
        wide = toy.Net(hidden=300)
        self.refuse(r"first.weight has the shape \(300, 20\), and in the run \(256, 20\)",
                    wide, port=port)
        self.refuse("the run has the tensor last.weight, and the model has not",
                    Renamed(), port=port)
        self.refuse("the model has the tensor idle.weight, and the run has not",
                    Unused(), port=port)
        self.refuse("first.weight is torch.float64, and in the run torch.float32; .* give the "
                    r'server dtype="float64", or convert the model with .float\(\)',
                    toy.Net().double(), port=port)
        self.refuse("first.weight is torch.bfloat16: the server keeps float32",
                    toy.Net().bfloat16(), port=port)
        half = toy.Net()
        half.last.double()
        self.refuse("all must have one type", half, port=port)
        frozen = toy.Net()
        frozen.first.weight.requires_grad_(False)
        self.refuse("first.weight is trained in the run, and frozen in the model",
                    frozen, port=port)
        self.refuse("no parameter that needs a gradient", nn.ReLU(), port=port)

    def test_models_without_values(self):
        _, port = self.serve("--workers", 1)
        file = self.folder / "net.safetensors"
        lazy = nn.Sequential(nn.LazyLinear(4), nn.Linear(4, 2))
        parts = toy.Net()
        parts.last.to_empty(device="meta")
        for model, line in (
            (lazy, "0.weight has no shape yet: its layer is a lazy one"),
            (nn.Linear(4, 2, device="meta"), "weight is on the meta device, without values"),
            (parts, "last.weight is on the meta device, without values"),
        ):
            self.refuse(line, model, port=port)
            with self.assertRaisesRegex(troupe.Error, line):
                troupe.describe(model, file)
            self.assertFalse(file.exists())

    def test_words_of_python(self):
        self.assertRegex(troupe.__version__, r"^\d+\.\d+\.\d+$")
        self.assertEqual(program.flags(None, {"resume": True, "seed": None}),
                         ["--resume", "auto"])
        self.assertEqual(program.flags(None, {"resume": False, "tape": True}),
                         ["--tape", "true"])

    def test_a_stream_of_samples(self):
        _, port = self.serve("--workers", 1)
        with troupe.Worker(
            toy.Net(), dataset_size=toy.SAMPLES, dataset_id="toy", port=port
        ) as worker, self.assertRaisesRegex(
            troupe.Error, r"loader\(\): needs a data set with a length and an index"
        ):
            next(iter(worker.loader(Stream())))

    def test_a_file_that_is_no_description(self):
        file = self.folder / "train.py"
        for content in (b"print(1)", b"import torch\n"):
            file.write_bytes(content)
            with self.assertRaisesRegex(troupe.Error, "train.py is there, and is no safe"):
                troupe.describe(toy.model(), file)
            self.assertEqual(file.read_bytes(), content)
        with self.assertRaisesRegex(troupe.Error, f"{self.folder}: Is a directory"):
            troupe.describe(toy.model(), self.folder)
        file.write_bytes(b"")  # As tempfile leaves it.
        for _ in range(2):
            troupe.describe(toy.model(), file)
        self.assertEqual(os.listdir(self.folder), ["train.py"])

    def test_samples(self):
        _, port = self.serve("--workers", 1)
        self.refuse("has 599 samples, and the run 600", dataset_size=599, port=port)
        self.refuse("has the data set 'tea', and the run 'toy'", dataset_id="tea", port=port)
        self.refuse("there must be a sample", dataset_size=0, port=port)
        self.refuse("give a word without blanks", dataset_id="a b", port=port)
        for leases in (0, 4097, -1):
            self.refuse("from 1 to 1024 batches at a time", leases=leases, port=port)

    def test_settings(self):
        self.refuse("unknown flag .--not-a-setting", not_a_setting=1)
        self.refuse("no such file|cannot be read|not found", config="absent.ini")
        self.refuse("no parameter server at 127.0.0.1:9 ", port=9, connect_timeout=1)
        adam = torch.optim.Adam(toy.Net().parameters())
        scheduler = torch.optim.lr_scheduler.StepLR(adam, 30)
        self.refuse("optimizer: an optimiser of torch's changes nothing", optimizer=adam)
        self.refuse("optimizer=.*each number is a setting of its own", optimizer={"lr": 0.1})
        self.refuse("lr_schedule: a scheduler of torch's changes nothing", lr_schedule=scheduler)
        with self.assertRaisesRegex(troupe.Error, "lr_schedule: a scheduler of torch's"):
            troupe.serve(toy.Net(), dataset_size=9, lr_schedule=scheduler)

    def test_groups(self):
        model = toy.Net()
        last = {"params": model.last.parameters(), "lr": 0.1}
        for group, why in [
            ({"params": "last.weight", "betas": (0.9, 0.99)}, "has 'betas': a group may have"),
            ({"params": ["last.w"], "lr": 1}, "has 'last.w', which is no parameter"),
            ({"params": torch.zeros(2), "lr": 1}, "has a tensor .2., which is no parameter"),
            ({"params": ["last.weight"]}, "has neither lr, weight_decay nor momentum"),
            ({"params": ["last.bias"], "lr": 1}, "has last.bias, which is in a group before"),
            ({"params": ["first.bias"], "lr": -1}, "lr=-1: give a number from 0"),
            ({"params": ["first.bias"], "lr": float("nan")}, "lr=nan: give a number from 0"),
            ({"params": ["first.bias"], "lr": "fast"}, "lr='fast': give a number from 0"),
        ]:
            with self.assertRaisesRegex(troupe.Error, r"param_groups\[1\]:? " + why):
                last["params"] = model.last.parameters()
                troupe.describe(model, self.folder / "net.safetensors", [last, group])
        self.assertFalse((self.folder / "net.safetensors").exists())

    def test_other_groups(self):
        groups = [{"params": ["last.weight", "last.bias"], "lr": 0.5}]
        rules = "last.weight last.bias=lr=0.5"
        server, port = self.serve("--workers", 1, "--epochs", 1, "--param-groups", rules)
        self.refuse("param-groups = last.weight=lr=0.5 here, but last.weight last.bias=lr=0.5 at",
                    port=port, param_groups=[{"params": ["last.weight"], "lr": 0.5}])
        settings = {"dataset_size": toy.SAMPLES, "dataset_id": "toy", "port": port}
        with troupe.Worker(toy.Net(), **settings, param_groups=groups) as worker:
            for _ in worker:
                worker.skip()
                break
        server.end()

    def test_no_average(self):
        folder = self.folder / "run" / "checkpoints" / "step-3"
        folder.mkdir(parents=True)
        (self.folder / "run" / "config.ini").touch()
        for name in ("model", "optimizer"):
            safetensors.write(folder / f"{name}.safetensors", {"optim.sum.x": torch.zeros(2)}, {})
        with self.assertRaisesRegex(troupe.Error, "has no average of the weights"):
            troupe.Run(self.folder / "run").state_dict(3, average=True)
        with self.assertRaisesRegex(troupe.Error, "the best weights are the average only if"):
            troupe.Run(self.folder / "run").state_dict(average=True)

    def test_no_program(self):
        with mock.patch.dict(os.environ, {"TROUPE_TRAINER_NODE": "/absent"}):
            self.refuse("TROUPE_TRAINER_NODE=/absent: there is no program")
        with mock.patch.dict(os.environ, {"PATH": ""}):
            del os.environ["TROUPE_TRAINER_NODE"]
            self.refuse("trainer_node is not in the PATH")

    def test_a_program_that_cannot_start(self):
        """It is said why: by the system, or by its loader."""

        def refuse(why):
            self.refuse(why)
            with self.assertRaisesRegex(troupe.Error, why):
                troupe.serve(toy.Net(), dataset_size=9)
            with self.assertRaisesRegex(troupe.Error, why):
                troupe.launch(None, 1, "train.py")

        program = self.folder / "program"
        program.write_text("no program")
        program.chmod(0o755)
        with mock.patch.dict(os.environ, {"TROUPE_TRAINER_NODE": str(program)}):
            refuse("program cannot be started: Exec format error")
        (self.folder / "libtorch_cpu.so").touch()
        with mock.patch.dict(os.environ, {"LD_LIBRARY_PATH": str(self.folder)}):
            refuse("trainer_node cannot start: error while loading shared libraries: "
                   ".*libtorch_cpu.so: file too short .*trainer_node is built for torch "
                   f"{BUILT_FOR}; this Python has torch {re.escape(torch.__version__)} in ")
        package = Path(troupe.__file__).parents[1] / "pyproject.toml"
        self.assertIn(f'"torch=={BUILT_FOR}.*"', package.read_text())

    def test_a_network_that_the_program_computes(self):
        _, port = self.serve("--workers", 1)
        native = self.start(
            "native", [cluster.PROGRAM, "--role", "worker", "--port", port]
        )
        self.require_end(native, 2)
        self.assertIn("start this node with --compute external", native.output())


class Loops(cluster.Case):
    """A worker whose loop is wrong."""

    def setUp(self):
        super().setUp()
        server, port = self.serve("--workers", 1, "--batch-size", 10, "--epochs", 1)
        self.server = server
        self.model = toy.Net()
        self.data = toy.Points()
        self.worker = troupe.Worker(
            self.model, dataset_size=toy.SAMPLES, dataset_id="toy", port=port
        )
        self.addCleanup(self.worker.close)

    def loss(self, batch):
        x, y = batch
        return cross_entropy(self.model(x), y)

    def finish(self, loader):
        for batch in loader:
            loss = self.loss(batch)
            loss.backward()
            self.worker.step(loss)

    def finish_exactly(self):
        """The run ends with each sample once, whatever happened before."""
        self.finish(self.worker.loader(self.data))
        self.require_end(self.server)
        self.assertEqual(self.run_directory().summary["samples_applied"], toy.SAMPLES)

    def test_step_before_backward(self):
        with self.assertRaisesRegex(troupe.Error, "first.weight has no gradient: call backward"):
            for batch in self.worker.loader(self.data):
                self.worker.step(self.loss(batch))
        self.finish_exactly()

    def test_what_was_replaced(self):
        """After the worker was made, the model got other tensors."""
        last = self.model.last
        for number, (name, owner, key, other) in enumerate((
            ("last.weight", self.model, "last", nn.Linear(256, 3)),
            ("last.weight", self.model, "last", nn.Identity()),
            ("last.weight", last, "weight", nn.Parameter(torch.zeros(3, 256))),
            ("norm.weight", self.model, "norm", nn.BatchNorm1d(256)),
        ), start=1):
            # It is looked for at steps 1, 2, 4, 8, ..., and where a gradient is absent.
            self.worker._book.contribution.allow_unused = number != 3
            before = getattr(owner, key)
            with self.subTest(name=name), self.assertRaisesRegex(
                troupe.Error, f"{name} is no longer the model's"
            ):
                for batch in self.worker.loader(self.data):
                    setattr(owner, key, other)
                    self.model(batch[0]).sum().backward()
                    self.worker.step(0.0)
            setattr(owner, key, before)
        self.worker._book.contribution.allow_unused = False
        self.finish_exactly()

    def test_step_without_a_batch(self):
        with self.assertRaisesRegex(troupe.Error, "needs a batch"):
            self.worker.step(0.0)
        self.finish_exactly()
        with self.assertRaisesRegex(troupe.Error, "the run has ended, and takes no"):
            self.worker.step(0.0)

    def test_a_batch_without_step(self):
        for workers in (0, 2):
            batches = []
            with self.assertRaisesRegex(troupe.Error, "step.. is due: this worker has no other"):
                for batch in self.worker.loader(self.data, num_workers=workers):
                    batches.append(batch)
            self.assertEqual(len(batches), 4)
        self.finish_exactly()

    def test_skip_and_break(self):
        for number, batch in enumerate(self.worker.loader(self.data, num_workers=2)):
            if number == 3:
                break
            if number == 1:
                self.worker.skip()
                continue
            loss = self.loss(batch)
            loss.backward()
            self.worker.step(loss)
        self.finish_exactly()

    def test_an_exception_in_the_loop(self):
        with self.assertRaises(ZeroDivisionError):
            for _ in self.worker.loader(self.data, num_workers=1):
                1 / 0
        self.finish_exactly()

    def test_another_thread(self):
        seen = []

        def work():
            try:
                self.worker.step(0.0)
            except troupe.Error as why:
                seen.append(str(why))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        self.assertEqual(seen, ["a worker belongs to the thread that made it"])

    def test_a_forked_child(self):
        def work(queue):
            try:
                self.worker.step(0.0)
            except troupe.Error as why:
                queue.put(str(why))

        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        child = context.Process(target=work, args=(queue,))
        child.start()
        self.assertIn("and not to its children", queue.get(timeout=cluster.PATIENCE))
        child.join()
        self.finish_exactly()

    def test_a_second_worker(self):
        with self.assertRaisesRegex(troupe.Error, "has a worker already"):
            troupe.Worker(self.model, dataset_size=toy.SAMPLES)
        self.finish_exactly()

    def test_options_of_the_run(self):
        for option in ("batch_size", "shuffle", "sampler", "drop_last"):
            with self.assertRaisesRegex(troupe.Error, rf"loader.{option}=\.\.\.\): the run decides"):
                self.worker.loader(self.data, **{option: 1})
        with self.assertRaisesRegex(troupe.Error, "has 5 samples, and dataset_size is 600"):
            self.worker.loader(toy.Points(5))

    def test_gradients_that_are_not_finite(self):
        loader = iter(self.worker.loader(self.data))
        loss = self.loss(next(loader))
        (loss * float("nan")).backward()
        self.worker.step(loss)
        loader.close()
        self.finish_exactly()
        self.assertEqual(self.run_directory().summary["gradients_refused"], 1)

    def test_closed(self):
        agent = self.worker._session.node.process
        self.worker.close()
        self.assertEqual(agent.returncode, 0)
        with self.assertRaisesRegex(troupe.Error, "the worker is closed"):
            self.worker.step(0.0)


class Frames(unittest.TestCase):
    """Of a session without a program."""

    def take(self, role, frame):
        with session.Participant(session.Session(role, toy.Net())) as participant:
            of = participant._session
            with mock.patch.object(of.node, "receive", lambda: frame):
                of.take_next()
            return of

    def test_an_unknown_kind(self):
        for role in ("worker", "evaluator"):
            with self.assertRaisesRegex(troupe.Error, f"the {role} sent a frame of unknown kind 99"):
                self.take(role, frames.Frame(99, 0, frames.Body(b"")))

    def test_the_end(self):
        line = frames.text("the run is over")
        end = frames.Frame(frames.END, 0, frames.Body(b"\x01" + line))
        ended = self.take("evaluator", end)
        self.assertEqual(ended.node.end, (1, "the run is over"))
        with self.assertRaisesRegex(troupe.Error, "the evaluator is closed"):
            ended.check_open()


class Pinning(unittest.TestCase):
    def test_a_refusal_leaves_no_error(self):
        """Memory need not be pinned; what CUDA remembers of it would fail the next call."""
        file = os.memfd_create("region")
        os.ftruncate(file, 4096)
        region = regions.Region(file, 4096)
        cuda = mock.Mock()
        cuda.cudaGetErrorString.return_value = b"operation not supported"
        with mock.patch.object(gpu, "_runtime", return_value=cuda):
            cuda.cudaHostRegister.return_value = 801
            with self.assertRaisesRegex(gpu.Refused, "pinning memory: operation not supported"):
                region.pin()
            region.release()
            self.assertEqual(cuda.cudaGetLastError.call_count, 1)
            self.assertEqual(cuda.cudaHostUnregister.call_count, 0)
            cuda.cudaHostRegister.return_value = 0
            cuda.cudaHostUnregister.return_value = 1
            region.pin()
            self.assertEqual(cuda.cudaGetLastError.call_count, 1)
            region.release()
            self.assertEqual(cuda.cudaGetLastError.call_count, 2)


class AnotherRun(cluster.Case):
    def test_it_begins_at_the_server(self):
        """The server was killed before there was a checkpoint."""
        flags = ("--workers", 1, "--epochs", 100000, "--checkpoint-freq", 1000000)
        server, port = self.serve(*flags)
        worker = self.work(port, 0)
        server.await_line("joined +worker 0")
        server.end()
        self.serve(*flags, "--resume", "auto", port=port, name="again")
        self.assertEqual(worker.wait(), 1)
        self.assertRegex(worker.output(), "troupe.errors.Error: another run has begun at the "
                         "parameter server: start the process that computes for this node again")


class Silence(cluster.Case):
    def test_a_batch_that_takes_too_long(self):
        _, port = self.serve("--workers", 1)
        model, data = toy.Net(), toy.Points()
        with troupe.Worker(
            model, dataset_size=toy.SAMPLES, dataset_id="toy", port=port, compute_timeout=0.5
        ) as worker:
            for x, y in worker.loader(data):
                cross_entropy(model(x), y).backward()
                worker._session.node.process.wait(cluster.PATIENCE)
                self.assertFalse(worker.step(0.0))
                break
            with self.assertRaisesRegex(troupe.Error, "has sent no gradient in 0.5 s"):
                next(iter(worker))


class UnusedParameters(cluster.Case):
    def test_zero_on_request(self):
        file = troupe.describe(Unused(), self.folder / "unused.safetensors")
        server, port = self.serve("--workers", 1, "--epochs", 1, network=f"weights:{file}")
        model, data = Unused(), toy.Points()
        with troupe.Worker(
            model, dataset_size=toy.SAMPLES, dataset_id="toy", port=port, allow_unused=True
        ) as worker:
            before = None
            for x, y in worker.loader(data):
                if before is None:
                    before = model.idle.weight.clone()
                loss = cross_entropy(model(x), y)
                loss.backward()
                worker.step(loss)
            self.assertTrue(torch.equal(model.idle.weight, before))
        self.require_end(server)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
