"""What is run on a GPU, in the order of its value: if time is out, the least is lost.

A step is a function that takes a Bench and yields rows. What it raises becomes a row."""

import json
import statistics
from collections.abc import Callable
from dataclasses import dataclass

import clusters
from clusters import DIGITS
from processes import Failed, last_line


CLASSES = 256  # Of ResNet-50, as many as made-up data may have; as in training.py.


@dataclass(frozen=True)
class Scale:
    """How large the steps are."""

    edge: int  # Of ResNet-50's pictures.
    batch: int
    steps: int
    small_batch: int  # ResNet-18's, at 32x32.
    small_steps: int
    sizes: tuple  # Of copies, bytes.
    parameters: int  # Of the server's step.
    rounds: int
    joins: int
    autocast: str = "bf16"  # Of native ResNet-50s.


FULL = Scale(
    edge=224,
    batch=256,
    steps=40,
    small_batch=256,
    small_steps=100,
    sizes=(4096, 65536, 1 << 20, 16 << 20, 100_000_000, 400_000_000),
    parameters=25_000_000,
    rounds=3,
    joins=20,
)

#: Shows that every step works, and measures nothing.
TINY = Scale(64, 2, 6, 4, 6, (4096, 65536), 10_000, 1, 2, "none")


@dataclass
class Row:
    name: str
    value: float | None = None
    unit: str = ""
    reference: str = ""  # What it is compared with: a ceiling where there is one.
    reference_value: float | None = None
    ratio: float | None = None  # Above 1: Troupe is better.
    line: str = ""
    status: str = "ok"


def beside(name, value, unit, reference, reference_value, lower_is_better=False):
    ratio = None
    if reference_value and value:
        ratio = reference_value / value if lower_is_better else value / reference_value
    return Row(name, value, unit, reference, reference_value, ratio)


# -- is it usable ------------------------------------------------------------------


def open_device(bench):
    """Whether this program and the CUDA part of the installed torch fit."""
    said = bench.run("devices", [bench.program, "devices"]).out
    found = [x for x in said.splitlines() if x.startswith("cuda:0 ")]
    if not found:
        raise Failed(last_line(said))
    bench.devices = len([x for x in said.splitlines() if x.startswith("cuda:")])
    bench.note_device(said)
    yield Row("open/devices", line=" ".join(found[0].split()))


def compute_gradients(bench):
    """Gradients and scores of the device beside the CPU's, within tolerances."""
    # A few in a rehearsal; on a GPU all but those that need the fake device.
    which = "a device computes*" if bench.rehearsed else "~[fake]"
    test = bench.start("device_test", [bench.folder / "device_test", which])
    status = test.wait(bench.deadline)
    worst = {}
    for words in (x.split() for x in test.out.splitlines()):
        if words[:1] == ["figure"]:
            _, name, error, tolerance = words
            worst[name] = max(worst.get(name, (0, 0)), (float(error), float(tolerance)))
    for name, (error, tolerance) in worst.items():
        yield beside(name, error, "relative", "tolerance", tolerance, True)
    if status != 0:
        failed = [x for x in test.out.splitlines() if "FAILED:" in x]
        raise Failed(last_line(test.out) + (f"; first {failed[0].strip()}" if failed else ""))
    yield Row("gradients/device_test", line=last_line(test.out))


def train_lenet(bench):
    """Two workers under sync, on the device and on the CPU from the same seed."""
    losses = {}
    for device in ("cpu", bench.device):
        run = bench.simulate("lenet", device, "--workers", 2, "--policy", "sync", "--epochs", 2)
        if run.summary["samples_applied"] != 2 * DIGITS:
            raise Failed(f"{run.summary['samples_applied']} samples instead of {2 * DIGITS}")
        losses[device] = run.last_loss
    yield beside("train/lenet/loss", losses[bench.device], "", "the CPU's", losses["cpu"], True)


def take_devices(bench):
    """A GPU for each worker, and a line for one worker too many."""
    yield Row("open/one_too_many", line=clusters.refuse_one_too_many(bench, bench.devices))


# -- rates ---------------------------------------------------------------------------


def measure_copies(bench):
    """Rates of copies between host and device, and on the device."""
    found = bench.python("copies.py", bench.python_device, *bench.scale.sizes)
    pinned = {}
    for x in found:
        way, size, rate = x["way"], x["bytes"], x["gigabytes_per_second"]
        if way == "pinned to device":
            pinned[size] = rate
        if way == "device to device":
            bench.device_rate = rate
    for x in found:
        way, size, rate = x["way"], x["bytes"], x["gigabytes_per_second"]
        name = f"copies/{way.replace(' ', '_')}/{size}"
        ceiling = pinned[size] if way in ("pageable to device", "device to pinned") else None
        yield beside(name, rate, "GB/s", "pinned to device" if ceiling else "", ceiling)


def contest(bench, contenders, rounds):
    """Runs all in turn; returns the median of each, and why one has failed, after which
    it is not run again."""
    found, failures = {name: [] for name in contenders}, {}
    for _ in range(rounds):
        for name, rate in contenders.items():
            if name in failures or bench.is_over():
                continue
            try:
                found[name].append(rate())
            except Failed as why:
                failures[name] = f"after {len(found[name])} of {rounds} rounds: {why}"
    return {name: statistics.median(x) for name, x in found.items() if x}, failures


def compare_rates(topic, targets, rates, failures):
    """A row for each contender, beside the plain loop.

    Args:
        targets: Of the ratios, by contender.
    """
    plain = rates.get("plain")
    for name in ("plain", *targets):
        row = Row(f"{topic}/{name}", rates.get(name), "samples/s")
        if name != "plain":
            reference = f"plain loop (target {targets[name]})"
            row = beside(row.name, row.value, row.unit, reference, plain)
        row.line = failures.get(name, "" if name in rates else "no time was left for it")
        if name not in rates:
            row.status = "failed"
        yield row


def large_run(bench, edge, *more):
    scale = bench.scale
    samples = 8 * scale.batch
    run = bench.simulate(
        "resnet50",
        bench.device,
        *("--dataset", f"synthetic(shape=3x{edge}x{edge},classes={CLASSES},samples={samples})"),
        *("--batch-size", scale.batch, "--autocast", scale.autocast),
        *("--epochs", 1000, "--max-steps", scale.steps, *more),
    )
    return run.rate()


def train_resnet50(bench):
    """In bfloat16, channels last: a plain PyTorch loop, a native worker, a Python worker."""
    scale = bench.scale
    words = "resnet50", scale.batch, scale.steps, bench.python_device, scale.edge

    def loop(mode):
        return lambda: bench.python("training.py", mode, *words)["samples_per_second"]

    contenders = {
        "plain": loop("plain"),
        "native": lambda: large_run(bench, scale.edge, "--workers", 1, "--policy", "async"),
        "python": loop("worker"),
    }
    targets = {"native": 0.97, "python": 0.95}
    yield from compare_rates("resnet50", targets, *contest(bench, contenders, scale.rounds))


def train_resnet18(bench):
    """At 32x32 in Python: a plain loop and a worker."""
    scale = bench.scale
    words = "resnet18", scale.small_batch, scale.small_steps, bench.python_device

    def loop(mode):
        return lambda: bench.python("training.py", mode, *words)["samples_per_second"]

    contenders = {"plain": loop("plain"), "python": loop("worker")}
    rates, failures = contest(bench, contenders, scale.rounds)
    yield from compare_rates("resnet18", {"python": 0.93}, rates, failures)


REFERENCE = "copies of the device for all bytes"


def push_and_pull(bench):
    """100 MB go to the server and back, with a step of 25 M floats between."""
    count = bench.scale.parameters
    best = None
    if bench.device_rate is not None:
        # Gradient and weights are copied; SGD with momentum reads three and writes two.
        best = 1000 * (2 * 4 * count + 5 * 4 * count / 2) / (bench.device_rate * 1e9)
    for server in ("cpu", bench.device):
        words = count, 30, bench.python_device, server
        try:
            found = bench.python("training.py", "step", *words)
            if not found["server"].startswith(server):
                raise Failed(f"the server computes elsewhere: {found['server']}")
        except Failed as why:
            yield Row(f"server/step/on_{server}", status="failed", line=str(why))
            continue
        milliseconds = found["milliseconds"]
        row = beside(f"server/step/on_{server}", milliseconds, "ms", REFERENCE, best, True)
        row.line = found["warnings"]
        yield row
    file = bench.scratch / "wide.pt"
    bench.python("training.py", "script", max(1, count // 794), file)
    run = bench.simulate(
        f"script:{file}",
        bench.device,
        *("--allow-scripts", "--workers", 1, "--policy", "async", "--batch-size", 8),
        *("--epochs", 1000, "--max-steps", 40),
    )
    turn = 1000 * 8 / run.rate()
    yield beside("server/turn/native", turn, "ms", REFERENCE, best, True)


def share_the_device(bench):
    """Two workers on one GPU beside one."""
    edge = bench.scale.edge
    one = large_run(bench, edge, "--workers", 1, "--policy", "async")
    for policy in ("sync", "async"):
        rate = large_run(bench, edge, "--workers", 2, "--policy", policy)
        yield beside(f"two_workers/{policy}", rate, "samples/s", "one worker", one)


# -- what can happen --------------------------------------------------------------------


def join_nccl(bench):
    """Ranks of one process: sends, sums, gathers, a rank that stops."""
    if not bench.machine.nccl:
        raise Failed("there is no NCCL")
    if not bench.machine.shares_gpu:
        yield Row("nccl/ranks_of_a_process", status="left out", line=bench.why_no_ranks())
        return
    # Without the cases that only a double of NCCL can make.
    command = [bench.folder / "gpu_network_test", "~[double]"]
    test = bench.run("gpu_network_test", command, **bench.machine.for_nccl())
    yield Row("nccl/ranks_of_a_process", line=last_line(test.out))


def train_over_nccl(bench):
    """A server and one or three workers, each a process and a rank."""
    if not bench.machine.shares_gpu:
        yield Row("nccl/processes", status="left out", line=bench.why_no_ranks())
        return
    for workers in (1, 3):
        rate = clusters.train(bench, workers, transport="nccl")
        yield Row(f"nccl/processes/{workers + 1}", rate, "samples/s")


def kill_a_worker(bench):
    """kill -9 of one of three workers under sync; every sample must count once."""
    way = bench.transport()
    gone = clusters.kill(bench, way)
    yield Row(f"faults/kill_9/{way}", gone, "s", line="from the kill to the end of the run")


def send_nan(bench):
    """A worker whose gradients are NaN now and then, beside one whose are not."""
    refused = clusters.refuse_nan(bench)
    yield Row("faults/nan", refused, "gradients", line="refused, and the run was completed")


def join_and_leave(bench):
    """A worker that joins and leaves again and again beside one that stays."""
    seconds = clusters.join_and_leave(bench, bench.scale.joins)
    yield Row("faults/join_and_leave", seconds, "s", line="a join and a leave, mean")


@dataclass(frozen=True)
class Step:
    name: str
    act: Callable
    limit: int  # Seconds.
    needs: str  # Of the programs.


STEPS = (
    Step("open", open_device, 40, "trainer_node"),
    Step("gradients", compute_gradients, 60, "device_test"),
    Step("train", train_lenet, 40, "trainer_node"),
    Step("take", take_devices, 30, "trainer_node"),
    Step("copies", measure_copies, 40, "Python"),
    Step("resnet50", train_resnet50, 180, "trainer_node, Python"),
    Step("resnet18", train_resnet18, 90, "trainer_node, Python"),
    Step("server", push_and_pull, 60, "trainer_node, Python"),
    Step("two_workers", share_the_device, 60, "trainer_node"),
    Step("nccl", join_nccl, 40, "gpu_network_test"),
    Step("nan", send_nan, 40, "trainer_node, Python"),
    Step("kill", kill_a_worker, 40, "trainer_node"),
    Step("nccl_processes", train_over_nccl, 50, "trainer_node"),
    Step("join_and_leave", join_and_leave, 100, "trainer_node"),
)


def parsed(text):
    """The last line of a program of ours, which is JSON."""
    try:
        return json.loads(last_line(text))
    except json.JSONDecodeError:
        raise Failed(f"no figures, but: {last_line(text)}") from None
