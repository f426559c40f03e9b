#!/usr/bin/env python3
"""Holds functions in anonymous namespaces to names of their own in a target.

CMake compiles many sources of a target as one. Two functions of one name are then
overloads of each other, and a call may silently take the other file's. Prints
file:line and the other file for every such name; exits 1 if there is one.
Usage: check_names.py BUILD_FOLDER
"""

import re
import sys
from collections import defaultdict
from pathlib import Path

INCLUDE = re.compile(r'#include "([^"]+\.cpp)"')
# A declaration at the beginning of a line: its type, unless that has a line of its
# own, and the name before "(".
FUNCTION = re.compile(
    r"(?:(?:[\w:<>,&*\[\]]+\s+)*[\w:<>,&*\[\]]*?[\s&*>])?(\w+)\(")


def sources_by_target(build):
    found = defaultdict(set)
    for batch in build.rglob("Unity/unity_*_cxx.cxx"):
        for source in INCLUDE.findall(batch.read_text()):
            if Path(source).exists():
                found[batch.parent.parent].add(Path(source))
    return found


def functions(source):
    """Line and name of each function in an anonymous namespace."""
    inside = False
    for number, line in enumerate(source.read_text().splitlines(), 1):
        if line == "namespace {":
            inside = True
        elif line == "} // namespace":
            inside = False
        elif inside and line[:1] not in ("", " ", "#", "/", "}"):
            match = FUNCTION.match(line)
            if match:
                yield number, match[1]


def main():
    breaches = 0
    for sources in sources_by_target(Path(sys.argv[1])).values():
        owner = {}
        for source in sorted(sources):
            for number, name in functions(source):
                first = owner.setdefault(name, source)
                if first != source:
                    print(f"{source}:{number}: {name} is also in {first}, and "
                          "both are compiled as one: rename one")
                    breaches += 1
    return 1 if breaches else 0


sys.exit(main())
