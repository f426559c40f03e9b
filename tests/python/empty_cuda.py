"""Writes the source of a library that takes the place of torch's CUDA library, for Python
on a machine where the fake device is CUDA: it has the names that the rest of torch asks for,
and nothing behind them. The fake device and torch's CUDA library cannot be in one process,
since both are LibTorch's CUDA part.

Usage: empty_cuda.py TORCH_LIB OUT.s
"""

import subprocess
import sys
from pathlib import Path

#: A function answers with this room: as a reference it can be written to, as a bool its
#: lowest byte is false.
FUNCTION = """\
.text
.globl {0}
.type {0}, @function
{0}: lea room(%rip), %rax
ret
"""

TYPE = """\
.data
.balign 8
.globl {0}
.type {0}, @object
{0}: .quad _ZTVN10__cxxabiv117__class_type_infoE+16
.quad 1f
1: .asciz "{0}"
"""

TABLE = """\
.bss
.balign 8
.globl {0}
.type {0}, @object
{0}: .zero 1024
"""

END = """\
.local room
.comm room, 4096, 4096
.section .note.GNU-stack,"",@progbits
"""


def symbols(which, libraries):
    there = [x for x in libraries if x.exists()]
    lines = subprocess.run(
        ["nm", "-D", which, *there], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return {line.split()[-1].split("@")[0] for line in lines if len(line.split()) > 1}


def form_of(symbol):
    return TYPE if symbol.startswith("_ZTI") else TABLE if symbol.startswith("_ZTV") else FUNCTION


def main():
    torch, out = Path(sys.argv[1]), Path(sys.argv[2])
    ours = [torch / "libtorch_cuda.so", torch / "libtorch_nvshmem.so"]
    others = [torch / x for x in ("libtorch_python.so", "libtorch.so", "libshm.so")]
    wanted = symbols("--undefined-only", others) & symbols("--defined-only", ours)
    out.write_text("".join(form_of(x).format(x) for x in sorted(wanted)) + END)


if __name__ == "__main__":
    main()
