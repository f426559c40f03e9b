#!/usr/bin/env python3
"""Makes the bundled IDX files from scikit-learn's digits.csv.gz.

Usage: convert.py path/to/digits.csv.gz [FOLDER]

A line of the CSV has the 64 pixels of an 8x8 image, row by row, each 0 to 16,
and the label. The values are kept as they are. Needs only Python.
"""

import gzip
import pathlib
import struct
import sys


def main():
    source = sys.argv[1]
    folder = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else ".")
    pixels, labels = bytearray(), bytearray()
    with gzip.open(source, "rt") as lines:
        for line in lines:
            values = [int(float(x)) for x in line.split(",")]
            assert len(values) == 65 and max(values[:64]) <= 16
            pixels += bytes(values[:64])
            labels.append(values[64])
    count = len(labels)
    images = struct.pack(">IIII", 0x803, count, 8, 8) + pixels
    (folder / "digits-images.idx3-ubyte").write_bytes(images)
    header = struct.pack(">II", 0x801, count)
    (folder / "digits-labels.idx1-ubyte").write_bytes(header + labels)
    print(f"{count} images")


if __name__ == "__main__":
    main()
