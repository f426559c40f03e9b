"""Different random numbers for workers that are seeded alike."""

from __future__ import annotations

import random
import sys

import torch


def part_seeds(rank: int) -> None:
    """Has torch, random and NumPy go on with numbers that follow from their seeds and
    the rank, so that no two workers draw alike. Rank 0 goes on unchanged."""
    if rank == 0:
        return
    torch.manual_seed((torch.initial_seed() + rank * 0x9E3779B97F4A7C15) % (1 << 63))
    random.seed(random.getrandbits(64) + rank)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed((int(numpy.random.randint(1 << 31)) + rank) % (1 << 32))
