"""Processes are killed, and each sample of the user counts exactly once."""

import collections
import itertools
import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

import cluster
import toy

#: Of each test; of those with rounds only 3 if it is not given.
KILLS = int(os.environ.get("TROUPE_KILLS", "4"))
APPLIED_LEASES = os.environ["TROUPE_APPLIED_LEASES"]


def children(pid):
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(x) for x in found]


def is_agent(pid):
    return Path(f"/proc/{pid}/comm").read_text().strip() == "trainer_node"


def runs(pid):
    """Whether a process is there, and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # Perhaps gone since the open.
        return False


class Kills(cluster.Case):
    kills, covered = KILLS, 1  # Batches that a step covers.
    options = ()  # Of the workers.
    other = 0.02  # A batch's seconds of who lives: the less there is to replay.
    flags = ("--batch-size", 10, "--policy", "async", "--workers", 1,
             "--checkpoint-freq", 20, "--epochs", 100000, *cluster.RECORDED)

    def setUp(self):
        super().setUp()
        self.numbers = itertools.count()

    def add(self, port, *flags, seconds=0.002):
        """A worker that has sent a gradient."""
        number = next(self.numbers)
        process = self.work(port, number, "--seconds", seconds, *self.options, *flags)
        self.await_batches(process, number, 1)
        return process, number

    def await_batches(self, process, number, count):
        report = self.folder / f"report-{number}.jsonl"
        until = time.monotonic() + cluster.PATIENCE
        while not report.exists() or report.read_text().count("\n") < count:
            if process.process.poll() is not None or time.monotonic() > until:
                raise AssertionError(process.output())
            time.sleep(0.005)

    def applied(self, *logs):
        found = subprocess.run(
            [APPLIED_LEASES, *map(str, logs)], capture_output=True, text=True, check=False
        )
        self.assertEqual(found.returncode, 0, found.stderr)
        return [tuple(map(int, line.split())) for line in found.stdout.splitlines()]

    def stop(self, server, *workers):
        server.process.terminate()
        self.require_end(server, 75)
        for process in workers:
            self.require_end(process)

    def stop_later(self, server, worker, number):
        """When it has made five epochs."""
        self.await_batches(worker, number, 5 * toy.SAMPLES // 10)
        self.stop(server, worker)

    def check_samples(self, *logs, unreported):
        """Every complete epoch has each of the user's samples once, and they are
        those that processes say they have computed.

        unreported: So many may have died between a gradient and its report.
        """
        reported = {(batch["epoch"], tuple(batch["indices"])) for batch in self.batches()}
        seen = collections.defaultdict(collections.Counter)
        for epoch, _, *indices in self.applied(*logs):
            seen[epoch].update(indices)
            unreported -= (epoch, tuple(indices)) not in reported
        self.check_replayed(accumulate=self.covered if self.covered > 1 else None)
        self.assertGreaterEqual(unreported, 0)
        self.assertGreater(len(seen), 3)
        for epoch, counts in seen.items():
            self.assertEqual(max(counts.values()), 1, f"epoch {epoch}")
        over = sorted(seen)[:-2]
        # Where steps do not wait for everybody, a worker may have had a lease for long.
        for epoch, _, *indices in self.applied("--open", logs[-1]):
            seen[epoch].update(indices)
        for epoch in over:
            self.assertEqual(len(seen[epoch]), toy.SAMPLES, f"epoch {epoch}")

    def test_python_processes(self):
        server, port = self.serve(*self.flags)
        other = self.add(port, seconds=self.other)
        for kill in range(self.kills):
            victim, number = self.add(port, "--workers", str(kill % 2))
            self.await_batches(victim, number, 5)
            helpers = children(victim.process.pid)
            victim.process.kill()
            victim.process.wait()
            until = time.monotonic() + cluster.PATIENCE
            while any(runs(pid) for pid in helpers):
                self.assertLess(time.monotonic(), until, "its processes are left")
                time.sleep(0.01)
        self.stop_later(server, *other)
        self.check_samples(self.folder / "run" / "tape-1.pb", unreported=self.kills * self.covered)

    def test_agents(self):
        server, port = self.serve(*self.flags)
        other = self.add(port, seconds=self.other)
        for _ in range(self.kills):
            victim, number = self.add(port)
            self.await_batches(victim, number, 5)
            (agent,) = [x for x in children(victim.process.pid) if is_agent(x)]
            os.kill(agent, 9)
            self.require_end(victim, 1)
            self.assertIn("troupe.errors.Error: trainer_node has ended", victim.output())
        self.stop_later(server, *other)
        self.check_samples(self.folder / "run" / "tape-1.pb", unreported=self.kills * self.covered)

    def go_on(self, workers):
        """Waits until each has sent more gradients."""
        reached = [
            (self.folder / f"report-{number}.jsonl").read_text().count("\n")
            for _, number in workers
        ]
        for (process, number), before in zip(workers, reached):
            self.await_batches(process, number, before + 15)

    def test_servers(self):
        server, port = self.serve(*self.flags)
        workers = [self.add(port) for _ in range(2)]
        for kill in range(self.kills):
            self.go_on(workers)
            if kill % 2 == 0:  # The others are killed wherever they are.
                server.await_line(r"checkpoint +step-")
            server.end()
            change = [] if kill else ["--change", "training.lr=0.02"]
            server, _ = self.serve(
                *self.flags, "--resume", "auto", *change, port=port, name=f"server-{kill + 2}"
            )
        self.go_on(workers)
        self.stop(server, *(process for process, _ in workers))
        # Each that had a checkpoint of its own is gone on with from a later step.
        rows = self.run_directory().metrics()
        resumed = {row["step"] for row in rows if row["kind"] == "resumed"}
        self.assertGreater(len(resumed), self.kills // 3)
        (changed,) = self.run_directory().summary["changes"]
        self.assertEqual((changed["key"], changed["after"]), ("training.lr", "0.02"))
        lives = range(1, self.kills + 2)
        self.check_samples(
            *(self.folder / "run" / f"tape-{life}.pb" for life in lives),
            unreported=len(workers) * self.covered,
        )


class Hangs(Kills):
    test_python_processes = test_agents = test_servers = None

    def test_a_process_that_hangs(self):
        """Its program answers, but it is stopped: the others go on without it, and it
        comes back as a new life."""
        flags = {"--policy": "sync", "--workers": 2, "--hang-timeout": 1}
        server, port = self.serve(*self.flags, *(x for pair in flags.items() for x in pair))
        workers = [(self.work(port, n, "--seconds", 0.002), n) for n in range(2)]
        for process, number in workers:
            self.await_batches(process, number, 5)
        hanging = workers[1][0].process.pid
        os.kill(hanging, signal.SIGSTOP)
        self.addCleanup(lambda: runs(hanging) and os.kill(hanging, signal.SIGCONT))
        who = server.await_line(r"left +worker (\d): hangs: no gradient for [\d.]+ s\n").group(1)
        self.go_on(workers[:1])
        os.kill(hanging, signal.SIGCONT)
        server.await_line(rf"joined +worker {who} \(life 2\b")
        for _ in range(6):  # Some epochs.
            self.go_on(workers)
        self.stop(server, *(process for process, _ in workers))
        self.check_samples(self.folder / "run" / "tape-1.pb", unreported=1)


class KillsOfRounds(Kills):
    """The same with steps of several batches, some of which are cancelled, and with
    loaders that are ahead."""

    kills, covered = int(os.environ.get("TROUPE_KILLS", "3")), 3
    options = ("--accumulate", 3, "--workers", 1)
    flags = ("--batch-size", 10, "--policy", "backup(backup-workers=1,late=cancel)",
             "--workers", 2, "--join-timeout", 1, "--checkpoint-freq", 5,
             "--epochs", 100000,
             *cluster.RECORDED)


class KillsOfLocalSteps(KillsOfRounds):
    """Rounds of steps that the programs make themselves."""

    covered = 6
    options = ("--local-steps", 6, "--overlap-steps", 2, "--workers", 1)
    flags = (
        *KillsOfRounds.flags, "--local-steps", 6, "--fragments", 2, "--overlap-steps", 2
    )

    def check_replayed(self, **_):
        """What their optimisers had kept is in no event log."""


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
