"""A worker under torchrun: DistributedDataParallel over gloo. Every few steps the first
rank writes a snapshot, from which all go on when torchrun has started them again, as in
PyTorch's tutorial on elastic training. The snapshot has the place in the epoch, too, and
the sampler's order is gone through from there: torch's ElasticDistributedSampler would
draw another order for the rest of the epoch, which repeats some samples and leaves out
others.

    torchrun_worker.py FOLDER
"""

import os
import sys

import job


def main(folder):
    log = job.StepLog(folder)
    import torch
    import torch.distributed as dist
    from torch.utils.data.distributed import DistributedSampler

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    training = job.Training()
    optimizer = training.make_optimizer(training.network.parameters())
    file, step, epoch, first = f"{folder}/snapshot.pt", 0, 0, 0
    if os.path.exists(file):
        snapshot = torch.load(file)
        step, epoch, first = snapshot["place"]
        training.network.load_state_dict(snapshot["network"])
        optimizer.load_state_dict(snapshot["optimizer"])
    network = torch.nn.parallel.DistributedDataParallel(training.network)
    log.start(rank, step)

    def save():
        snapshot = {
            "place": (step, epoch + first // job.SAMPLES, first % job.SAMPLES),
            "network": training.network.state_dict(),
            "optimizer": optimizer.state_dict(),
        }
        torch.save(snapshot, file + ".new")
        os.replace(file + ".new", file)

    while True:
        sampler = DistributedSampler(range(job.SAMPLES), num_replicas=world, rank=rank)
        sampler.set_epoch(epoch)
        order = list(sampler)
        for at in range(first // world, len(order), job.BATCH):
            indices = order[at : at + job.BATCH]
            log.begin(step + 1, epoch, indices)
            optimizer.zero_grad()
            training.loss(network, indices).backward()
            optimizer.step()
            step, first = step + 1, first + world * job.BATCH
            log.end(world)
            if rank == 0 and step % job.SNAPSHOT_STEPS == 0:
                save()
        epoch, first = epoch + 1, 0


if __name__ == "__main__":
    main(sys.argv[1])
