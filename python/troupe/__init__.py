"""Train a PyTorch model with Troupe around it.

Your process computes the gradients; the processes of Troupe deal out samples,
apply gradients by the policy of the run, keep checkpoints and survive failures.
See docs/python.md.
"""

from troupe.description import describe
from troupe.errors import Error
from troupe.evaluator import Evaluator
from troupe.program import launch, serve
from troupe.run import Run
from troupe.worker import Lease, Worker

__all__ = ["Error", "Evaluator", "Lease", "Run", "Worker", "describe", "launch", "serve"]
