#!/usr/bin/env python3
"""Holds the code to the directions in which it may include.

A target links only leftward: config <- messages <- {data, models} <- actors
<- apps <- bench. Prints file:line and the rule for every breach; exits 1 if there is one.
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
CLOCKS = ("chrono", "ctime", "time.h", "sys/time.h", "actors/clock/")
RANDOM = ("random",)

# Folder -> (what it must not include, why). The longest folder that holds a
# file rules it. Every other folder of ours is forbidden unless named in USES.
FORBIDDEN = {
    "config": (CAF + TORCH + SOCKETS,
               "config is values and their readers only"),
    "messages": (("torch/",),
                 "messages know ATen's tensor handle, not all of LibTorch"),
    "messages/transport": ((), ""),
    "data": (CAF, "data knows no actors"),
    "models": (CAF_IO + ("caf/all.hpp", "caf/actor", "caf/event_based_actor",
                         "caf/typed_actor", "caf/stateful_actor"),
               "models know no actors"),
    "actors": ((), ""),
    "actors/cores": (CAF + TORCH + SOCKETS + CLOCKS,
                     "decision cores are pure: time is an argument"),
    "actors/policies": (CAF + TORCH + SOCKETS + CLOCKS + RANDOM,
                        "policies are pure: no actors, tensors, clock, chance"),
    "apps": ((), ""),
    "bench": ((), ""),
}

# Folder -> the folders of ours that it may include.
USES = {
    "config": ("config",),
    "messages": ("config", "messages", "models/kernels/kernels.hpp"),
    "messages/transport": ("config", "messages"),
    "data": ("config", "data"),
    "models": ("config", "messages", "models"),
    "actors": ("config", "messages", "data", "models", "actors"),
    "actors/cores": ("config", "messages/ids.hpp", "messages/lease.hpp",
                     "actors/cores", "actors/policies"),
    "actors/policies": ("config", "messages/ids.hpp", "actors/policies",
                        "actors/cores/planted.hpp"),
    "apps": ("config", "messages", "data", "models", "actors", "apps"),
    "bench": ("config", "messages", "data", "models", "actors", "apps", "bench"),
}

OURS = ("config", "messages", "data", "models", "actors", "apps", "tests", "bench")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')


def lies_in(path, folder):
    return path == folder or path.startswith(folder + "/")


def folder_of(path):
    """The ruled folder that holds path, the innermost one, or None."""
    return max((f for f in FORBIDDEN if lies_in(path, f)), key=len, default=None)


def breach(folder, included):
    """The rule that the include breaks, or None."""
    prefixes, why = FORBIDDEN[folder]
    if any(included == p or p.endswith("/") and included.startswith(p)
           or "/" in p and included.startswith(p + ".")
           or p.startswith("caf/") and included.startswith(p)
           for p in prefixes):
        return f"{folder} must not include <{included}>: {why}"
    if included.split("/")[0] in OURS and "/" in included:
        if not any(lies_in(included, use) for use in USES[folder]):
            return (f"{folder} must not include {included}: it may use "
                    + ", ".join(USES[folder]))
    return None


def check(root):
    found = []
    for file in sorted(root.glob("*/**/*")):
        path = file.relative_to(root).as_posix()
        folder = folder_of(path)
        if folder is None or file.suffix not in (".hpp", ".cpp", ".h"):
            continue
        for number, line in enumerate(file.read_text().splitlines(), 1):
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
