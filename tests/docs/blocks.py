"""Reads the fenced blocks of a Markdown file.

What follows the language on the line that opens a block is not shown to readers, and
says how a test runs the block (MARKS). A block is run as it stands in its file.
"""

import re
import shlex
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

#: The documents whose commands are run, in the order in which their files are.
DOCUMENTS = (
    "README.md",
    "docs/failures.md",
    "docs/migrating.md",
    "docs/parallel.md",
    "docs/cluster.md",
    "docs/python.md",
    "docs/datasets.md",
    "docs/devices.md",
    "docs/security.md",
    "docs/deploy/kubernetes.md",
)

SHELL = ("sh", "bash", "console")
RUN = (*SHELL, "python", "ini")

#: What is shown and cannot be run, such as a figure or what a program prints.
SHOWN = ("text", "diff")

#: Compiled (snippets.py).
COMPILED = ("cpp",)

MARKS = {
    "not-run": "why it cannot be run here",
    "terminals": "its commands run at the same time, each in a terminal of its own",
    "with": "the name of blocks that run at the same time, in one folder",
    "after": "the name of the blocks in whose folder it runs, when they have ended",
    "file": "the file that a Python block is in",
    "times": "how often it is started",
    "beside": "a command that the text wants to run at the same time",
    "small": "variables of the environment that make it small",
}
SWITCHES = ("terminals",)


class Unreadable(Exception):
    """A block that is not as it should be: the file, the line, what and why."""


@dataclass
class Block:
    document: str
    line: int
    language: str
    text: str
    marks: dict = field(default_factory=dict)

    @property
    def place(self):
        return f"{self.document}:{self.line}"

    def commands(self):
        """Those of a shell block: one a line, or several lines that end with `\\`."""
        text = self.text
        if self.language == "console":  # With what they print.
            lines = [x[2:] for x in text.splitlines() if x.startswith("$ ")]
            text = "\n".join(lines)
        joined = re.sub(r"\\\n\s*", " ", text)
        return [x.strip() for x in joined.splitlines() if x.strip() and x[0] != "#"]

    def environment(self):
        return dict(x.split("=", 1) for x in self.marks.get("small", "").split())


def read_marks(place, text):
    marks = {}
    try:
        words = shlex.split(text)
    except ValueError as why:
        raise Unreadable(f"{place}: '{text}': {why}") from None
    for word in words:
        name, equals, value = word.partition("=")
        if name not in MARKS:
            raise Unreadable(
                f"{place}: unknown mark '{name}' (known: {', '.join(MARKS)})"
            )
        if name in marks:
            raise Unreadable(f"{place}: the mark '{name}' stands there twice")
        if name in SWITCHES and equals:
            raise Unreadable(f"{place}: the mark '{name}' takes no value")
        if name not in SWITCHES and not value.strip():
            raise Unreadable(f"{place}: '{name}' needs a value: {MARKS[name]}")
        marks[name] = value
    return marks


def check(block):
    marks, language = block.marks, block.language
    known = (*RUN, *SHOWN, *COMPILED)
    if language not in known:
        raise Unreadable(
            f"{block.place}: a block needs its language behind the three backticks "
            f"({', '.join(known)}), not '{language}'"
        )
    if marks and language not in RUN:
        raise Unreadable(f"{block.place}: a block of {language} is not run: no marks")
    if "not-run" in marks and len(marks) > 1 and set(marks) != {"not-run", "file"}:
        raise Unreadable(f"{block.place}: 'not-run' and what says how to run it")
    if "terminals" in marks and language not in SHELL:
        raise Unreadable(f"{block.place}: 'terminals' is for commands of a shell")
    if "file" in marks and language != "python":
        raise Unreadable(f"{block.place}: 'file' is for Python")
    if not marks.get("times", "1").isdigit():
        raise Unreadable(f"{block.place}: 'times' is a number")
    for word in marks.get("small", "").split():
        if "=" not in word:
            raise Unreadable(f"{block.place}: 'small' takes VARIABLE=VALUE: '{word}'")


def find(document, text, strict=True):
    """The blocks of a document. Raises Unreadable.

    strict: False: whatever the languages, without marks.
    """
    blocks, opened, lines = [], None, []
    for number, line in enumerate(text.splitlines(), 1):
        fence = re.match(r"\s*(```+|~~~+)\s*(.*?)\s*$", line)
        if opened is None:
            if fence:
                language, _, marks = fence.group(2).partition(" ")
                place = f"{document}:{number}"
                marks = read_marks(place, marks) if strict else {}
                opened = Block(document, number, language, "", marks)
                closing, lines = fence.group(1), []
        elif fence and fence.group(1).startswith(closing) and not fence.group(2):
            opened.text = textwrap.dedent("\n".join(lines)) + "\n"
            if strict:
                check(opened)
            blocks.append(opened)
            opened = None
        else:
            lines.append(line)
    if opened is not None:
        raise Unreadable(f"{opened.place}: the block is not closed")
    return blocks


def parse(document, text):
    """The blocks of a document whose blocks are run. Raises Unreadable."""
    blocks = find(document, text)
    names = {x.marks["with"] for x in blocks if "with" in x.marks}
    for block in blocks:
        if (after := block.marks.get("after")) and after not in names:
            raise Unreadable(f"{block.place}: no block is marked with={after}")
    return blocks


def read(root, document):
    return parse(document, (Path(root) / document).read_text(encoding="utf-8"))
