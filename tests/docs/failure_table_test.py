"""Each line of the table in docs/failures.md names a test that there is."""

import re
import sys
from pathlib import Path

ROOT = Path(sys.argv[1])

#: `file`: "the name of a case".
NAMED = re.compile(r'`(\w+)`: "([^"]+)" \|')


def cases_of(path):
    """The names of a file's cases; one may be in several pieces."""
    found = re.findall(r'TEST_CASE\(\s*((?:"(?:[^"\\]|\\.)*"\s*)+)', path.read_text())
    return {"".join(re.findall(r'"((?:[^"\\]|\\.)*)"', one)) for one in found}


def main():
    rows = [x for x in (ROOT / "docs/failures.md").read_text().splitlines()
            if x.startswith("| ") and not x.startswith(("| what fails", "| ---"))]
    wrong = []
    for row in rows:
        found = NAMED.search(row)
        files = list((ROOT / "tests").rglob(found[1] + ".cpp")) if found else []
        if not any(found[2] in cases_of(x) for x in files):
            wrong.append(f"docs/failures.md: no such test: {row}")
    print("\n".join(wrong) or f"{len(rows)} failures, each with its test")
    sys.exit(bool(wrong) or not rows)


main()
