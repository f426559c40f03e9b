#!/usr/bin/env python3
"""Holds the documentation to the program.

docs/configuration.md must have a row for every key and flag of trainer_node's
help, with the same default, and none besides; the tables of docs/networks.md and
docs/datasets.md must be what trainer_node --list-networks and --list-datasets print;
and every relative link in the Markdown files must lead to a file, every `#anchor` to a
heading, and every path of a source that they name to one that is there.
Prints one line for every breach; exits 1 if there is one.
Usage: check_docs.py ROOT TRAINER_NODE
"""

import re
import subprocess
import sys
from pathlib import Path

REFERENCE = "docs/configuration.md"
FLAGS = "Flags that are not keys"
SKIPPED = ("build", "runs", ".git", ".cache", ".venv")


def keys_of_help(text):
    """(section, key) -> default or "" for each flag; start flags are in FLAGS."""
    found, section, current = {}, FLAGS, None
    for line in text.splitlines():
        head = re.match(r"\[([a-z-]+)\]$", line)
        flag = re.match(r"  --([a-z0-9-]+)(.*)", line)
        if head:
            section, current = head.group(1), None
        elif flag:
            name = "name" if flag.group(1) == "policy" else flag.group(1)
            current = (section, name)
            found[current] = flag.group(2)
        elif current and line.startswith(" " * 10):
            found[current] += " " + line.strip()
        else:
            current = None
    return {key: default_in(text) for key, text in found.items()}


def default_in(help_text):
    match = (re.search(r"\(default: ([^)]*)\)", help_text)
             or re.search(r"none of the three is given: (\S+)", help_text))
    return match.group(1) if match else ""


def keys_of_reference(text):
    """The same of the tables in the reference."""
    found, section = {}, None
    for line in text.splitlines():
        head = re.match(r"## \[?([^\]]+)\]?$", line)
        row = re.match(r"\| `(?:--)?([a-z0-9-]+)` \| (?:`([^`]*)`|-)?", line)
        if head:
            section = head.group(1)
        elif row and section:
            found[(section, row.group(1))] = row.group(2) or ""
    return found


def name_of(key):
    return f"--{key[1]}" if key[0] == FLAGS else f"[{key[0]}] {key[1]}"


def check_reference(help_text, reference):
    program, written = keys_of_help(help_text), keys_of_reference(reference)
    if len(program) < 10:
        yield "the program's help could not be read"
    for key in program.keys() - written.keys():
        yield f"{REFERENCE}: no row for {name_of(key)}"
    for key in written.keys() - program.keys():
        yield f"{REFERENCE}: {name_of(key)} is not in the program's help"
    for key in program.keys() & written.keys():
        # The help does not spell out that a switch is off.
        theirs, ours = program[key] or "false", written[key] or "false"
        if key[0] != FLAGS and theirs != ours:
            yield (f"{REFERENCE}: {name_of(key)} has default {ours}, the "
                   f"program says {theirs}")


def cells_of_list(text):
    """The columns of --list-networks, which hold no blanks."""
    return [line.split() for line in text.splitlines()]


def cells_of_table(page):
    """The same of the page's table, before its second heading."""
    part = page.partition("\n")[2].partition("\n#")[0]
    rows = [[cell.strip(" `") for cell in line.strip("| ").split("|")]
            for line in part.splitlines() if line.startswith("|")]
    return [row for row in rows if not row[0].startswith("--")]


def cells_of_datasets(text):
    """The columns of --list-datasets, which two blanks divide."""
    return [re.split(r"\s{2,}", line) for line in text.splitlines()]


def check_datasets(listed, page):
    program = cells_of_datasets(listed)
    written = cells_of_table(page)
    for row in program:
        if row not in written:
            yield f"docs/datasets.md: no row: {' | '.join(row)}"
    for row in written:
        if row not in program:
            yield f"docs/datasets.md: not in --list-datasets: {' | '.join(row)}"


def check_networks(listed, page):
    program, written = cells_of_list(listed), cells_of_table(page)
    for row in program:
        if row not in written:
            yield f"docs/networks.md: no row: {' | '.join(row)}"
    for row in written:
        if row not in program:
            yield f"docs/networks.md: not in --list-networks: {' | '.join(row)}"


def anchors_of(text):
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-")
            for h in headings}


#: They tell what was there before.
OF_EARLIER_FOLDERS = ("0020-folders-and-words.md", "0031-rooms.md")

SOURCE = re.compile(r"`((?:actors|apps|config|messages|models|data|tests|bench|cmake)/[\w/.-]+)`")


def check_sources(root):
    for file in sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md")]):
        if file.name in OF_EARLIER_FOLDERS or file.name == "CHANGELOG.md":
            continue
        for name in SOURCE.findall(file.read_text()):
            path = root / name
            there = path.exists() or any(path.parent.glob(path.name + ".*"))
            if not there and not re.search(r"KIND|NAME|\.pb\.", name):
                yield f"{file.relative_to(root)}: no such source: {name}"


def check_links(root):
    for file in sorted(root.rglob("*.md")):
        path = file.relative_to(root)
        if path.parts[0] in SKIPPED:
            continue
        for target in re.findall(r"\]\(([^)\s]+)\)", file.read_text()):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            to = file.parent / name if name else file
            if not to.exists():
                yield f"{path}: no such file: {target}"
            elif anchor and anchor not in anchors_of(to.read_text()):
                yield f"{path}: no such heading: {target}"


def main():
    root, program = Path(sys.argv[1]), sys.argv[2]
    def output_of(flag):
        return subprocess.run([program, flag], check=True, timeout=60,
                              capture_output=True, text=True).stdout

    help_text = output_of("--help")
    found = [*check_reference(help_text, (root / REFERENCE).read_text()),
             *check_networks(output_of("--list-networks"),
                             (root / "docs/networks.md").read_text()),
             *check_datasets(output_of("--list-datasets"),
                             (root / "docs/datasets.md").read_text()),
             *check_links(root), *check_sources(root)]
    print("\n".join(sorted(found)) or "the documentation fits the program")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
