"""Runs what needs a GPU, and writes a table and a JSON file of the outcome.

    gpu.py --programs FOLDER [--python FILE] [--nccl FILE] [--json FILE]
           [--limit SECONDS] [--only STEP...] [--dry-run]

FOLDER has trainer_node and the device tests. The torch of the Python, which is this one
unless --python names another, brings LibTorch's libraries, those of its CUDA part and
NCCL; --nccl names another one, such as a release that lets ranks share a GPU. Each step
has a time limit, and all together have --limit (450 s): what has no time left is said to
be left out. A step that fails is a row; the others go on.

--dry-run shows what was found and what would run, opens the libraries up to the first
call that needs a device, and ends with status 0. --rehearse LIBRARY is for the tests: a
fake device stands for CUDA, Python's steps run on the CPU, and everything is tiny.
"""

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path

import machine
import steps
from clusters import Run
from processes import Children, Failed, OutOfTime, last_line

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


class Bench:
    """What a step may use. A step's programs end with it."""

    def __init__(self, found, programs, scratch, rehearsed):
        self.machine = found
        self.folder = programs
        self.program = programs / "trainer_node"
        self.scratch = Path(scratch)
        self.scale = steps.TINY if rehearsed else steps.FULL
        self.device = "cuda:0"
        self.rehearsed = bool(rehearsed)
        self.python_device = "cpu" if rehearsed else "cuda:0"
        self.device_rate = None  # GB/s of a copy on the device, once it is measured.
        self.patience = 3 if rehearsed else 1  # On a machine with other work.
        self.devices = 1
        self.deadline = 0.0
        self._environment = dict(os.environ) if rehearsed else found.environment()
        self._environment |= {
            "TROUPE_TRAINER_NODE": str(self.program),
            "PYTHONPATH": str(ROOT / "python"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        if rehearsed:
            self._environment |= {
                "TROUPE_CUDA_LIBRARY": rehearsed,
                "CUDA_VISIBLE_DEVICES": f"rehearsal-{os.getpid()}",  # Nobody else's.
                "FAKE_CUDA_DEVICES": os.environ.get("FAKE_CUDA_DEVICES", "1"),
                "OMP_NUM_THREADS": "1",
            }
        self._folders = 0
        self._children = None

    def begin(self, deadline):
        self.deadline = deadline
        folder = self.new_folder()
        folder.mkdir()
        self._children = Children(self._environment, folder, deadline)

    def end(self):
        self._children.end()

    def is_over(self):
        return time.monotonic() >= self.deadline

    def new_folder(self):
        """A name for one; whoever uses it makes it."""
        self._folders += 1
        return self.scratch / f"{self._folders:03}"

    def start(self, name, command, **variables):
        return self._children.start(name, command, **variables)

    def run(self, name, command, allowed=(0,), **variables):
        child = self.start(name, command, **variables)
        if child.wait(self.deadline) not in allowed:
            raise Failed(child.why())
        return child

    def require_end(self, child, status=0):
        self._children.require_end(child, status)

    def wait_until(self, holds, who, subject):
        self._children.wait_until(holds, who, subject)

    def python_command(self, file, *words):
        return [self.machine.python, HERE / file, *words]

    def python(self, file, *words):
        """What a program in Python has found."""
        name = f"{file.removesuffix('.py')}-{words[0]}".replace(":", "")
        return steps.parsed(self.run(name, self.python_command(file, *words)).out)

    def simulate(self, network, device, *more):
        """A run in one process."""
        folder = self.new_folder()
        command = [self.program, "--simulate", "--network", network, "--device", device]
        command += ["--evaluator", "false", "--train-dir", folder, *more]
        self.run("simulate", command)
        return Run(folder)

    def transport(self):
        """The path of clusters to which something happens."""
        return "nccl" if self.machine.shares_gpu else "auto"

    def why_no_ranks(self):
        if not self.machine.nccl:
            return "there is no NCCL"
        return f"NCCL {self.machine.nccl} lets no ranks share a GPU"

    def note_device(self, said):
        """Takes over what `trainer_node devices` has said."""
        for line in said.splitlines():
            if line.startswith("cuda:0 ") and not self.machine.device:
                self.machine.device = line.split("  ")[1].strip() or "unknown"
            if line.startswith("CUDA: driver ") and not self.machine.driver:
                self.machine.driver = "for CUDA " + line.split()[2].rstrip(",")


# -- what is shown and kept ------------------------------------------------------------


def number(x):
    if x is None:
        return ""
    digits = 0 if abs(x) >= 100 else 1 if abs(x) >= 10 else 2 if abs(x) >= 1 else 3
    return f"{x:.{digits}f}" if abs(x) >= 0.001 or x == 0 else f"{x:.1e}"


def show_row(row):
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    words = row.line if row.status == "ok" else f"{row.status.upper()}: {row.line}"
    text = f"  {row.name:38} {number(row.value):>9} {row.unit:10} "
    text += f"{number(row.reference_value):>9} {ratio:>6}  "
    print(text + "; ".join(x for x in (row.reference, words) if x), flush=True)


class Report:
    """The rows so far, saved after each step: what ends the run loses little."""

    def __init__(self, file, about):
        self._file = file
        self._about = about
        self.rows = []

    def begin(self):
        head = f"  {'figure':38} {'value':>9} {'unit':10} {'reference':>9} {'ratio':>6}"
        print(f"{head}  what the reference is, or what was said")

    def add(self, step, row, seconds):
        show_row(row)
        self.rows.append({"step": step, **asdict(row), "seconds": round(seconds, 2)})

    def save(self, found):
        if self._file is None:
            return
        text = json.dumps({**found.described(), **self._about, "rows": self.rows}, indent=2)
        new = self._file.with_name(self._file.name + ".tmp")
        new.write_text(text + "\n")
        new.replace(self._file)


# -- the run ------------------------------------------------------------------------------


def run_step(step, bench, report, end):
    """Returns whether it had no failure."""
    begin = time.monotonic()
    bench.begin(min(end, begin + step.limit * bench.patience))
    before = len(report.rows)

    def seconds():
        return time.monotonic() - begin

    try:
        for row in step.act(bench):
            report.add(step.name, row, seconds())
    except OutOfTime as why:
        report.add(step.name, steps.Row(step.name, line=str(why), status="timed out"), seconds())
    except Failed as why:
        report.add(step.name, steps.Row(step.name, line=str(why), status="failed"), seconds())
    finally:
        bench.end()
    return all(x["status"] in ("ok", "left out") for x in report.rows[before:])


def run_all(chosen, bench, report, limit):
    """Returns the exit status."""
    end = time.monotonic() + limit
    good, usable = True, True
    report.begin()
    for step in chosen:
        why = "" if usable else "the device cannot be used"
        if time.monotonic() >= end:
            why = f"no time was left of {limit:.0f} s"
        if why:
            report.add(step.name, steps.Row(step.name, line=why, status="left out"), 0)
            good = False
        elif not run_step(step, bench, report, end):
            good = False
            usable = usable and step.act is not steps.open_device
        report.save(bench.machine)
    return 0 if good else 1


def show_machine(found, programs):
    print(f"programs   {programs}")
    print(f"python     {found.python}, {found.python_release or 'cannot be run'}")
    print(f"torch      {found.torch or 'none'}, for CUDA {found.cuda or 'none'}")
    print(f"CUDA part  {found.cuda_library or 'none'}")
    sharing = "lets ranks share a GPU" if found.shares_gpu else "one rank a GPU"
    print(f"NCCL       {found.nccl + ', ' + sharing if found.nccl else 'none'}")
    print(f"device     {found.device or 'none'}, driver {found.driver or 'none'}")
    for line in found.absent:
        print(f"absent     {line}")


def show_plan(chosen, programs, limit):
    print(f"plan       {len(chosen)} steps, {limit:.0f} s at most")
    for step in chosen:
        words = (step.act.__doc__ or "").split("\n\n")[0]
        print(f"  {step.name:15} {step.limit:4} s  {step.needs:22}  {' '.join(words.split())}")
    for name in ("trainer_node", "device_test", "gpu_network_test"):
        if not (programs / name).is_file():
            print(f"absent     {programs / name}; make it with ./dev gpu --pack FOLDER")


def open_without_device(bench):
    """Opens what there is, up to the first call that needs a device. What then fails is
    said, and is no failure of a dry run."""
    if not bench.program.is_file():
        return
    bench.begin(time.monotonic() + 60)
    try:
        said = last_line(bench.run("devices", [bench.program, "devices"]).out)
    except Failed as why:
        said = str(why)
    finally:
        bench.end()
    print(f"devices    {said}")


def commit_of(programs):
    for file in (programs / "commit", programs.parent / "commit"):
        if file.is_file():
            return file.read_text().strip()
    return machine.answer_of(["git", "-C", str(ROOT), "rev-parse", "HEAD"]) or "unknown"


def read_arguments():
    parser = argparse.ArgumentParser(
        prog="./dev gpu",
        allow_abbrev=False,
        description="Runs what needs a GPU. --from FOLDER, if given, comes first and names "
        "what --pack FOLDER has made; docs/devices.md says more.",
    )
    parser.add_argument("--programs", type=Path, required=True, help=argparse.SUPPRESS)
    add = parser.add_argument
    add("--python", default=sys.executable, metavar="FILE", help="whose torch is used")
    add("--nccl", default="", metavar="FILE", help="another NCCL than torch's")
    add("--json", type=Path, metavar="FILE", help="where the figures go")
    add("--limit", type=float, default=450, metavar="SECONDS", help="of all steps (450)")
    add("--only", nargs="+", default=[], metavar="STEP", help="these steps alone")
    add("--dry-run", action="store_true", help="show what is found and would run")
    parser.add_argument("--rehearse", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    known = [x.name for x in steps.STEPS]
    for name in given.only:
        if name not in known:
            parser.error(f"no such step: {name}; there are: {', '.join(known)}")
    if given.nccl and not Path(given.nccl).is_file():
        parser.error(f"--nccl {given.nccl}: there is no such file")
    if shutil.which(given.python) is None:
        parser.error(f"--python {given.python}: there is no such program")
    return given


def main():
    given = read_arguments()
    programs = given.programs.resolve()
    # Ends the block that removes what was started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    chosen = [x for x in steps.STEPS if not given.only or x.name in given.only]
    program = programs / "trainer_node"
    if not given.dry_run and not program.is_file():
        print(f"./dev gpu: there is no {program}; make it with ./dev build", file=sys.stderr)
        return 1
    found = machine.look_at(given.python, given.nccl)
    show_machine(found, programs)
    with tempfile.TemporaryDirectory(prefix="troupe-gpu-") as scratch:
        bench = Bench(found, programs, scratch, given.rehearse)
        if given.dry_run:
            show_plan(chosen, programs, given.limit)
            open_without_device(bench)
            return 0
        report = Report(
            given.json,
            {
                "commit": commit_of(programs),
                "began": datetime.now(timezone.utc).isoformat(timespec="seconds"),
                "rehearsed": bool(given.rehearse),
            },
        )
        try:
            return run_all(chosen, bench, report, given.limit)
        finally:
            report.save(found)


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
