"""Rates of copies between the host and a device.

    copies.py DEVICE BYTES...

Prints a list of {"way", "bytes", "gigabytes_per_second"}: from pageable memory to the
device, from pinned memory to it, from it to pinned memory, and from device to device,
of which each byte counts once. Each is the median of five times as many copies as make
some milliseconds. DEVICE cpu: copies of the host alone, to try the program.
"""

import json
import statistics
import sys
import time

import torch

REPEATS = 5
LEAST_SECONDS = 0.005


def finish(device):
    if device != "cpu":
        torch.cuda.synchronize()


def seconds_of(device, copies, to, source):
    finish(device)
    begin = time.perf_counter()
    for _ in range(copies):
        to.copy_(source, non_blocking=True)
    finish(device)
    return time.perf_counter() - begin


def rate(device, to, source):
    copies = 1
    while seconds_of(device, copies, to, source) < LEAST_SECONDS and copies < 1 << 16:
        copies *= 2
    found = statistics.median(seconds_of(device, copies, to, source) for _ in range(REPEATS))
    return copies * to.nbytes / found / 1e9


def host_memory(count, pinned):
    return torch.ones(count, dtype=torch.uint8, pin_memory=pinned)


def main():
    device, *sizes = sys.argv[1:]
    pinning = device != "cpu"
    found = []
    for size in map(int, sizes):
        on_device = torch.zeros(size, dtype=torch.uint8, device=device)
        pageable, pinned = host_memory(size, False), host_memory(size, pinning)
        ways = {
            "pageable to device": (on_device, pageable),
            "pinned to device": (on_device, pinned),
            "device to pinned": (pinned, on_device),
            "device to device": (torch.empty_like(on_device), on_device),
        }
        for way, (to, source) in ways.items():
            gigabytes = rate(device, to, source)
            found.append({"way": way, "bytes": size, "gigabytes_per_second": gigabytes})
    print(json.dumps(found))


if __name__ == "__main__":
    main()
