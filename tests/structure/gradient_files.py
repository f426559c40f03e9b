#!/usr/bin/env python3
"""Prints the files that a gradient passes in one process, from the backward pass of a
worker to the weights that are made from it: each line a file and what it does there.

All are counted: those that have its numbers in their hands (at most 24), those that
decide by its id, and those that are told of it. For each the function is named through
which it goes; exits 1 if one of them is not there any more, or if they are too many.
Usage: gradient_files.py [ROOT]
"""

import re
import sys
from pathlib import Path

MOST = 24

#: (file, the function through which the gradient goes, what is done to it), in order.
CARRIED = (
    ("models/layout/flat_pool.cpp", "flat_pool::take", "memory for it"),
    ("models/engine/compute.cpp", "compute_engine::run", "is computed"),
    ("models/engine/segment.cpp", "segment::backward", "... by autograd"),
    ("actors/worker/computing.cpp", "compute_state::alone", "is the worker's"),
    ("actors/runtime/tensor_payload.cpp", "payload to_payload", "becomes a message"),
    ("actors/runtime/inline_answer.hpp", "answer_inline", "on the worker's thread"),
    ("actors/runtime/inline_execution.cpp", "run_inline", "... with the server's step"),
    ("actors/worker/worker.cpp", "worker_state::push", "is pushed"),
    ("actors/links/local_link.cpp", "push_atom", "over a link"),
    ("actors/server/parameter_server.cpp", "parameter_server_state::push_arrived",
     "enters the server, and leaves it as weights"),
    ("actors/server/worker_requests.cpp", "worker_requests::push", "is it expected?"),
    ("actors/weights/server_model.cpp", "server_model::look_at", "is it finite?"),
    ("actors/shards/shard_model.cpp", "shard_model::look_at", "... in this shard"),
    ("models/optim/aggregate.cpp", "all_finite", "... block by block"),
    ("actors/server/step_pipeline.cpp", "step_pipeline::hold", "waits for its step"),
    ("actors/core/take_held.hpp", "take_held", "... and is let go of"),
    ("models/optim/slotted_optimizer.hpp", "void step", "is applied"),
    ("models/optim/optimizer.cpp", "gradient", "... by a rule"),
    ("models/kernels/kernels.cpp", "kernels", "... in vector instructions"),
    ("models/kernels/loops.hpp", "sgd", "... loop by loop"),
    ("models/layout/weights_store.cpp", "weights_store::publish", "is in the weights"),
)

#: They see its id, its lease and its version.
DECIDED = (
    ("actors/core/step_scheduler.cpp", "step_scheduler::push", "what it leads to"),
    ("actors/core/push_window.cpp", "push_window::", "has it arrived before?"),
    ("actors/core/norm_watch.cpp", "norm_watch::judge", "is its norm like that of others?"),
    ("actors/core/refusals.hpp", "refusals", "has its worker sent bad ones?"),
    ("actors/core/data_ledger.cpp", "data_ledger::", "whose samples are they?"),
    ("actors/core/lease_ledger.cpp", "lease_ledger::", "are its samples applied?"),
    ("actors/policies/step_round.cpp", "on_arrival", "does it make a step? (or another policy)"),
)

#: They count it, and change nothing.
TOLD = (
    ("actors/events/event_log_writer.cpp", "arrived", "the event log"),
    ("actors/server/run_metrics.cpp", "on_event", "figures of the run"),
    ("actors/events/node_traffic.cpp", "on_event", "bytes of each node"),
    ("actors/events/turn_watch.cpp", "on_event", "turns of the workers"),
)


def show(root, title, files):
    """Returns the files whose function is not there."""
    print(f"{title}: {len(files)}")
    missing = []
    for number, (name, function, does) in enumerate(files, 1):
        path = root / name
        found = path.is_file() and re.search(re.escape(function), path.read_text())
        print(f"  {number:2} {name:42} {does}")
        if not found:
            missing.append(f"{name}: has no {function}")
    return missing


def main():
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path.cwd()
    missing = show(root, "have its numbers", CARRIED)
    missing += show(root, "decide by its id", DECIDED)
    missing += show(root, "are told of it", TOLD)
    for line in missing:
        print(line)
    if len(CARRIED) > MOST:
        print(f"a gradient passes more than {MOST} files")
    return 1 if missing or len(CARRIED) > MOST else 0


if __name__ == "__main__":
    sys.exit(main())
