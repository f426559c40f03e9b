"""The programs that Python starts: they get its signals, and end with it."""

import os
import signal
import sys
import time
import unittest
from pathlib import Path

import cluster
import toy
import troupe
from fault_test import children, runs

SERVE = """
import signal, sys, troupe
sys.path.insert(0, sys.argv[1])
import toy
seen = []
if sys.argv[3] == "handler":
    signal.signal(signal.SIGTERM, lambda *_: seen.append(1))
status = troupe.serve(toy.model(), dataset_size=toy.SAMPLES, dataset_id="toy", workers=1,
                      port=0, epochs=100000, batch_size=10, train_dir=sys.argv[2])
print("status", status, "seen", len(seen), flush=True)
"""


class Server(cluster.Case):
    def serve_from_python(self, how):
        process = self.start(
            "serve",
            [sys.executable, "-c", SERVE, cluster.HERE, self.folder / "run", how],
        )
        port = process.await_line(r"listening +on 127\.0\.0\.1:(\d+)").group(1)
        worker = self.work(port, 0)
        process.await_line("joined +worker 0")
        return process, worker

    def check_signal(self, number, how="plain", seen=0):
        process, worker = self.serve_from_python(how)
        process.process.send_signal(number)
        self.require_end(process)
        self.assertIn(f"status 75 seen {seen}\n", process.output())
        self.assertEqual(self.run_directory().summary["status"], "stopped")
        self.require_end(worker)

    def test_gets_a_request_to_stop(self):
        self.check_signal(signal.SIGTERM)

    def test_gets_an_interrupt_that_python_alone_got(self):
        self.check_signal(signal.SIGINT)

    def test_stops_when_the_terminal_is_closed(self):
        self.check_signal(signal.SIGHUP)

    def test_gets_it_beside_a_handler_of_the_users(self):
        self.check_signal(signal.SIGTERM, "handler", 1)

    def test_ends_with_a_python_that_was_killed(self):
        process, worker = self.serve_from_python("plain")
        (server,) = children(process.process.pid)
        process.process.kill()
        until = time.monotonic() + cluster.PATIENCE
        while runs(server):
            self.assertLess(time.monotonic(), until)
            time.sleep(0.01)
        self.assertEqual(self.run_directory().summary["status"], "stopped")
        self.require_end(worker)

    def test_that_refuses_its_settings_is_an_error(self):
        os.chdir(self.folder)
        with self.assertRaisesRegex(troupe.Error, "unknown key 'epoch'|--epoch"):
            troupe.serve(toy.model(), dataset_size=toy.SAMPLES, epoch=3)


class Agent(cluster.Case):
    """A worker's program ends with the process that it computes for."""

    def check(self, code, line):
        (self.folder / "tmp").mkdir()
        process = self.start(
            "worker",
            ["env", f"TMPDIR={self.folder / 'tmp'}", sys.executable, "-c",
             f"import sys; sys.path.insert(0, {str(cluster.HERE)!r})\n"
             "import toy, troupe, troupe.node\n" + code],
        )
        until = time.monotonic() + cluster.PATIENCE
        while not (found := children(process.process.pid)):
            self.assertLess(time.monotonic(), until, process.output())
            self.assertIsNone(process.process.poll(), process.output())
            time.sleep(0.01)
        (agent,) = found
        if line:
            # It says so into a file of its own.
            log = next(p for p in self.logs(agent))
            while line not in log.read_text():
                self.assertLess(time.monotonic(), until, log.read_text())
                time.sleep(0.01)
            self.assertEqual(list((self.folder / "tmp").iterdir()), [])
        process.process.kill()
        process.process.wait()
        until = time.monotonic() + 10
        while runs(agent):
            self.assertLess(time.monotonic(), until, "it is left")
            time.sleep(0.01)

    def logs(self, pid):
        yield Path(f"/proc/{pid}/fd/1")

    def test_that_does_not_connect(self):
        self.check(
            "troupe.node.Node._connect = lambda *_: __import__('time').sleep(100)\n"
            "troupe.Worker(toy.Net(), dataset_size=600)\n",
            "",
        )

    def test_while_there_is_no_server(self):
        self.check(
            "troupe.Worker(toy.Net(), dataset_size=600, port=9, connect_timeout=100)\n",
            "waiting      for the parameter server",
        )


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
