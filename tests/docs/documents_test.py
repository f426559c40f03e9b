"""Runs the commands of a document as they stand in it, at a small size.

Usage: documents_test.py DOCUMENT [-v]
DOCUMENT: One of blocks.DOCUMENTS, such as README.md.
TROUPE_TRAINER_NODE names the program.

Every block of shell commands and Python runs in a folder of its own that looks like the
project's after its build (places.py), and has to end with status 0; a block of settings
has to pass --check. Only names of folders, hosts and ports are replaced. What cannot run
here is marked with the reason (blocks.MARKS), and listed as skipped.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import blocks
import places
from ports import free_port

#: Seconds for all processes of a block; far more than they take.
PATIENCE = 100

#: What a Python block can use.
BEGINNING = "from readers_program import *\n"


class Process:
    def __init__(self, command, folder, variables, number):
        self.command = command
        self.log = folder / f"process-{number}.log"
        with open(self.log, "wb") as out:
            self.process = subprocess.Popen(
                ["bash", "-euo", "pipefail", "-c", command],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                cwd=folder, env=variables, start_new_session=True,
            )

    def end(self):
        """Asks first: torchrun's processes are in groups of their own."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self.process.poll() is None:
                os.killpg(self.process.pid, number)
                try:
                    self.process.wait(10)
                except subprocess.TimeoutExpired:
                    continue

    def report(self):
        status = self.process.poll()
        how = "does not end" if status is None else f"status {status}"
        return f"$ {self.command}\n{self.log.read_text(errors='replace')}({how})\n"


class Document(unittest.TestCase):
    """A test for each block, or for blocks that run at the same time."""

    found = ()
    left = {}

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="troupe-docs-")
        cls.addClassCleanup(folder.cleanup)
        cls.base = Path(folder.name)
        places.programs(cls.base / "bin")
        places.make_data(cls.base / "data", "".join(x.text for x in cls.found))
        (cls.base / "shared").mkdir()

    def place_of(self, group):
        """The folder of blocks that run together, and the port of their server."""
        for block in group:
            if after := block.marks.get("after"):
                return self.left[after]
        folder = self.base / f"line-{group[0].line}"
        places.clone(folder)
        found = (folder, free_port())
        for block in group:
            if name := block.marks.get("with"):
                self.left[name] = found
        return found

    def commands_of(self, block, folder):
        """The commands of a block, each of which is started at once."""
        times = int(block.marks.get("times", 1))
        if block.language == "ini":
            file = folder / f"line-{block.line}.ini"
            file.write_text(places.here(block.text, self.base, self.port))
            return [f"trainer_node --role ps --config {file} --check"]
        if block.language == "python":
            name = block.marks.get("file", f"line_{block.line}.py")
            (folder / name).write_text(BEGINNING + block.text)
            return [f"python {name}"] * times
        text = block.commands() if "terminals" in block.marks else [block.text]
        if block.language == "console" and "terminals" not in block.marks:
            text = ["\n".join(block.commands())]
        return [places.here(x, self.base, self.port) for x in text] * times

    def run_together(self, group):
        folder, self.port = self.place_of(group)
        text = "".join(x.text for x in group)
        variables = places.environment(self.base, self.port, text)
        for block in group:
            variables |= block.environment()
        for named, prepare in places.PREPARED.items():
            if named in text and not (folder / named).exists():
                prepare(folder, variables)
        for block in self.found:  # Of the program that the text is about.
            if "file" in block.marks:
                (folder / block.marks["file"]).write_text(BEGINNING + block.text)
        commands = []
        for block in group:
            commands += self.commands_of(block, folder)
            if beside := block.marks.get("beside"):
                commands.append(places.here(beside, self.base, self.port))
        # Those that wait for others are named after them: they are started first.
        started = []
        for number, command in enumerate(reversed(commands)):
            started.append(Process(command, folder, variables, number))
            self.addCleanup(started[-1].end)
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            statuses = {x.process.poll() for x in started}
            if None not in statuses or statuses - {None, 0}:
                break
            time.sleep(0.02)
        if any(x.process.poll() != 0 for x in started):
            self.fail("\n".join(x.report() for x in started))


def groups_of(found):
    """Blocks that run at the same time are one group, at the place of the first."""
    groups, by_name = [], {}
    for block in found:
        name = block.marks.get("with")
        if name in by_name:
            by_name[name].append(block)
            continue
        groups.append([block])
        if name:
            by_name[name] = groups[-1]
    return groups


def earlier_blocks(document):
    """Where each block of the documents before this one is, by what it says."""
    out = {}
    for name in blocks.DOCUMENTS[: blocks.DOCUMENTS.index(document)]:
        for block in blocks.read(places.ROOT, name):
            out.setdefault((block.language, block.text), block.place)
    return out


def test_of(group, earlier):
    def test(self):
        for block in group:
            if block.language == "python":
                compile(block.text, block.place, "exec")
        if reason := group[0].marks.get("not-run"):
            self.skipTest(reason)
        first = group[0]
        if len(group) == 1 and (first.language, first.text) in earlier:
            self.skipTest(f"is run for {earlier[first.language, first.text]}")
        self.run_together(group)

    test.__doc__ = f"{group[0].place}: {group[0].text.strip().splitlines()[0]}"
    return test


def main():
    if len(sys.argv) < 2 or sys.argv[1] not in blocks.DOCUMENTS:
        sys.exit(f"documents_test.py: which of {', '.join(blocks.DOCUMENTS)}?")
    document = sys.argv.pop(1)
    try:
        found = blocks.read(places.ROOT, document)
        earlier = earlier_blocks(document)
    except blocks.Unreadable as why:
        sys.exit(str(why))
    Document.found = [x for x in found if x.language in blocks.RUN]
    for group in groups_of(Document.found):
        setattr(Document, f"test_line_{group[0].line:04}", test_of(group, earlier))
    unittest.main()


if __name__ == "__main__":
    main()
