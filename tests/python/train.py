"""The program of a worker, as a user would write it.

Usage: train.py PORT REPORT [--workers N] [--seconds S]
Writes a JSON line for each batch into the file REPORT: its epoch and indices.
"""

import argparse
import json
import time

import torch
import toy
import troupe
from torch.nn.functional import cross_entropy


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("port")
    parser.add_argument("report")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    model, data = toy.Net(), toy.Points()
    with (
        open(given.report, "w", buffering=1) as report,
        troupe.Worker(
            model,
            dataset_size=len(data),
            dataset_id="toy",
            port=given.port,
            connect_timeout=30,
        ) as worker,
    ):
        loader = worker.loader(data, num_workers=given.workers)
        for x, y in loader:
            time.sleep(given.seconds)
            loss = cross_entropy(model(x), y)
            loss.backward()
            lease = loader.lease
            wanted = worker.step(loss)
            line = {
                "epoch": lease.epoch,
                "lease": lease.number,
                "indices": lease.indices,
                "wanted": wanted,
            }
            report.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
