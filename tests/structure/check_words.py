#!/usr/bin/env python3
"""Holds words to the rules of CONTRIBUTING.md that a script can see.

Titles of tests begin in lower case, unless their first word is a name; no comment or
document has a turn of speech that readers stumbled over; and no parameter of C++ is
called `what`. Prints file:line for every breach; exits 1 if there is one.
Usage: check_words.py [ROOT]
"""

import re
import sys
from pathlib import Path

FOLDERS = ("config", "messages", "data", "models", "actors", "apps", "bench", "python",
           "docs", "tests")
KINDS = (".hpp", ".cpp", ".py", ".md")

TITLE = re.compile(r'TEST_CASE(?:_METHOD)?\(\s*(?:\w+,\s*)?"([A-Z][a-z]\S*)')
#: They are written so wherever they stand.
NAMES = ("Catch", "Fashion-MNIST", "LeNet", "Nesterov", "Open", "Philox", "Python",
         "PyTorch", "Slurm", "TensorBoard", "ResNet-18", "NaN", "Intra-op")

STUMBLES = {
    r"\bthat there (?:is|are) not\b": "say what does not exist",
    r"\bnothing ever (?:is|does)\b": "say what is always so",
    r"\bof none it\b": "say which none",
    r"\bnot \w+ed for nothing\b": "a double negation",
    r"\bis one still\b": "say what it is",
    r"\bis known when (?:they|it) do(?:es)?\b": "say when that is",
}


#: `what` says nothing of a parameter; a noun does.
PARAMETER = re.compile(r"[(,]\s*(?:const\s+)?(?!return\b)[A-Za-z_][\w:]*(?:<[^;(){}]*>)?"
                       r"(?:\s*[&*]+\s*|\s+)what\s*[,)]")


def breaches(path, text):
    if path.suffix in (".hpp", ".cpp"):
        code = re.sub(r"//.*", lambda comment: " " * len(comment.group()), text)
        for found in PARAMETER.finditer(code):
            yield found.start(), "name a parameter by a noun instead of 'what'"
    for found in TITLE.finditer(text):
        word = found.group(1).rstrip(",:;").removesuffix("'s")
        if word not in NAMES:
            yield found.start(), f"a title begins in lower case: '{word}'"
    if path.name == "check_words.py":
        return
    for turn, advice in STUMBLES.items():
        for found in re.finditer(turn, text):
            yield found.start(), f"'{found.group()}': {advice}"


def check(root):
    found = []
    for file in sorted(x for folder in FOLDERS for x in (root / folder).rglob("*")):
        if file.suffix not in KINDS or "fixtures" in file.parts:
            continue
        text = file.read_text()
        for at, why in breaches(file, text):
            line = text.count("\n", 0, at) + 1
            found.append(f"{file.relative_to(root)}:{line}: {why}")
    return found


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1
                else Path(__file__).resolve().parents[2])
    found = check(root)
    print("\n".join(found) or "no word is out of place")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
