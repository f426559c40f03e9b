"""PyTorch's own ways to train with several processes, to be measured beside Troupe.

    peers.py ddp|rpc-async|rpc-sync|rpc-remote NETWORK BATCH STEPS OUT [WORKERS]

NETWORK is lenet, mnist_net, resnet18 or wide.

WORKERS (2) workers with one thread each train the networks that Troupe trains, on
random data in memory. Each makes a quarter of STEPS first, which is not timed.
Writes the samples a second of all together to OUT; OUT.meeting, by which the
processes find each other, must not exist yet.

ddp: DistributedDataParallel over gloo. rpc-async, rpc-sync: a parameter server
in a process of its own, as PyTorch's tutorials on RPC build it; workers send
gradients and get weights back, at once or when all have sent theirs. rpc-remote:
the model stays there; workers call it, and distributed autograd and optimiser do
the rest. There workers take turns: a step of one between forward and backward of
another ends the program (pytorch/examples#780).
"""

import os
import sys
import threading
import time

os.environ["OMP_NUM_THREADS"] = "1"
for layer in ("GLOO", "TP"):
    os.environ[layer + "_SOCKET_IFNAME"] = "lo"

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed import autograd as dist_autograd
from torch.distributed import rpc
from torch.distributed.optim import DistributedOptimizer

from networks import SHAPES, make_network, make_optimizer

WORKERS = int(sys.argv[6]) if len(sys.argv) > 6 else 2
START = os.environ.get("TROUPE_BENCH_START", "spawn")  # How processes begin.
SERVER = "server"


# -- what all of them do ---------------------------------------------------------


class Task:
    """The command line."""

    def __init__(self, words):
        self.mode, self.network = words[:2]
        self.batch, self.steps = int(words[2]), int(words[3])
        self.out = os.path.abspath(words[4])
        self.meeting = "file://" + self.out + ".meeting"

    def batches(self, rank):
        """Without an end."""
        draw = torch.Generator().manual_seed(rank)
        inputs = torch.randn(2000, *SHAPES[self.network], generator=draw)
        targets = torch.randint(10, (2000,), generator=draw)
        while True:
            order = torch.randperm(2000, generator=draw)
            for mine in order.split(self.batch):
                if len(mine) == self.batch:
                    yield inputs[mine], targets[mine]


def time_steps(task, rank, step, all_meet):
    """The times of this rank's first and last timed step."""
    batches = task.batches(rank)
    for _ in range(task.steps // 4 + 1):
        step(*next(batches))
    all_meet()
    begin = time.monotonic()
    for _ in range(task.steps):
        step(*next(batches))
    return begin, time.monotonic()


def report(task, times):
    begin = min(first for first, _ in times)
    end = max(last for _, last in times)
    with open(task.out, "w") as out:
        out.write(f"{WORKERS * task.steps * task.batch / (end - begin)}\n")


# -- DistributedDataParallel -------------------------------------------------------


def ddp_worker(rank, task):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=task.meeting, rank=rank, world_size=WORKERS
    )
    network = nn.parallel.DistributedDataParallel(make_network(task.network))
    optimizer = make_optimizer(network.parameters())

    def step(inputs, targets):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(inputs), targets).backward()
        optimizer.step()

    times = [None] * WORKERS
    dist.all_gather_object(times, time_steps(task, rank, step, dist.barrier))
    if rank == 0:
        report(task, times)
    # Without destroy_process_group, in which gloo sometimes aborts. The other
    # process may still be receiving.
    time.sleep(0.5)
    os._exit(0)


# -- a parameter server by RPC -----------------------------------------------------


class Server:
    def __init__(self, task):
        self.network = make_network(task.network)
        self.parameters = list(self.network.parameters())
        self.optimizer = make_optimizer(self.parameters)
        self.lock = threading.Lock()
        self.waiting = []
        self.answer = torch.futures.Future()
        self.times = []

    def weights(self):
        return [x.detach() for x in self.parameters]

    def apply(self, gradients):
        for x, gradient in zip(self.parameters, gradients):
            x.grad = gradient
        self.optimizer.step()


server = None  # In its own process.


def pull():
    return server.weights()


def push(gradients):
    with server.lock:
        server.apply(gradients)
        return server.weights()


@rpc.functions.async_execution
def push_and_wait(gradients):
    with server.lock:
        answer = server.answer
        server.waiting.append(gradients)
        if len(server.waiting) == WORKERS:
            server.apply([sum(x) / WORKERS for x in zip(*server.waiting)])
            server.waiting, server.answer = [], torch.futures.Future()
            answer.set_result(server.weights())
        return answer


def scores_of(inputs):
    return server.network(inputs)


def parameter_references():
    return [rpc.RRef(x) for x in server.parameters]


def note(times):
    with server.lock:
        server.times.append(times)


def noted():
    return server.times


def rpc_node(rank, task, barrier, turn):
    global server
    torch.set_num_threads(1)
    if rank == WORKERS:
        server = Server(task)
    rpc.init_rpc(
        SERVER if rank == WORKERS else f"worker{rank}",
        rank=rank,
        world_size=WORKERS + 1,
        rpc_backend_options=rpc.TensorPipeRpcBackendOptions(init_method=task.meeting),
    )
    if rank < WORKERS:
        step = remote_step(turn) if task.mode == "rpc-remote" else pushing_step(task)
        times = time_steps(task, rank, step, barrier.wait)
        rpc.rpc_sync(SERVER, note, (times,))
        barrier.wait()
        if rank == 0:
            report(task, rpc.rpc_sync(SERVER, noted))
    rpc.shutdown()


def pushing_step(task):
    network = make_network(task.network)
    parameters = list(network.parameters())
    exchange = push if task.mode == "rpc-async" else push_and_wait

    def load(weights):
        with torch.no_grad():
            for x, new in zip(parameters, weights):
                x.copy_(new)

    def step(inputs, targets):
        network.zero_grad()
        nn.functional.cross_entropy(network(inputs), targets).backward()
        load(rpc.rpc_sync(SERVER, exchange, ([x.grad for x in parameters],)))

    load(rpc.rpc_sync(SERVER, pull))
    return step


def remote_step(turn):
    references = rpc.rpc_sync(SERVER, parameter_references)
    optimizer = DistributedOptimizer(
        torch.optim.SGD, references, lr=1e-3, momentum=0.9
    )

    def step(inputs, targets):
        with turn, dist_autograd.context() as context:
            scores = rpc.rpc_sync(SERVER, scores_of, (inputs,))
            loss = nn.functional.cross_entropy(scores, targets)
            dist_autograd.backward(context, [loss])
            optimizer.step(context)

    return step


def main():
    task = Task(sys.argv[1:])
    if task.mode == "ddp":
        mp.start_processes(ddp_worker, (task,), WORKERS, start_method=START)
    elif task.mode in ("rpc-async", "rpc-sync", "rpc-remote"):
        new = mp.get_context(START)
        more = (task, new.Barrier(WORKERS), new.Lock())
        mp.start_processes(rpc_node, more, WORKERS + 1, start_method=START)
    else:
        sys.exit(f"no such way to train: {task.mode}")


if __name__ == "__main__":
    main()
