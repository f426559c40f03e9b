"""Programs fail and hang, and the run says why."""

import json
import os
import sys
import textwrap
import unittest

import cluster

PROLOGUE = """
import os, sys, time
import toy, torch, troupe
model = toy.model()
def worker(port, **more):
    return troupe.Worker(model, dataset_size=toy.SAMPLES, dataset_id="toy", port=port, **more)
"""


class Failures(cluster.Case):
    flags = ("--batch-size", 10, "--policy", "async", "--epochs", 100000)

    def run_program(self, name, port, body):
        file = self.folder / f"{name}.py"
        file.write_text(PROLOGUE + textwrap.dedent(body))
        return self.start(name, [sys.executable, file, port])

    def stop(self, server):
        server.process.terminate()
        self.require_end(server, 75)
        return self.run_directory().summary["first_failure"]

    def test_an_exception(self):
        """The server gets the stack, without a launch; and TorchElastic its file."""
        server, port = self.serve(*self.flags, "--workers", 1)
        error = self.folder / "error.json"
        os.environ["TORCHELASTIC_ERROR_FILE"] = str(error)
        self.addCleanup(os.environ.pop, "TORCHELASTIC_ERROR_FILE")
        program = self.run_program(
            "fails",
            port,
            """
            def compute(lease):
                raise ValueError("a sample is wrong")
            with worker(int(sys.argv[1])) as mine:
                for lease in mine:
                    compute(lease)
            """,
        )
        self.require_end(program, 1)
        self.assertIn("ValueError: a sample is wrong", program.output())
        server.await_line(r"left +worker 0: it failed: .*ValueError: a sample is wrong\n")
        first = self.stop(server)
        self.assertEqual((first["role"], first["rank"]), ("worker", 0))
        self.assertIn("ValueError: a sample is wrong", first["what"])
        self.assertTrue(any("in compute" in x for x in first["lines"]), first["lines"])
        said = json.loads(error.read_text())["message"]
        self.assertEqual(said["message"], "ValueError: a sample is wrong")
        self.assertIn("in compute", said["extraInfo"]["py_callstack"])
        self.assertTrue(said["extraInfo"]["timestamp"].isdigit())

    def test_an_exception_without_with(self):
        server, port = self.serve(*self.flags, "--workers", 1)
        program = self.run_program(
            "fails",
            port,
            """
            mine = worker(int(sys.argv[1]))
            leases = iter(mine)
            next(leases)
            open("no such file")
            """,
        )
        self.require_end(program, 1)
        server.await_line(r"left +worker 0: it failed: .*FileNotFoundError: ")
        first = self.stop(server)
        self.assertTrue(any("no such file" in x for x in first["lines"]), first["lines"])

    def test_a_hang(self):
        """Its stack goes to its log, and to the summary, before it loses its place."""
        flags = ("--workers", 2, "--hang-timeout", 0.5)
        server, port = self.serve(*self.flags, *flags)
        other = self.work(port, 1, "--seconds", 0.002)
        program = self.run_program(
            "hangs",
            port,
            """
            def wait_for_nobody():
                time.sleep(100)
            with worker(int(sys.argv[1])) as mine:
                for lease in mine:
                    wait_for_nobody()
            """,
        )
        who = int(server.await_line(r"left +worker (\d): hangs: no gradient for .* s\n").group(1))
        program.await_line("in wait_for_nobody")
        self.assertIsNone(program.process.poll())
        first = self.stop(server)
        self.assertEqual((first["role"], first["rank"]), ("worker", who))
        self.assertTrue(first["what"].startswith("hangs: "))
        self.assertTrue(any("in wait_for_nobody" in x for x in first["lines"]), first["lines"])
        self.require_end(other)

    def test_a_hang_in_a_round_of_local_steps(self):
        """Rounds are longer than a worker may take for a step."""
        flags = ("--workers", 2, "--hang-timeout", 1, "--local-steps", 20)
        server, port = self.serve(*self.flags, *flags)
        loop = """
            began = time.monotonic()
            with worker(int(sys.argv[1]), local_steps=20) as mine:
                for lease in mine:
                    time.sleep(0.1)
                    {more}
                    mine.step(0.0)
            """
        other = self.run_program("goes_on", port, loop.format(more="pass"))
        hangs = "time.sleep(100 if time.monotonic() - began > 5 else 0)"
        program = self.run_program("hangs", port, loop.format(more=hangs))
        server.await_line(r"left +worker \d: hangs: no local step for .* s\n")
        program.await_line("most recent call first")
        self.assertIsNone(program.process.poll())
        self.assertNotIn("most recent call first", other.output())
        self.stop(server)
        self.require_end(other)

    def test_hang_dump_off(self):
        flags = ("--workers", 2, "--hang-timeout", 0.5, "--hang-dump", "false")
        server, port = self.serve(*self.flags, *flags)
        self.work(port, 1, "--seconds", 0.002)
        program = self.run_program(
            "hangs",
            port,
            """
            with worker(int(sys.argv[1])) as mine:
                for lease in mine:
                    time.sleep(100)
            """,
        )
        server.await_line(r"left +worker \d: hangs: no gradient for .* s\n")
        self.assertEqual(self.stop(server)["lines"], [])
        self.assertNotIn("most recent call first", program.output())


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
