#!/usr/bin/env python3
"""Holds the code to the directions in which it may include, and to its catalogue.

Folders stand in one order, lowest first; each includes only what comes before it. So
there is no circle between them. The interfaces of all actors stand in one file; only the
laboratory and the benchmarks have some of their own. Prints file:line and the rule for
every breach; exits 1 if there is one.
Usage: check_includes.py [ROOT]
"""

import re
import sys
from pathlib import Path

CAF = ("caf/",)
CAF_IO = ("caf/io/", "caf/openssl/")
TORCH = ("torch/", "ATen/", "c10/")
SOCKETS = ("sys/socket.h", "sys/un.h", "netinet/", "arpa/", "netdb.h", "poll.h",
           "sys/epoll.h", "openssl/")
CLOCKS = ("chrono", "ctime", "time.h", "sys/time.h", "actors/runtime/")
RANDOM = ("random",)

# Every folder of ours, lowest first: one may include itself and those above it in
# this list, so that no circle can be. A new folder needs its line.
FOLDERS = (
    "config/text", "config/values", "config/patterns", "config/schema",
    "config/run_folder", "config/sources", "config/rules", "config/runs",
    "config/report", "config/commands",
    "models/kernels",
    "messages", "messages/transport/tls", "messages/transport/wire", "messages/transport/chunked",
    "messages/transport/compression", "messages/transport/shm",
    "messages/transport/stream", "messages/transport/nccl",
    "messages/transport",
    "data/sampling", "data/transforms", "data", "data/formats",
    "models", "models/storage", "models/layout", "models/device",
    "models/device/nccl", "models/optim",
    "models/exchange", "models/engine", "models/networks",
    "actors/policies", "actors/core", "actors/runtime", "actors/control",
    "actors/log_files",
    "actors/recording", "actors/worker", "actors/user_process", "actors/segments",
    "actors/own_loop", "actors/links", "actors/shards", "actors/weights",
    "actors/events", "actors/server", "actors/evaluator", "actors/admission",
    "actors/session",
    "apps", "apps/data", "apps/checkpoint", "apps/pki",
    "apps/startup", "apps/launch/hosts", "apps/launch/ssh", "apps/launch", "apps/trainer_node", "apps/evaluation",
    "apps/lab/simulation", "apps/lab/replay",
    "apps/lab", "apps/lab/calibrate", "apps/lab/compare", "apps/cli",
    "bench", "bench/data", "bench/server", "bench/simulate", "bench/train",
    "bench/peers", "bench/cluster", "bench/parallel", "bench/transport", "bench/python",
)

# Folder -> (what nothing below it may include, why).
FORBIDDEN = {
    "config": (CAF + TORCH + SOCKETS + ("messages/", "data/", "models/"),
               "config is values and their readers only"),
    "messages": (("torch/", "data/"),
                 "messages know ATen's tensor handle, not all of LibTorch"),
    "data": (CAF + ("messages/", "models/"), "data knows no actors"),
    "models": (CAF_IO + ("caf/all.hpp", "caf/actor", "caf/event_based_actor",
                         "caf/typed_actor", "caf/stateful_actor", "data/"),
               "models know no actors"),
    "actors/core": (CAF + TORCH + SOCKETS + CLOCKS + ("data/", "models/"),
                    "decision cores are pure: time is an argument"),
    "actors/policies": (CAF + TORCH + SOCKETS + CLOCKS + RANDOM
                        + ("data/", "models/"),
                        "policies are pure: no actors, tensors, clock, chance"),
}

# Folder -> all that it may include of another: of messages, decisions know
# numbers only.
ONLY = {
    "actors/core": ("messages", ("messages/ids.hpp", "messages/lease.hpp")),
    "actors/policies": ("messages", ("messages/ids.hpp",)),
}

CATALOGUE = "messages/interfaces.hpp"
OWN_INTERFACES = ("apps/lab", "bench")
INTERFACE = re.compile(r"\bcaf::typed_actor<|::extend(_with)?<")

OURS = ("config", "messages", "data", "models", "actors", "apps", "bench", "tests")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')


def lies_in(path, folder):
    return path == folder or path.startswith(folder + "/")


def folder_of(path):
    """The folder that holds path, or None if none is ours."""
    folder = path.rpartition("/")[0]
    return folder if folder.split("/")[0] in OURS[:-1] else None


def begins(included, prefix):
    return (included == prefix
            or prefix.endswith("/") and included.startswith(prefix)
            or "/" in prefix and included.startswith(prefix + ".")
            or prefix.startswith("caf/") and included.startswith(prefix))


def breach(folder, included):
    """The rule that the include breaks, or None."""
    if folder not in FOLDERS:
        return f"{folder} is not in the list of {Path(__file__).name}"
    for ruled, (prefixes, why) in FORBIDDEN.items():
        if lies_in(folder, ruled) and any(begins(included, p) for p in prefixes):
            return f"{folder} must not include <{included}>: {why}"
    target = included.rpartition("/")[0]
    if included.split("/")[0] not in OURS or not target:
        return None
    if target == "messages/proto":
        return None
    if target not in FOLDERS or FOLDERS.index(target) > FOLDERS.index(folder):
        return (f"{folder} must not include {included}: "
                f"{target} comes after it in the list of folders")
    other, allowed = ONLY.get(folder, ("", ()))
    if other and lies_in(target, other) and included not in allowed:
        return f"{folder} may include of {other} only " + ", ".join(allowed)
    return None


def check(root):
    found = []
    for file in sorted(root.glob("*/**/*")):
        path = file.relative_to(root).as_posix()
        folder = folder_of(path)
        if folder is None or file.suffix not in (".hpp", ".cpp", ".h"):
            continue
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if (INTERFACE.search(line) and path != CATALOGUE
                    and not any(lies_in(folder, own) for own in OWN_INTERFACES)):
                found.append(f"{path}:{number}: interfaces of actors stand in "
                             f"{CATALOGUE}")
            match = INCLUDE.match(line)
            rule = match and breach(folder, match.group(1))
            if rule:
                found.append(f"{path}:{number}: {rule}")
    return found


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1
                else Path(__file__).resolve().parents[2])
    found = check(root)
    print("\n".join(found) or "every include goes in an allowed direction")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
