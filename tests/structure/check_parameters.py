#!/usr/bin/env python3
"""Holds functions to five parameters: what belongs together is passed as one struct.

Reads declarations and definitions of the folders that users run, not those of tests and
benchmarks. Prints file:line for every breach, and every exception that nothing needs any
more; exits 1 if there is one.
Usage: check_parameters.py [ROOT]
"""

import re
import sys
from pathlib import Path

FOLDERS = ("config", "messages", "data", "models", "actors", "apps")
LIMIT = 5

#: File -> why its functions may have more.
EXCEPTIONS = {
    "config/schema/table.hpp": "a row of the table of settings, read as a row",
    "data/transforms/resize.cpp": "a kernel: plain numbers, no struct to fill",
    "messages/transport/compression/compression.cpp": "a kernel",
    "models/exchange/torch_file.cpp": "a tensor as PyTorch's files describe it",
    "models/kernels/loops.hpp": "kernels",
    "models/optim/optimizer.hpp": "an interface that optimisers from outside implement",
    "models/optim/slotted_optimizer.hpp": "the same, and its pass over blocks",
}

NO_FUNCTIONS = {"if", "for", "while", "switch", "catch", "return", "sizeof", "decltype",
                "static_assert", "alignas", "noexcept"}
BEGIN = re.compile(r"([A-Za-z_~][\w:]*)\s*\(")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
#: A type and a name, with or without a default; not an expression.
PARAMETER = re.compile(r"(?:const\s+)?[A-Za-z_][\w:]*(?:<.*>)?(?:\s+const)?[\s&*]+"
                       r"(?:[A-Za-z_]\w*::\*)?[A-Za-z_]\w*(?:\[\w*\])?(?:\s*=.*)?", re.DOTALL)
OPENS, CLOSES = "([{<", ")]}>"


def blank(found):
    return re.sub(r"[^\n]", " ", found.group())


def pieces_of(text, begin):
    """What stands between the commas of the parentheses that open at `begin`, or nothing
    where they do not close within a statement."""
    out, depth, start = [], 0, begin + 1
    for at in range(begin, len(text)):
        x = text[at]
        if x == ";":
            return []
        if x == ">" and text[at - 1] == "-":
            continue  # An arrow closes nothing.
        if x in OPENS:
            depth += 1
        elif x in CLOSES:
            depth -= 1
            if depth == 0:
                return out + [text[start:at].strip()]
        elif x == "," and depth == 1:
            out.append(text[start:at].strip())
            start = at + 1
    return []


def long_functions(text):
    """Position, name and number of parameters."""
    code = STRING.sub(blank, COMMENT.sub(blank, text))
    for found in BEGIN.finditer(code):
        pieces = pieces_of(code, found.end() - 1)
        if (found.group(1) not in NO_FUNCTIONS and len(pieces) > LIMIT
                and all(PARAMETER.fullmatch(x) for x in pieces)):
            yield found.start(), found.group(1), len(pieces)


def check(root):
    found, needed = [], set()
    for file in sorted(x for folder in FOLDERS for x in (root / folder).rglob("*.[ch]pp")):
        name = str(file.relative_to(root))
        text = file.read_text()
        for at, function, count in long_functions(text):
            if name in EXCEPTIONS:
                needed.add(name)
                continue
            line = text.count("\n", 0, at) + 1
            found.append(f"{name}:{line}: {function} has {count} parameters, at most "
                         f"{LIMIT} are wanted: pass what belongs together as one struct")
    found += [f"{x}: no exception is needed any more"
              for x in EXCEPTIONS if x not in needed]
    return found


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1
                else Path(__file__).resolve().parents[2])
    found = check(root)
    print("\n".join(found) or f"no function has more than {LIMIT} parameters")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
