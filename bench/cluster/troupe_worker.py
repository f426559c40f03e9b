"""A Python worker of Troupe that logs its steps; `trainer_node launch` starts it.

    troupe_worker.py FOLDER
"""

import os
import sys

import job


def main(folder):
    log = job.StepLog(folder)
    log.start(os.environ["TROUPE_CLUSTER_RANK"])
    import troupe

    training = job.Training()
    with troupe.Worker(
        training.network, dataset_size=job.SAMPLES, dataset_id="random"
    ) as worker:
        for lease in worker:
            indices = list(lease.indices)
            log.begin(lease.number, lease.epoch, indices)
            loss = training.loss(training.network, indices)
            loss.backward()
            log.end(worker.step(loss))


if __name__ == "__main__":
    main(sys.argv[1])
