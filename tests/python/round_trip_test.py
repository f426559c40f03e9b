"""What a run writes can be read: random small models go through it and come back.

TROUPE_ROUND_TRIPS is the number of models, TROUPE_ROUND_TRIP_FIRST the first seed; a
failure names its seed.
"""

import os
import random
import shutil
import subprocess
import sys
import unittest

import cluster
import torch
import toy
import troupe
from torch import nn
from troupe import extra_state, safetensors
from troupe.description import CONSTANT, PARAMETER, group_rules, tensors_of

MODELS = int(os.environ.get("TROUPE_ROUND_TRIPS", "3"))
FIRST = int(os.environ.get("TROUPE_ROUND_TRIP_FIRST", "1"))
SAMPLES = 16

WHOLE = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16,
         torch.uint32, torch.uint64]
SMALL_FLOATS = [torch.float8_e4m3fn, torch.float8_e5m2, torch.complex64]
ODD = ["a b", "c,d", "e=f", 'g"h', "i = j", "k\nl", "[m]", "n*", "ö", "#o;", "'p'", '"q']


class Extra(nn.Module):
    """A module with extra state, which the state dict has, too."""

    def __init__(self, state):
        super().__init__()
        self.state = state

    def get_extra_state(self):
        return self.state

    def set_extra_state(self, state):
        self.state = state

    def forward(self, x):
        return x


class Net(nn.Module):
    """Layers of 4, with what `choose` adds to the state dict."""

    def __init__(self, choose, dtype):
        super().__init__()
        self.layers = nn.ModuleDict()
        for name in choose.sample(ODD, 3) + ["plain"]:
            self.layers[name] = nn.Linear(4, 4, dtype=dtype)
        names = list(self.layers)
        if choose.random() < 0.5:
            self.layers[names[1]].weight = self.layers[names[0]].weight
        if choose.random() < 0.5:
            self.layers[names[2]].requires_grad_(False)
        self.norm = nn.BatchNorm1d(4, dtype=dtype) if choose.random() < 0.5 else nn.Identity()
        if choose.random() < 0.5:
            self.extra = Extra(choose.choice([{"scale": 3, "names": ["x"]}, None, 7, "text",
                                              torch.tensor([1, 2], dtype=torch.uint8)]))
        self.head = nn.Linear(4, 2, dtype=dtype)
        for i in range(choose.randint(1, 6)):
            self.register_buffer(f"buffer {i}", self.buffer(choose, dtype))
        if choose.random() < 0.5:
            self.register_buffer("twice", getattr(self, "buffer 0"))
        self.register_buffer("own", torch.arange(3), persistent=False)

    @staticmethod
    def buffer(choose, dtype):
        shape = choose.choice([(), (3,), (2, 3), (0, 2)])
        kind = choose.randrange(4)
        if kind == 0:
            return torch.rand(shape) > 0.5
        if kind == 1:
            return torch.randint(0, 100, shape).to(choose.choice(WHOLE))
        if kind == 2:
            return torch.rand(shape).to(choose.choice(SMALL_FLOATS))
        return torch.triu(torch.full((3, 3), float("-inf"), dtype=dtype), 1)

    def forward(self, x):
        for layer in self.layers.values():
            x = layer(x).tanh()
        return self.head(self.norm(x))


def make(seed):
    """The same model for the same seed, but for its values."""
    choose = random.Random(seed)
    dtype = choose.choice([torch.float32, torch.float32, torch.float64])
    model = Net(choose, dtype)
    how = choose.randrange(4)
    if how == 1:
        model = nn.Sequential(model)
    elif how == 2:
        model.head = torch.compile(model.head, backend="eager")
    elif how == 3:
        model = nn.DataParallel(model)
    return model, dtype


def raw(tensor):
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


class Models(cluster.Case):
    def program(self, *words):
        done = subprocess.run(
            [cluster.PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=60,
            cwd=self.folder,
        )
        self.assertEqual(done.returncode, 0, f"{words}: {done.stdout}{done.stderr}")
        return done.stdout

    def train(self, seed, model, dtype, steps, *flags, network=None, name="server"):
        """Serves the model and trains one worker, which begins with other values."""
        if network is None:
            network = f"weights:{troupe.describe(model, self.folder / f'{seed}.safetensors')}"
        flags = ["--workers", 1, "--batch-size", 4, "--lr", 0.01, "--max-steps", steps,
                 "--dtype", str(dtype).removeprefix("torch."), *flags]
        run = self.folder / name
        server = self.start(
            name,
            [cluster.PROGRAM, "--role", "ps", "--port", 0, "--train-dir", run, "--dataset",
             f"external(samples={SAMPLES},id=d)", *(["--network", network] if network else []),
             *flags],
        )
        port = server.await_line(r"listening +on 127\.0\.0\.1:(\d+)").group(1)
        torch.manual_seed(seed + 1000)
        mine, _ = make(seed)
        x = torch.randn(SAMPLES, 4, dtype=dtype)
        with troupe.Worker(mine, dataset_size=SAMPLES, port=port) as worker:
            for lease in worker:
                loss = mine(x[list(lease.indices)]).square().mean()
                loss.backward()
                worker.step(loss)
        self.require_end(server)
        return troupe.Run(run), mine

    def check_same(self, seed, model, state):
        """What does not change in training came back as it was, bit for bit."""
        wanted = model.state_dict()
        self.assertEqual(set(wanted), set(state), seed)
        back, _ = make(seed)
        back.load_state_dict(state, strict=True)
        trained = {name for name, x in model.named_parameters(remove_duplicate=False)
                   if x.requires_grad}
        for name, value in wanted.items():
            if name in trained or "norm." in name:
                continue
            if not isinstance(value, torch.Tensor):
                self.assertEqual(state[name], value, (seed, name))
                continue
            self.assertEqual((state[name].dtype, state[name].shape), (value.dtype, value.shape))
            self.assertTrue(torch.equal(raw(state[name]), raw(value)), (seed, name))

    def one(self, seed):
        torch.manual_seed(seed)
        model, dtype = make(seed)
        run, mine = self.train(seed, model, dtype, 2, "--checkpoint-freq", 1, name=f"run-{seed}")
        last = run.state_dict("last")
        self.check_same(seed, model, last)
        self.check_same(seed, model, mine.state_dict())  # It got them from the run.
        self.program("checkpoint", "verify", run.path)
        exported = {}
        for form in ("safetensors", "pt"):
            file = self.folder / f"{seed}-back.{form}"
            self.program("checkpoint", "export", "--format", form, "--out", file, run.path)
            exported[form] = file
        state = safetensors.read(exported["safetensors"])
        self.check_same(seed, model, state)
        pt = torch.load(exported["pt"], weights_only=True)
        self.assertEqual({x: y.dtype for x, y in pt.items()},
                         {x: extra_state.to_tensor(x, y).dtype for x, y in last.items()})
        # As first weights of another run.
        torch.manual_seed(seed + 1)
        other, _ = make(seed)
        files = [exported["pt"], exported["safetensors"], *run.path.glob("described/*"),
                 *run.path.glob("checkpoints/*2/model.safetensors")]
        self.assertEqual(len(files), 4)
        begun, _ = self.train(seed, other, dtype, 1, "--init", files[seed % 4],
                              name=f"init-{seed}")
        self.check_same(seed, model, begun.state_dict("last"))
        # It goes on where it was moved to, without the file that it was given.
        moved = self.folder / f"run-{seed}-moved"
        run.path.rename(moved)
        (self.folder / f"{seed}.safetensors").unlink()
        on, _ = self.train(seed, model, dtype, 3, "--resume", "auto", network="", name=moved.name)
        self.check_same(seed, model, on.state_dict("last"))
        self.assertEqual(on.summary["steps"], 3)

    def test_what_a_run_writes_it_can_read(self):
        for seed in range(FIRST, FIRST + MODELS):
            with self.subTest(seed=seed):
                self.one(seed)


SERVE = """
import sys, torch, troupe
sys.exit(troupe.serve(
    torch.nn.Sequential(torch.nn.Linear(4, int(sys.argv[1])), torch.nn.Linear(int(sys.argv[1]), 2)),
    dataset_size=16, batch_size=4, workers=1, max_steps=2, port=0, train_dir=sys.argv[2]))
"""


class Serve(cluster.Case):
    """The description of a model belongs to its run."""

    def serve(self, width, where, name):
        server = cluster.Process(
            ["/usr/bin/env", "-C", where, sys.executable, "-c", SERVE, width, self.folder / name],
            self.folder / f"{name}.log",
        )
        self.addCleanup(server.end)
        return server, server.await_line(r"listening +on 127\.0\.0\.1:(\d+)").group(1)

    def work(self, width, port):
        model = nn.Sequential(nn.Linear(4, width), nn.Linear(width, 2))
        with troupe.Worker(model, dataset_size=16, port=port) as worker:
            for lease in worker:
                loss = model(torch.ones(len(lease.indices), 4)).square().mean()
                loss.backward()
                worker.step(loss)

    def test_runs_of_one_folder_leave_each_other_alone(self):
        where = self.folder / "together"
        where.mkdir()
        first = self.serve(8, where, "a")
        second = self.serve(16, where, "b")
        with self.assertRaisesRegex(troupe.Error, r"has the shape \(16, 4\), and in the run"):
            self.work(16, first[1])
        self.work(8, first[1])
        self.work(16, second[1])
        for server, _ in (first, second):
            self.require_end(server)
        self.assertEqual(list(where.iterdir()), [])
        for name, width in (("a", 8), ("b", 16)):
            [file] = (self.folder / name / "described").iterdir()
            self.assertEqual(file.name, "sequential.safetensors")
            self.assertEqual(safetensors.read(file)["0.weight"].shape, (width, 4))

    def test_a_working_folder_need_not_be_written_to(self):
        server, port = self.serve(4, "/proc", "run")
        self.work(4, port)
        self.require_end(server)


class Descriptions(unittest.TestCase):
    def refuses(self, line, name, value):
        model = nn.Linear(2, 2)
        model.register_buffer(name, value)
        with self.assertRaisesRegex(troupe.Error, line):
            tensors_of(model)

    def test_what_no_file_can_keep_is_refused(self):
        self.refuses("x is torch.complex128, which no file of weights can keep; with "
                     "persistent=False", "x", torch.zeros(2, dtype=torch.complex128))
        self.refuses("x is torch.sparse_coo", "x", torch.ones(2).to_sparse())
        self.refuses("x is torch.qint8", "x",
                     torch.quantize_per_tensor(torch.ones(3), 1.0, 0, torch.qint8))
        self.refuses("must be text that UTF-8 can have", "\ud800", torch.ones(1))
        self.refuses("cannot have this name", "__metadata__", torch.ones(1))
        with self.assertRaisesRegex(troupe.Error, "_extra_state is function, which a file"):
            tensors_of(nn.Sequential(nn.Linear(2, 2), Extra(lambda: 1)))

    def test_frozen_layers_and_constants_have_types_of_their_own(self):
        model = nn.Sequential(nn.Linear(2, 2).bfloat16().requires_grad_(False), nn.Linear(2, 2))
        model.register_buffer("scale", torch.ones(2, dtype=torch.float64))
        kinds = {x.name: x.kind for x in tensors_of(model)}
        self.assertEqual(kinds["scale"], CONSTANT)
        self.assertEqual(kinds["0.weight"], CONSTANT)
        self.assertEqual(kinds["1.weight"], PARAMETER)

    def test_groups_name_parameters_of_any_name(self):
        model = nn.ModuleDict({name: nn.Linear(2, 2) for name in ODD})
        for name in ODD:
            rules = group_rules(model, [{"params": [model[name].weight], "lr": 1}])
            self.assertNotRegex(rules.removesuffix("=lr=1.0"), r"[ ,=\n;#\"']")
        twins = nn.ModuleDict({"a b": nn.Linear(2, 2), "a,b": nn.Linear(2, 2)})
        with self.assertRaisesRegex(troupe.Error, "cannot tell from 'a,b.weight'"):
            group_rules(twins, [{"params": [twins["a b"].weight], "lr": 1}])


class Earlier(cluster.Case):
    """What tests/fixtures/6f69d42/README.md tells of."""

    def test_run_goes_on(self):
        made = cluster.HERE.parent / "fixtures" / "6f69d42" / "python"
        shutil.copytree(made, self.folder, dirs_exist_ok=True)
        run = self.run_directory()
        self.assertEqual(run.summary["steps"], 30)
        model = toy.Net(16)
        model.load_state_dict(run.state_dict("last"), strict=True)
        server, port = self.serve(
            "--resume", "auto", "--change", "training.max-steps=40",
            network=f"weights:{self.folder / 'runs' / 'net.safetensors'}",
        )
        data, model = toy.Points(), toy.Net(16)
        with troupe.Worker(
            model, dataset_size=len(data), dataset_id="toy", port=port
        ) as worker:
            for lease in worker:
                x, y = data[list(lease.indices)]
                loss = torch.nn.functional.cross_entropy(model(x), y)
                loss.backward()
                worker.step(loss)
        self.require_end(server)
        self.assertIn("from step 30", server.output())
        run = self.run_directory()
        self.assertEqual(run.summary["steps"], 40)
        last = run.state_dict("last")
        for name, value in model.state_dict().items():
            self.assertTrue(torch.equal(value, last[name]), name)


if __name__ == "__main__":
    unittest.main()
