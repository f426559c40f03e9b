"""How much of the learners' time counts when learners fail: runs policies on the virtual
clock, without gradients, and prints a table. Goodput is the share of all learners' seconds
whose samples are in the model at the end.

    goodput.py FOLDER [--seeds N] [--learners 8,64,512] [--mtbf 3600,600,60]

A push takes ROUND seconds, as 32 local steps of one second do. Each learner fails at
random, the given number of seconds after it has started, on average, and is back RESTART
seconds after that is noticed:

    dies         its process ends, which the server sees at once
    vanishes     its machine is silent, which the server sees after SILENCE seconds

Not simulated but computed, from the same failures, is "gang": all learners make each round
together, and if one fails all go back to the beginning of the round, where there is a
checkpoint, and start again together.

TROUPE_TRAINER_NODE names the program.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROUND, RESTART, SILENCE = 32, 30, 15
KINDS = {
    "dies": (f"crash(worker=%d,restart={RESTART})", 0),
    "vanishes": (f"cut(worker=%d,for={SILENCE + RESTART})", SILENCE),
}
#: By name: the policy of n learners, and steps of a run that surely takes all the seconds.
MODES = {
    "elastic": (lambda n: "sync", lambda n, rounds: rounds * 1.2),
    "quorum": (lambda n: f"quorum(quorum={n // 2 + 1},window=2)", lambda n, rounds: rounds * 3),
    "async": (lambda n: "async", lambda n, rounds: n * rounds * 1.1),
}


def failures(learners, mtbf, seconds, unseen, seed):
    """(second, learner) of each, in order. Who is away does not fail."""
    draw, found = random.Random(seed), []
    for learner in range(learners):
        at = draw.expovariate(1 / mtbf)
        while at < seconds:
            found.append((at, learner))
            at += unseen + RESTART + draw.expovariate(1 / mtbf)
    return sorted(found)


def gang(found, seconds, unseen):
    """The share of the time that makes rounds which end."""
    at, rounds, ends = 0.0, 0, [x for x, _ in found] + [seconds]
    for failure in ends:
        if failure > at:
            rounds += int((min(failure, seconds) - at) // ROUND)
        # One that fails while others start again makes all wait for it, too.
        at = max(at, failure + unseen + RESTART)
    return rounds * ROUND / seconds


def simulate(folder, mode, found, fault, learners, seconds):
    policy, steps = MODES[mode]
    faults, run = folder / "faults", folder / "run"
    # A run with a file of faults is made like the others; this one is after its end.
    lines = [f"{at:.3f} {fault % who}\n" for at, who in found] or [f"1e7 {fault % 0}\n"]
    faults.write_text("".join(lines))
    command = [
        os.environ.get("TROUPE_TRAINER_NODE", str(ROOT / "build/release/bin/trainer_node")),
        "--simulate", "--clock", "virtual", "--gradients", "none", "--batch-size", "32",
        "--workers", str(learners), "--policy", policy(learners), "--momentum", "0",
        "--compute-time", f"gamma(mean={ROUND},cv=0.02)", "--faults", str(faults),
        "--liveness-timeout", str(SILENCE), "--connect-timeout", "100000",
        "--checkpoint-freq", "1000000000", "--max-steps",
        str(round(steps(learners, seconds / ROUND))), "--train-dir", str(run), "--overwrite",
    ]  # fmt: skip
    with open(folder / "log", "wb") as log:
        if subprocess.run(command, stdout=log, stderr=log).returncode:
            sys.exit(f"{' '.join(command)} failed; see {folder / 'log'}")
    if json.loads((run / "summary.json").read_text())["virtual_seconds"] < seconds:
        sys.exit(f"{' '.join(command)} ended too soon")
    gradients = 0
    with open(run / "metrics.jsonl") as lines:
        for line in map(json.loads, lines):
            if line["kind"] == "update" and line["time"] <= seconds:
                gradients += line["gradients"]
    return gradients * ROUND / (learners * seconds)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--learners", default="8,64,512")
    parser.add_argument("--mtbf", default="3600,600,60")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)

    def percent(values):
        spread = f" ± {100 * statistics.stdev(values):.0f}" if len(values) > 1 else ""
        return f"{100 * statistics.mean(values):.0f}{spread}"

    def row(kind, learners, mtbf, seeds):
        fault, unseen = KINDS[kind]
        # Many learners fail often enough in a short run.
        seconds = min(7200, 655360 // learners)
        found = [
            failures(learners, mtbf, seconds, unseen, seed) if mtbf else []
            for seed in range(1, seeds + 1)
        ]
        out = [percent([gang(x, seconds, unseen) for x in found])]
        for mode in MODES:
            got = [simulate(given.folder, mode, x, fault, learners, seconds) for x in found]
            out.append(percent(got))
        print("|", " | ".join([kind, str(learners), str(mtbf or "never"), *out]), "|", flush=True)

    print("| a learner | learners | every ... s | gang |", " | ".join(MODES), "|")
    print("| --- " * (4 + len(MODES)) + "|", flush=True)
    for learners in map(int, given.learners.split(",")):
        row("dies", learners, 0, 1)
    for kind in KINDS:
        for learners in map(int, given.learners.split(",")):
            for mtbf in map(int, given.mtbf.split(",")):
                row(kind, learners, mtbf, given.seeds)


if __name__ == "__main__":
    main()
