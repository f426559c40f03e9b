"""python -m troupe ... is trainer_node ..."""

import os
import sys

from troupe.errors import Error
from troupe.program import find


def main() -> None:
    try:
        program = find()
    except Error as why:
        sys.exit(f"troupe: {why}")
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
