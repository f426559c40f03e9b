"""Writes each C++ block of the documents into a file, to be compiled as it stands.

Usage: snippets.py ROOT FOLDER
Prints the files, one a line. A file whose text has not changed keeps its time.
"""

import sys
from pathlib import Path

import blocks


def main():
    root, folder = map(Path, sys.argv[1:])
    folder.mkdir(parents=True, exist_ok=True)
    texts = {}
    for document in sorted([root / "README.md", *(root / "docs").glob("*.md")]):
        number = 0
        text = document.read_text(encoding="utf-8")
        for block in blocks.find(str(document.relative_to(root)), text, strict=False):
            if block.language in blocks.COMPILED:
                number += 1
                texts[folder / f"{document.stem}_{number}.cpp"] = (
                    f'#line {block.line + 1} "{document}"\n{block.text}'
                )
    for file, text in texts.items():
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")
        print(file)


if __name__ == "__main__":
    main()
