"""What a machine has that a run on its GPU needs: a Python with torch, the libraries of
LibTorch's CUDA part, NCCL, a driver. Everything is looked at; nothing is downloaded."""

import mmap
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

#: Smaller files beside torch's libraries have NVIDIA's names and no code: they let
#: torch be imported where there is no GPU.
LEAST_BYTES = 128 * 1024

LOADER = "/lib64/ld-linux-x86-64.so.2"


@dataclass
class Machine:
    python: str = ""
    python_release: str = ""
    torch: str = ""  # Releases, such as 2.11.0+cu130; empty: not there.
    cuda: str = ""
    nccl: str = ""
    own_nccl: str = ""  # A file that stands for torch's NCCL.
    cuda_library: str = ""  # LibTorch's CUDA part.
    folders: list = field(default_factory=list)  # Of libraries.
    shares_gpu: bool = False  # Whether NCCL lets ranks share one.
    absent: list = field(default_factory=list)  # A line for each.
    device: str = ""
    driver: str = ""

    def described(self):
        return {
            "device": self.device,
            "driver": self.driver,
            "torch": self.torch,
            "cuda": self.cuda,
            "nccl": self.nccl,
            "nccl_shares_a_gpu": self.shares_gpu,
            "python": self.python_release,
            "cores": len(os.sched_getaffinity(0)),
        }

    def for_nccl(self):
        """What a program that uses NCCL has in its environment beyond that. A library
        that is loaded before all others is NCCL for LibTorch's CUDA part, too."""
        out = {"NCCL_MULTI_RANK_GPU_ENABLE": "1"} if self.shares_gpu else {}
        out["TROUPE_NCCL_LIBRARY"] = self.own_nccl or "libnccl.so.2"
        return out | ({"LD_PRELOAD": self.own_nccl} if self.own_nccl else {})

    def environment(self):
        """For the programs: they find the libraries of torch and NVIDIA."""
        out = dict(os.environ)
        before = [x for x in out.get("LD_LIBRARY_PATH", "").split(":") if x]
        out["LD_LIBRARY_PATH"] = ":".join([*map(str, self.folders), *before])
        if self.cuda_library:
            out["TROUPE_CUDA_LIBRARY"] = self.cuda_library
        return out


def answer_of(command, environment=None):
    """What a command prints; empty if it fails."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60, env=environment
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def folder_of_torch(python):
    """Without importing it, which takes seconds; None: that Python has none."""
    ask = (
        "import importlib.util as u; x = u.find_spec('torch'); "
        "print(x.submodule_search_locations[0] if x else '')"
    )
    found = answer_of([python, "-c", ask])
    return Path(found) if found else None


def value_in(file, name):
    """The text that a line such as `cuda: Optional[str] = '13.0'` assigns."""
    found = re.search(rf"^{name}\b[^=\n]*= '([^']*)'", file.read_text(), re.MULTILINE)
    return found.group(1) if found else ""


def look_into_nccl(library, machine):
    """Its release and whether it knows the variable that lets ranks share a GPU, from
    its texts: calling it may need a driver."""
    with open(library, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as text:
        release = re.search(rb"NCCL version (\d+\.\d+\.\d+)", text)
        machine.nccl = release.group(1).decode() if release else "of an unknown release"
        machine.shares_gpu = text.find(b"MULTI_RANK_GPU_ENABLE") >= 0


def libraries_of(library, environment):
    """What the system's loader finds for it: names and paths, None where there is
    nothing."""
    listed = answer_of([LOADER, "--list", library], environment)
    for line in listed.splitlines():
        name, arrow, rest = line.strip().partition(" => ")
        if arrow:
            yield name, None if rest == "not found" else rest.split(" ")[0]


def look_at_libraries(machine):
    named = os.environ.get("TROUPE_CUDA_LIBRARY")
    if named:
        machine.cuda_library = named
    if not Path(machine.cuda_library).is_file():
        machine.absent.append(f"{machine.cuda_library}: LibTorch's CUDA part")
        machine.cuda_library = ""
        return
    beside = os.path.realpath(Path(machine.cuda_library).parent)
    for name, path in libraries_of(machine.cuda_library, machine.environment()):
        if path is None:
            machine.absent.append(f"{name}: needed by LibTorch's CUDA part")
            continue
        path = os.path.realpath(path)
        empty = os.path.dirname(path) == beside and os.path.getsize(path) < LEAST_BYTES
        if empty and re.match(r"lib(cu|nv|nccl)", name):
            machine.absent.append(f"{name}: {path} has the name and no code")
        elif name.startswith("libnccl.so"):
            look_into_nccl(path, machine)


def look_at(python, nccl=""):
    """
    Args:
        python: The Python whose torch is used.
        nccl: A library that stands for torch's NCCL, if any.
    """
    ask = "import platform; print(platform.python_version())"
    machine = Machine(python=python, python_release=answer_of([python, "-c", ask]))
    torch = folder_of_torch(python)
    if torch is None:
        machine.absent.append(f"torch: {python} has none; name another one with --python FILE")
    else:
        machine.torch = value_in(torch / "version.py", "__version__")
        machine.cuda = value_in(torch / "version.py", "cuda")
        machine.folders = [torch / "lib", *sorted(torch.parent.glob("nvidia/*/lib"))]
        machine.cuda_library = str(torch / "lib" / "libtorch_cuda.so")
        look_at_libraries(machine)
    if nccl:
        machine.own_nccl = str(Path(nccl).resolve())
        look_into_nccl(machine.own_nccl, machine)
    if not machine.nccl:
        machine.absent.append("NCCL: no step goes over it")
    asked = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    smi = answer_of(asked) if shutil.which("nvidia-smi") else ""
    if smi:
        machine.device, machine.driver = (x.strip() for x in smi.splitlines()[0].split(","))
    else:
        machine.absent.append("a driver: nvidia-smi is not here, or sees no GPU")
    return machine
