"""What local steps save in bytes, and what they cost in loss: trains with 4 workers, the
policy sync and several numbers H of local steps, on the same number of samples. Prints a
table and writes FOLDER/resnet20.json or FOLDER/gpt.json.

    rounds.py resnet20|gpt FOLDER [--seeds N] [--epochs E] [--only H,H,...] [--compression C]
              [--start FILE]

resnet20: `trainer_node --simulate` on the pictures of pictures.py, under the virtual
clock, so that a seed gives the same numbers again. gpt: processes on this machine, text.py
on FOLDER/text, which is made of docs/ if it is not there. Bytes are those that
summary.json counts: gradients, or differences, and weights, of all workers. --start names
the weights that runs begin with, such as best.safetensors of another run.

TROUPE_TRAINER_NODE names the program. PYTHONPATH has the folder python/.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import pictures
import text

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent

#: Flags by H: optimisers of the workers and the server. 0: each gradient is pushed, and the
#: server has AdamW. docs/experiments.md says how the numbers were found.
RESNET20 = {
    0: ["--optimizer", "adamw", "--lr", "0.003"],
    1: ["--inner-optimizer", "adamw(lr=0.003)", "--lr", "1", "--momentum", "0"],
    8: ["--inner-optimizer", "adamw(lr=0.003)"],
    32: ["--inner-optimizer", "adamw(lr=0.003)"],
    128: ["--inner-optimizer", "adamw(lr=0.003)"],
}
#: The rate of the workers' AdamW, and settings of the server.
GPT = {
    0: (0.003, "optimizer = adamw\nlr = 0.003\nlr-schedule = cosine\nclip-norm = 1\n"),
    8: (0.003, "lr = 1\nmomentum = 0\n"),
    32: (0.003, "lr = 1\nmomentum = 0\n"),
    128: (0.003, "lr = 1\nmomentum = 0\n"),
}
#: The same with --start.
STARTED = {**GPT, 32: (0.002, "lr = 0.7\nmomentum = 0.8\n")}


def program():
    return os.environ.get("TROUPE_TRAINER_NODE", str(ROOT / "build/release/bin/trainer_node"))


def train(command, folder, log, **environment):
    with open(log, "wb") as out:
        status = subprocess.run(
            command, stdout=out, stderr=out, env={**os.environ, **environment}
        ).returncode
    if status:
        sys.exit(f"status {status}; see {log}")
    return json.loads((folder / "summary.json").read_text())


def train_resnet20(folder, h, seed, epochs, compression, start):
    run = folder / f"resnet20-{h}-{compression}-{seed}"
    schedule = "--inner-lr-schedule" if h else "--lr-schedule"
    command = [
        program(), "--simulate", "--clock", "virtual", "--threads", "1",
        "--network", "resnet20", "--dataset", "folder", "--data-dir", folder / "pictures",
        "--image-size", "12", "--augment", "none", "--workers", "4", "--batch-size", "8",
        "--epochs", str(epochs), "--local-steps", str(h), schedule, "cosine", *RESNET20[h],
        "--seed", str(seed), "--eval-freq", "epoch", "--checkpoint-freq", "1000000",
        "--compression", compression, *(["--init", start] if start else []),
        "--train-dir", run, "--overwrite",
    ]  # fmt: skip
    return train(command, run, f"{run}.log")


def train_gpt(folder, h, seed, epochs, compression, start):
    run, (lr, own) = folder / f"gpt-{h}-{compression}-{seed}", (STARTED if start else GPT)[h]
    if start:
        own += f"init = {start.resolve()}\n"
    shutil.rmtree(run, ignore_errors=True)
    me = [sys.executable, str(HERE / "text.py")]
    environment = {"SEED": str(seed), "OMP_NUM_THREADS": "1"}
    subprocess.run([*me, "describe", folder], check=True, env={**os.environ, **environment})
    file = Path(f"{run}.ini")
    file.write_text(
        f"[cluster]\ncompression = {compression}\n"
        f"[training]\nnetwork = weights:{folder}/gpt.safetensors\n"
        f"batch-size = {text.BATCH}\nepochs = {epochs}\nseed = {seed}\nthreads = 1\n"
        f"train-dir = {run}\nlocal-steps = {h}\n{own}"
        f"[data]\ndataset = external(samples={text.TRAIN},id=text)\n"
        "[evaluation]\neval-freq = epoch\n[checkpoint]\ncheckpoint-freq = 1000000\n"
    )
    command = [
        program(), "launch", "--config", file, "--workers", str(text.WORKERS),
        "--evaluator-command", f"{me[0]} {me[1]} score {folder}", "--",
        *me, "work", folder, str(h), str(lr), str(epochs),
    ]  # fmt: skip
    return train(command, run, f"{run}.log", **environment)


def megabytes(summary):
    each = summary["bytes_sent_per_step"] + summary["bytes_received_per_step"]
    return sum(each) * summary["steps"] / 1e6


def mean(values, digits):
    out = f"{statistics.mean(values):.{digits}f}"
    return out + (f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else "")


def table(found):
    """Markdown: a row for each H, over the seeds."""
    rows = ["| H | test loss | MB | pushes of a worker |", "| --- | --- | --- | --- |"]
    for h in dict.fromkeys(x["h"] for x in found):
        mine = [x for x in found if x["h"] == h]
        bytes_ = statistics.mean(x["megabytes"] for x in mine)
        rows.append(
            f"| {h or 'none'} | {mean([x['loss'] for x in mine], 4)} "
            f"| {bytes_:.1f} | {mine[0]['steps']} |"
        )
    return "\n".join(rows)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("network", choices=["resnet20", "gpt"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--only", help="numbers of local steps, such as 0,32")
    parser.add_argument("--compression", default="none", help="of what workers push")
    parser.add_argument("--start", type=Path, help="the first weights, a file")
    given = parser.parse_args()
    folder = given.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if given.network == "resnet20" and not (folder / "pictures").exists():
        pictures.make(folder / "pictures")
    if given.network == "gpt":
        text.make_text(folder)
    runs, run = (RESNET20, train_resnet20) if given.network == "resnet20" else (GPT, train_gpt)
    found = []
    for seed in range(1, given.seeds + 1):
        for h in map(int, given.only.split(",")) if given.only else runs:
            summary = run(folder, h, seed, given.epochs, given.compression, given.start)
            found.append({
                "h": h, "seed": seed, "loss": summary["final_metrics"]["loss"],
                "accuracy": summary["final_accuracy"], "steps": summary["steps"],
                "samples": summary["samples_applied"], "megabytes": megabytes(summary),
                "seconds": summary["wall_seconds"],
            })  # fmt: skip
            print(json.dumps(found[-1]), flush=True)
            (folder / f"{given.network}.json").write_text(json.dumps(found, indent=1) + "\n")
    print(table(sorted(found, key=lambda x: x["h"])))


if __name__ == "__main__":
    main()
