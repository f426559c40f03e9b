"""Trains with two workers, one of which is killed now and then, and says what came of it.

    recovery.py SYSTEM SECONDS EVERY FOLDER

SYSTEM is async or sync (Troupe), torchrun or torchft. SECONDS are counted from when both
workers have made a step. EVERY so many seconds a worker is killed, the one and the other
in turn; 0: none is. FOLDER is empty; found.json in it has the outcome (outcome.py), and
run/ is the run directory of Troupe.
"""

import json
import os
import sys
import time
from pathlib import Path

import job
import outcome
from launched import Launched

PATIENCE = 90  # Seconds until both have made a step.
#: What torchft waits for its members; its examples have 5 and 10, for many machines.
TORCHFT_SECONDS = "1"
#: The event log alone says which samples of Troupe's are in the weights.
ACCOUNTS = {"torchrun": outcome.of_torchrun, "torchft": outcome.of_torchft}


def program(name):
    return str(Path(__file__).with_name(name))


def of_troupe(policy, folder):
    import troupe

    network = troupe.describe(job.Training().network, folder / "network.safetensors")
    (folder / "server.ini").write_text(
        f"[training]\nnetwork = weights:{network}\nbatch-size = {job.BATCH}\n"
        f"lr = 0.001\nepochs = 1000000\ntrain-dir = {folder}/run\ntape = true\n"
        f"[data]\ndataset = external(samples={job.SAMPLES},id=random)\n"
        f"[policy]\nname = {policy}\n"
        f"[checkpoint]\ncheckpoint-freq = {job.SNAPSHOT_STEPS}\n"
    )
    return [
        os.environ["TROUPE_TRAINER_NODE"], "launch", "--workers", str(job.WORKERS),
        "--config", str(folder / "server.ini"), "--max-restarts", "1000", "--",
        sys.executable, program("troupe_worker.py"), str(folder),
    ]  # fmt: skip


def of_torchrun(folder):
    # Else workers that were started again may find, in the agent's store, where those
    # before them listened, and cannot begin.
    os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    return [
        sys.executable, "-m", "torch.distributed.run", "--nnodes=1",
        f"--nproc-per-node={job.WORKERS}", "--max-restarts=1000", "--rdzv-backend=c10d",
        "--rdzv-endpoint=127.0.0.1:0", "--local-addr=127.0.0.1",
        program("torchrun_worker.py"), str(folder),
    ]  # fmt: skip


def command(system, folder):
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    if system == "torchrun":
        return of_torchrun(folder)
    if system == "torchft":
        return [
            sys.executable, program("torchft_keeper.py"), str(folder), TORCHFT_SECONDS,
        ]  # fmt: skip
    return of_troupe(system, folder)


def wait_for_all(log, cluster, output):
    """Until a step of each slot is in the weights. Returns the time."""
    last = time.monotonic() + PATIENCE
    while time.monotonic() < last and cluster.runs():
        log.read_on()
        if len({x.slot for x in log.steps if x.members}) == job.WORKERS:
            return time.monotonic()
        time.sleep(0.02)
    cluster.end()
    sys.exit("the workers do not train; they said:\n" + output.read_text()[-2000:])


def kill_in_turn(log, cluster, begin, seconds, every):
    """Returns the time and the slot of each kill. There is as much time before the first
    as is a third of that between two, so that the last one is survived, too."""
    kills, due = [], begin + every / 3
    while time.monotonic() < begin + seconds and cluster.runs():
        time.sleep(0.01)
        if not every or time.monotonic() < due:
            continue
        log.read_on()
        slot = len(kills) % job.WORKERS
        # A process that is not there yet is killed as soon as it is.
        if (at := cluster.kill(log.newest_pid(slot))) is not None:
            kills.append((at, slot))
            due += every
    return kills


def main(system, seconds, every, folder):
    folder = Path(folder).resolve()
    log, output = job.ReadLog(folder), folder / "output.txt"
    cluster = Launched(command(system, folder), output)
    try:
        begin = wait_for_all(log, cluster, output)
        kills = kill_in_turn(log, cluster, begin, float(seconds), float(every))
        if not cluster.runs():
            sys.exit("the launcher has ended; it said:\n" + output.read_text()[-2000:])
        end = time.monotonic()
    finally:
        cluster.end()
    log.read_on()
    found = outcome.outcome(log, kills, begin, end, ACCOUNTS.get(system))
    (folder / "found.json").write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
