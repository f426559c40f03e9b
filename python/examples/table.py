"""Regression on a table: predicts the last column of a CSV file from all others.

    python table.py serve TABLE.csv --workers 2 &
    python table.py TABLE.csv & python table.py TABLE.csv &
"""

import argparse
import csv
import sys

import torch
import troupe
from torch import nn


def read(file):
    """The columns as numbers of mean 0 and deviation 1."""
    with open(file, newline="") as lines:
        rows = csv.reader(lines)
        next(rows)  # The names of the columns.
        table = torch.tensor([[float(x) for x in row] for row in rows])
    table = (table - table.mean(0)) / table.std(0)
    return torch.utils.data.TensorDataset(table[:, :-1], table[:, -1:])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", nargs="*", metavar="[serve] TABLE.csv")
    for name, default in [("workers", 2), ("epochs", 50), ("batch", 32), ("port", 4242)]:
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    data = read(given.what[-1])
    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Linear(data.tensors[0].shape[1], 64), nn.ReLU(),
        nn.Linear(64, 64), nn.ReLU(),
        nn.Linear(64, 1),
    )
    if given.what[0] == "serve":
        sys.exit(troupe.serve(
            model, dataset_size=len(data), dataset_id="table", port=given.port,
            workers=given.workers, epochs=given.epochs, batch_size=given.batch,
            policy="async", optimizer="adam", lr=0.002,
        ))
    with troupe.Worker(
        model, dataset_size=len(data), dataset_id="table", port=given.port
    ) as worker:
        for x, y in worker.loader(data):
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            worker.step(loss)


if __name__ == "__main__":
    main()
