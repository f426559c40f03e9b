"""python -m troupe ... is trainer_node ..."""

import os
import sys

from troupe.errors import Error
from troupe.program import environment, find


def main() -> None:
    try:
        program = find()
    except Error as why:
        sys.exit(f"troupe: {why}")
    try:
        os.execve(program, [program, *sys.argv[1:]], environment(program))
    except OSError as why:
        sys.exit(f"troupe: {program} cannot be started: {why.strerror}")


if __name__ == "__main__":
    main()
