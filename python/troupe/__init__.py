"""Train a PyTorch model with Troupe around it.

Your process computes the gradients; the processes of Troupe deal out samples,
apply gradients by the policy of the run, keep checkpoints and survive failures.
See docs/python.md.
"""

import re
from importlib import metadata
from pathlib import Path

from troupe import failures
from troupe.description import describe
from troupe.errors import Error
from troupe.evaluator import Evaluator
from troupe.leases import Lease
from troupe.program import launch, serve
from troupe.run import Run
from troupe.worker import Worker

__all__ = ["Error", "Evaluator", "Lease", "Run", "Worker", "describe", "launch", "serve"]


if failures.has_file():
    failures.watch()


def _version() -> str:
    """The version of the sources that this package lies in, or else of the wheel."""
    sources = Path(__file__).resolve().parents[2] / "CMakeLists.txt"
    if sources.exists():
        found = re.search(r"VERSION (\d+\.\d+\.\d+)\s", sources.read_text())
        if found:
            return found[1]
    try:
        return metadata.version("troupe")
    except metadata.PackageNotFoundError:
        return "unknown"


__version__ = _version()
