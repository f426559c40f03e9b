"""Runs torchft's lighthouse and a replica group for each slot, and starts again what
dies, as torchft expects it of a scheduler.

    torchft_keeper.py FOLDER SECONDS

SECONDS: how long the lighthouse waits for a heartbeat and for members to join, and gloo
for an answer.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import job
from torchft.coordination import LighthouseServer

WORKER = Path(__file__).with_name("torchft_worker.py")


def main(folder, seconds):
    lighthouse = LighthouseServer(
        bind="127.0.0.1:0",
        min_replicas=1,
        join_timeout_ms=int(1000 * float(seconds)),
        quorum_tick_ms=100,
        heartbeat_timeout_ms=int(1000 * float(seconds)),
    )
    port = lighthouse.address().rsplit(":", 1)[1].strip("/")
    environment = dict(os.environ, TORCHFT_LIGHTHOUSE=f"http://127.0.0.1:{port}")

    def start(slot):
        words = [sys.executable, WORKER, folder, str(slot), seconds]
        return subprocess.Popen(words, env=environment)

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    replicas = [start(slot) for slot in range(job.WORKERS)]
    try:
        while True:
            time.sleep(0.02)
            for slot, replica in enumerate(replicas):
                if replica.poll() is not None:
                    replicas[slot] = start(slot)
    finally:
        for replica in replicas:
            replica.kill()
            replica.wait()
        lighthouse.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
