#!/usr/bin/env python3
"""Holds the map of folders in CONTRIBUTING.md to the folders that there are.

Every folder of sources (FOLDERS in check_includes.py, but for those of bench) has a line
in the map, and every line names a folder or a file. Prints what is missing; exits 1 then.
Usage: check_map.py [ROOT]
"""

import sys
from pathlib import Path

from check_includes import FOLDERS

INDENT = 2


def folders_of(text):
    """The paths of a map: two blanks more for each level."""
    block = text.split("## Where things are\n", 1)[1].split("```\n")[1]
    above, found = [], []
    for line in block.splitlines():
        name = line.split()[0] if line.strip() else ""
        depth = (len(line) - len(line.lstrip())) // INDENT
        if depth > len(above) or not name:
            continue  # The second line of a text.
        above = [*above[:depth], name.rstrip("/")]
        found.append("/".join(above))
    return found


def check(root):
    named = folders_of((root / "CONTRIBUTING.md").read_text())
    found = [f"the map in CONTRIBUTING.md lacks {folder}" for folder in FOLDERS
             if folder not in named and not folder.startswith("bench/")]
    found += [f"the map in CONTRIBUTING.md names {name}, which is not there"
              for name in named if not (root / name).exists()]
    return found


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1
                else Path(__file__).resolve().parents[2])
    found = check(root)
    print("\n".join(found) or "the map has every folder")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
