"""One rank of the Gloo contender, through torch.distributed.

The worker reads commands from its own named pipe, so that it sleeps in the kernel while others are
measured, and answers on the pipe that all ranks share. mpi_worker.c describes the protocol. Values
and loop are those of mpi_worker.c and tally_worker.cc. The interpreter adds one or two microseconds
to each call, which takes several hundred.

Usage: gloo_worker.py FOLDER, with RANK and WORLD_SIZE set.
"""
import os
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist

WARM_UP_CALLS = 2

folder = sys.argv[1]
rank = int(os.environ["RANK"])
ranks = int(os.environ["WORLD_SIZE"])
out = os.open(f"{folder}/out", os.O_WRONLY)
buffers = {}


def answer(line):
    os.write(out, (line + "\n").encode())


def buffer_of(count):
    if count not in buffers:
        buffers[count] = torch.zeros(count)
    return buffers[count]


def check(count):
    data = buffer_of(count)
    index = torch.arange(count)
    by_element = (index % 1009).float()
    by_rank = (index % 31 + 1).float()
    data.copy_(by_element + (rank + 1) * by_rank)
    dist.all_reduce(data)
    want = ranks * by_element + (ranks * (ranks + 1) // 2) * by_rank
    wrong = (data != want).nonzero()
    if len(wrong) > 0:
        i = int(wrong[0])
        answer(f"failed {rank} element {i} is {float(data[i])}, not {float(want[i])}")
    else:
        answer(f"done {rank} -")


def fill(data):
    torch.remainder(torch.arange(len(data)), 7, out=data)
    data.add_(1).mul_(1e-30)


def run(count, batches, calls):
    data = buffer_of(count)
    limit = 200 // max(1, (ranks - 1).bit_length())
    used = limit
    samples = []
    for _ in range(batches):
        if used + calls > limit:
            fill(data)
            for _ in range(WARM_UP_CALLS):
                dist.all_reduce(data)
            used = WARM_UP_CALLS
        start = time.perf_counter()
        for _ in range(calls):
            dist.all_reduce(data)
        elapsed = time.perf_counter() - start
        used += calls
        samples.append(f"{elapsed * 1e6 / calls:.3f}")
    answer(" ".join([f"done {rank} -"] + (samples if rank == 0 else [])))


torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks,
                        timeout=timedelta(minutes=30))
with open(f"{folder}/in.{rank}") as commands:
    answer(f"ready {rank} torch {torch.__version__}")
    for line in commands:
        name, size, *rest = line.split()
        if name == "check":
            check(int(size) // 4)
        elif name == "run":
            run(int(size) // 4, int(rest[0]), int(rest[1]))
sys.stdout.flush()
os._exit(0)  # no teardown: the peers exit at the same moment
