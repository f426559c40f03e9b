"""Writes a file of --faults in which each machine is slow in four ways, one after another,
ten seconds each, and then again: jitter, a tail, transient stragglers, and one machine that
is four times as slow. The distributions are those of docs/experiments.md, with a mean of
1 s for a machine that is not the slow one.

    stragglers.py FILE [--workers 16] [--seconds 400] [--seed 1]

It needs --compute-time "constant(0.5)". A fault says how many times as long each gradient
takes that a worker begins within half a second; since none takes less, each has a draw of
its own. After the last second all machines are quick.
"""

import argparse
import random
from pathlib import Path

SLOT, PHASE = 0.5, 10


def gamma(draw):
    return draw.gammavariate(100, 0.01)  # The mean is 1, the standard deviation 0.1.


#: Seconds of a gradient.
PHASES = [
    lambda draw, worker: 0.5 + draw.expovariate(2),
    lambda draw, worker: 0.6 * draw.paretovariate(2.5),
    lambda draw, worker: gamma(draw) * (5 if draw.random() < 0.05 else 1),
    lambda draw, worker: gamma(draw) * (4 if worker == 0 else 1),
]


def lines(workers, seconds, seed):
    draw = random.Random(seed)
    for i in range(int(seconds / SLOT)):
        phase = PHASES[int(i * SLOT / PHASE) % len(PHASES)]
        for worker in range(workers):
            factor = max(phase(draw, worker) / SLOT, 1)
            yield f"{i * SLOT} slow(worker={worker},factor={factor:.3f},for={SLOT})\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--seconds", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    given.file.write_text("".join(lines(given.workers, given.seconds, given.seed)))


if __name__ == "__main__":
    main()
