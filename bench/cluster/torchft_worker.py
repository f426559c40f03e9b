"""A replica group of torchft, of one process: its DistributedDataParallel over gloo, its
sampler, and after each step a file with the place in the sampler's order, since torchft
says that a loader's place is to be kept often.

    torchft_worker.py FOLDER SLOT WAIT

WAIT: seconds until gloo gives up on a member that does not answer.

torchft 0.2.0 itself would end the survivors of a kill: when gloo has reported the
failure, the hook of its DistributedDataParallel asserts a future that is not there then.
`Surviving` returns the gradient instead, and the step is not made, as torchft means it.
"""

import os
import sys
from datetime import timedelta

import job


def surviving(torchft, torch):
    class Surviving(torchft.DistributedDataParallel):
        @staticmethod
        def _comm_hook(state, bucket):
            work = state.allreduce(bucket.buffer())
            good = work.wait()
            future = work.get_future()
            if good:
                return getattr(future, "_fut", future)
            failed = torch.futures.Future()
            failed.set_result(bucket.buffer())
            return failed

    return Surviving


def main(folder, slot, wait):
    log = job.StepLog(folder)
    log.start(slot)
    import torch
    import torchft
    from torch.distributed import TCPStore

    training = job.Training()
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    plain = training.make_optimizer(training.network.parameters())

    def load(state):
        training.network.load_state_dict(state["network"])
        plain.load_state_dict(state["optimizer"])

    def state():
        return {
            "network": training.network.state_dict(),
            "optimizer": plain.state_dict(),
        }

    manager = torchft.Manager(
        pg=torchft.ProcessGroupGloo(timeout=timedelta(seconds=wait)),
        min_replica_size=1,
        load_state_dict=load,
        state_dict=state,
        replica_id=f"replica_{slot}",
        timeout=timedelta(seconds=30),
        rank=0,
        world_size=1,
        store_addr="127.0.0.1",
        store_port=store.port,
        hostname="127.0.0.1",
        init_sync=False,  # All begin with the same weights.
    )
    network = surviving(torchft, torch)(manager, training.network)
    optimizer = torchft.Optimizer(manager, plain)
    file, epoch, first = f"{folder}/place-{slot}", 0, 0
    if os.path.exists(file):
        with open(file) as place:
            epoch, first = map(int, place.read().split())
    while True:
        sampler = torchft.DistributedSampler(
            range(job.SAMPLES), slot, job.WORKERS, group_rank=0, num_replicas=1
        )
        sampler.set_epoch(epoch)
        order = list(sampler)
        while first < len(order):
            indices = order[first : first + job.BATCH]
            optimizer.zero_grad()
            loss = training.loss(network, indices)
            step = manager.current_step()
            log.begin(step, epoch, indices, manager.is_participating())
            loss.backward()
            optimizer.step()
            # The next batch comes, whether the step was made or not.
            first += job.BATCH
            with open(file + ".new", "w") as place:
                place.write(f"{epoch} {first}")
            os.replace(file + ".new", file)
            made = manager.current_step() > step
            log.end(manager.num_participants() if made else 0)
        epoch, first = epoch + 1, 0


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
