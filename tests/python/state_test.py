"""What a model keeps besides what is trained: buffers, teachers, counters, ties."""

import copy
import sys
import unittest

import cluster
import toy
import torch
import troupe
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import parametrizations
from troupe.description import COUNTER, PARAMETER, STATISTIC, tensors_of


class Normalize(nn.Module):
    """Constants, in a class whose name could mean something else."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406, 0.1]).repeat(5))

    def forward(self, x):
        return x - self.mean


class Codes(nn.Module):
    """Puts another tensor in the place of its buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("centres", torch.zeros(20))

    def forward(self, x):
        if self.training:
            self.centres = 0.9 * self.centres + 0.1 * x.detach().mean(0)
        return x - self.centres


class Observer(nn.Module):
    """Begins with infinity, and has a constant with it."""

    def __init__(self):
        super().__init__()
        self.register_buffer("least", torch.tensor(float("inf")))
        self.register_buffer("most", torch.tensor(float("-inf")))
        self.register_buffer("mask", torch.full((3, 3), float("-inf")).triu(1))

    def forward(self, x):
        if self.training:
            self.least.copy_(torch.minimum(self.least, x.detach().min()))
            self.most.copy_(torch.maximum(self.most, x.detach().max()))
        return x + self.mask[2]


class Beside(nn.Module):
    """A body that computes, and others beside it."""

    def __init__(self, body, **others):
        super().__init__()
        self.body = body
        for name, one in others.items():
            setattr(self, name, one)

    def forward(self, x):
        return self.body(x)


def counting():
    return nn.Sequential(Codes(), nn.BatchNorm1d(20), nn.Linear(20, 3))


def train(model, port, after=None):
    """Trains to the end of the run, with a call after each step; gives the state that
    the model had in the last step."""
    with troupe.Worker(model, dataset_size=toy.SAMPLES, dataset_id="toy", port=port) as worker:
        for x, y in worker.loader(toy.Points()):
            loss = cross_entropy(model(x), y)
            loss.backward()
            state = copy.deepcopy(model.state_dict())
            worker.step(loss)
            if after:
                after(model)
    return state


def kinds_of(model, **more):
    """By name: trained, carried, counter or constant."""
    words = {PARAMETER: "trained", STATISTIC: "carried", COUNTER: "counter"}
    return {
        x.name: "constant" if x.frozen else words[x.kind] for x in tensors_of(model, **more)
    }


class Kinds(unittest.TestCase):
    def test_buffers_are_carried(self):
        layer = nn.Linear(20, 3)
        layer.register_buffer("small", torch.zeros(1000))
        layer.register_buffer("large", torch.zeros(1 << 18))
        found = kinds_of(nn.Sequential(Normalize(), Codes(), nn.utils.spectral_norm(layer)))
        self.assertEqual(found.pop("2.large"), "constant")
        self.assertEqual({x for x in found if found[x] == "trained"},
                         {"2.weight_orig", "2.bias"})
        self.assertEqual({x for x in found if found[x] == "carried"},
                         {"0.mean", "1.centres", "2.small", "2.weight_u", "2.weight_v"})

    def test_frozen_layers_are_constant(self):
        model = nn.Sequential(nn.Linear(20, 3), nn.BatchNorm1d(3), nn.LayerNorm(3))
        model[1].requires_grad_(False)
        found = kinds_of(model)
        for name in ("weight", "bias", "running_mean", "running_var"):
            self.assertEqual(found[f"1.{name}"], "constant")
        self.assertEqual(found["2.weight"], "trained")

    def test_only_real_counters_count(self):
        model = nn.Sequential(nn.SyncBatchNorm(3), nn.LazyBatchNorm1d(), nn.Linear(3, 3), Codes())
        model[1](torch.zeros(2, 3))
        model[2].register_buffer("seven", torch.tensor(7))
        model[3].register_buffer("num_batches_tracked", torch.tensor(3))
        found = kinds_of(model)
        self.assertEqual({x for x in found if found[x] == "counter"},
                         {"0.num_batches_tracked", "1.num_batches_tracked"})

    def test_the_user_knows_better(self):
        model = nn.Sequential(nn.Linear(20, 3), nn.Linear(20, 3).requires_grad_(False), Codes())
        found = kinds_of(model, carry={"1.bias": False, "1.*": True, "*": False})
        self.assertEqual(found, {
            "0.weight": "trained", "0.bias": "trained", "1.weight": "carried",
            "1.bias": "constant", "2.centres": "constant",
        })
        for carry, why in [
            ({"0.*": True}, "carry: the pattern '0.\\*' has no effect: no buffer and no frozen"),
            ({"2.*": 1}, "carry has '2.\\*': 1; give a name or a pattern, and True or False"),
        ]:
            with self.assertRaisesRegex(troupe.Error, why):
                tensors_of(model, carry)
        model[2].register_buffer("seven", torch.tensor(7))
        with self.assertRaisesRegex(troupe.Error, "carry has 2.seven, which is torch.int64"):
            tensors_of(model, {"2.*": True})


class Memory(unittest.TestCase):
    """Two tensors in the same memory are not one."""

    def refuse(self, model, pattern):
        with self.assertRaisesRegex(troupe.Error, pattern):
            tensors_of(model)

    def test_through_data(self):
        model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
        model[1].weight.data = model[0].weight.data
        self.refuse(model, "0.weight and 1.weight are two parameters in the same memory: tie")
        model[1].weight.data = model[0].weight.data.t()
        self.refuse(model, "0.weight and 1.weight share memory, and would come apart")
        model[1].weight = nn.Parameter(model[0].weight)
        self.refuse(model, "0.weight and 1.weight are two parameters in the same memory: tie")
        model[1].weight = model[0].weight
        self.assertEqual([x.same_as for x in tensors_of(model) if x.same_as], ["0.weight"])

    def test_frozen_beside_trained(self):
        model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
        model[1].weight = nn.Parameter(model[0].weight.detach(), requires_grad=False)
        self.refuse(model, "0.weight and 1.weight share memory")
        model = nn.Sequential(nn.Linear(3, 3))
        model.register_buffer("row", model[0].weight.data[1])
        self.refuse(model, "row and 0.weight share memory|0.weight and row share memory")

    def test_overlapping_and_expanded(self):
        model, base = nn.Sequential(nn.Linear(3, 2), nn.Linear(3, 2)), torch.rand(3, 3)
        model[0].weight.data, model[1].weight.data = base[:2], base[1:]
        self.refuse(model, "0.weight and 1.weight share memory")
        model[1].weight.data = torch.rand(3).expand(2, 3)
        self.refuse(model, "1.weight has elements that are one number in memory")

    def test_side_by_side(self):
        model, base = nn.Sequential(nn.Linear(3, 2), nn.Linear(3, 2), nn.LSTM(3, 3)), torch.rand(2, 6)
        model[0].weight.data, model[1].weight.data = base[:, ::2], base[:, 1::2]
        model.register_buffer("row", torch.zeros(1, 3).expand(2, 3))
        model.row.requires_grad_(False)
        tensors_of(model, {"row": False})  # Nobody writes there.


class Runs(cluster.Case):
    """Models that train, each in this process."""

    def begin(self, model, *flags, name="run", **describe):
        file = troupe.describe(model, self.folder / f"{name}.safetensors", **describe)
        flags = ("--batch-size", 25, "--train-dir", self.folder / name, *flags)
        return self.serve("--workers", 1, *flags, network=f"weights:{file}", name=name)

    def state_dict(self, name="run"):
        return troupe.Run(self.folder / name).state_dict("last")

    def test_checkpoints_have_what_the_process_changes(self):
        def make():
            body = nn.Sequential(
                Normalize(), Codes(), nn.utils.spectral_norm(nn.Linear(20, 8)), nn.ReLU(),
                parametrizations.spectral_norm(nn.Linear(8, 3)), Observer(),
            )
            return Beside(body, teacher=copy.deepcopy(body[2]).requires_grad_(False))

        def teach(model):
            for old, new in zip(model.teacher.parameters(), model.body[2].parameters()):
                old.data.lerp_(new.data, 0.1)

        model = make()
        before = copy.deepcopy(model.state_dict())
        server, port = self.begin(model, "--max-steps", 9, carry={"teacher.*": True})
        pushed = train(model, port, teach)
        self.require_end(server)
        found = self.state_dict()
        make().load_state_dict(found, strict=True)
        for x in tensors_of(make(), {"teacher.*": True}):
            if x.kind == STATISTIC:
                self.assertTrue(torch.equal(found[x.name], pushed[x.name]), x.name)
        for name in (
            "body.2.weight_u", "body.1.centres", "body.5.least", "teacher.weight_orig",
        ):
            self.assertFalse(torch.equal(found[name], before[name]), name)
        for name in ("body.0.mean", "body.5.mask"):
            self.assertTrue(torch.equal(found[name], before[name]), name)

    def test_a_change_of_a_constant_is_named(self):
        def through_data(model):
            model.teacher.weight.data.mul_(0.9)

        def in_place(model):
            with torch.no_grad():
                model.teacher.bias.add_(1)

        def replaced(model):
            model.teacher.queue = torch.ones(1 << 18)

        def late(model):
            model.steps = getattr(model, "steps", 0) + 1
            if model.steps == 10:
                model.teacher.queue[7] = 1

        for change, name in [
            (through_data, "weight"), (in_place, "bias"), (replaced, "queue"), (late, "queue"),
        ]:
            with self.subTest(change.__name__):
                model = Beside(nn.Sequential(nn.Linear(20, 3)), teacher=nn.Linear(20, 3))
                model.teacher.requires_grad_(False)
                model.teacher.register_buffer("queue", torch.zeros(1 << 18))
                server, port = self.begin(
                    model, "--max-steps", 12, name=change.__name__
                )
                with self.assertRaisesRegex(
                    troupe.Error, f"teacher.{name} has changed, .* carry={{\"teacher.{name}\": True}}"
                ):
                    train(model, port, change)
                server.end()

    def test_a_counter_goes_on(self):
        def make():
            torch.manual_seed(0)
            return nn.Sequential(nn.BatchNorm1d(20, momentum=None), nn.Linear(20, 3))

        server, port = self.begin(make(), "--max-steps", 12, name="straight")
        train(make(), port)
        self.require_end(server)
        for steps, more in ((7, ()), (12, ("--resume", "auto"))):
            server, port = self.begin(make(), "--max-steps", steps, *more, name="resumed")
            train(make(), port)
            self.require_end(server)
        straight, resumed = self.state_dict("straight"), self.state_dict("resumed")
        self.assertEqual(straight["0.num_batches_tracked"], 12)
        for name, value in straight.items():
            self.assertTrue(torch.equal(resumed[name], value), name)

    def test_an_evaluator_has_it(self):
        model = counting()
        server, port = self.begin(model, "--max-steps", 9)
        worker = self.start("worker", [sys.executable, __file__, port])
        states = {}

        def score(model):
            states["last"] = copy.deepcopy(model.state_dict())
            return {"loss": 1}

        with troupe.Evaluator(counting(), score, port=port) as evaluator:
            evaluator.run()
        for process in (worker, server):
            self.require_end(process)
        found = self.state_dict()
        self.assertEqual(found["1.num_batches_tracked"], 9)
        for name, value in found.items():
            self.assertTrue(torch.equal(states["last"][name], value), name)

    def test_one_layer_under_two_names(self):
        def make():
            one = nn.BatchNorm1d(20)
            return nn.Sequential(one, one, nn.Linear(20, 3))

        server, port = self.begin(make(), "--max-steps", 5)
        pushed = train(make(), port)
        self.require_end(server)
        found = self.state_dict()
        make().load_state_dict(found, strict=True)
        for name in ("running_mean", "running_var"):
            self.assertTrue(torch.equal(found[f"0.{name}"], pushed[f"0.{name}"]))
            self.assertTrue(torch.equal(found[f"1.{name}"], found[f"0.{name}"]))
        self.assertEqual(found["1.num_batches_tracked"], 5)

    def test_ties_are_compared(self):
        def make(tied):
            model = nn.Sequential(nn.Linear(20, 20), nn.Linear(20, 20), nn.Linear(20, 3))
            if tied:
                model[1].weight = model[0].weight
            return model

        for tied, why in [
            (True, "0.weight and 1.weight are one tensor in the run, and two in the model"),
            (False, "0.weight and 1.weight are one tensor in the model, and two in the run"),
        ]:
            server, port = self.begin(make(tied), "--max-steps", 1, name=f"tied-{tied}")
            with self.assertRaisesRegex(troupe.Error, why):
                train(make(not tied), port)
            server.end()


if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1].isdigit():  # A worker, at this port.
        train(counting(), sys.argv[1])
        sys.exit()
    unittest.main(argv=sys.argv)
