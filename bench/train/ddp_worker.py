"""One rank of the PyTorch contender: DistributedDataParallel over Gloo, and torch.optim.SGD.

DistributedDataParallel has its default options. The worker reads commands from its own named pipe
and answers on the pipe that all ranks share, as torch_worker.cc does:
    check STEPS   trains and answers with the mean loss over all ranks of every step
    run STEPS     trains without reading losses and answers with the microseconds of every step
With --plain the worker is one process and does not wrap the model; the C++ loop is compared with
it. The models are those of models.cc; problem.cc writes their weights and samples.

Usage: ddp_worker.py FOLDER PROBLEM THREADS [--plain], with RANK and WORLD_SIZE set.
"""
import json
import os
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

WARM_UP_STEPS = 2


class Mlp(nn.Module):
    def __init__(self, facts):
        super().__init__()
        widths = facts["widths"]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(widths, widths[1:]))

    def loss(self, x, target):
        for layer in self.layers[:-1]:
            x = F.relu(layer(x))
        return F.cross_entropy(self.layers[-1](x), target)


class Cnn(nn.Module):
    def __init__(self, facts):
        super().__init__()
        self.stages = facts["stages"]
        self.convolutions = nn.ModuleList()
        self.norms = nn.ModuleList()
        channels = facts["input"][0]
        for stage in self.stages:
            for width in stage:
                self.convolutions.append(nn.Conv2d(channels, width, 3, padding=1, bias=False))
                self.norms.append(nn.BatchNorm2d(width))
                channels = width
        self.head = nn.Linear(channels, facts["classes"])

    def loss(self, x, target):
        i = 0
        for number, stage in enumerate(self.stages):
            if number > 0:
                x = F.max_pool2d(x, 2)
            for _ in stage:
                x = F.relu(self.norms[i](self.convolutions[i](x)))
                i += 1
        return F.cross_entropy(self.head(x.mean((2, 3))), target)


class Block(nn.Module):
    def __init__(self, width, heads, context):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.attend = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.expand = nn.Linear(width, 4 * width)
        self.contract = nn.Linear(4 * width, width)
        self.future = torch.ones(context, context, dtype=torch.bool).triu(1)

    def attention(self, x):
        batch, length, width = x.shape
        q, k, v = self.attend(x).split(width, 2)
        q = q.view(batch, length, self.heads, -1).transpose(1, 2)
        k = k.view(batch, length, self.heads, -1).transpose(1, 2)
        v = v.view(batch, length, self.heads, -1).transpose(1, 2)
        scores = torch.matmul(q, k.transpose(2, 3)) * (width // self.heads) ** -0.5
        scores = scores.masked_fill(self.future, float("-inf"))
        mixed = torch.matmul(torch.softmax(scores, -1), v)
        return self.project(mixed.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.contract(F.gelu(self.expand(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, facts):
        super().__init__()
        width = facts["width"]
        self.symbol = nn.Embedding(facts["classes"], width)
        self.position = nn.Embedding(facts["context"], width)
        self.blocks = nn.ModuleList(
            Block(width, facts["heads"], facts["context"]) for _ in range(facts["layers"]))
        self.norm = nn.LayerNorm(width)
        self.places = torch.arange(facts["context"])

    def loss(self, x, target):
        x = self.symbol(x) + self.position(self.places)
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.symbol.weight)
        return F.cross_entropy(logits.flatten(0, 1), target.flatten())


class WithLoss(nn.Module):
    """Module that DistributedDataParallel wraps."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, target):
        return self.model.loss(x, target)


def tensor_of(path, kind):
    with open(path, "rb") as file:
        return torch.frombuffer(bytearray(file.read()), dtype=kind)


def load_weights(model, problem, facts):
    """Loads the parameters of the C++ side; names, order and shapes must be equal."""
    ours = [{"name": name, "shape": list(p.shape)} for name, p in model.named_parameters()]
    if ours != facts["parameters"]:
        pairs = zip(ours, facts["parameters"])
        different = next((pair for pair in pairs if pair[0] != pair[1]), "their number")
        raise SystemExit(f"the models differ: {different}")
    values = tensor_of(f"{problem}/weights", torch.float32)
    place = 0
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(values[place:place + parameter.numel()].view_as(parameter))
            place += parameter.numel()
    assert place == len(values)


class Training:
    def __init__(self, problem, rank, ranks, plain):
        with open(f"{problem}/problem.json", encoding="utf-8") as file:
            facts = json.load(file)
        model = {"mlp": Mlp, "cnn": Cnn, "gpt": Gpt}[facts["family"]](facts)
        load_weights(model, problem, facts)
        shape = [facts["batches"], facts["ranks"], facts["batch"]]
        kind = torch.int64 if facts["family"] == "gpt" else torch.float32
        inputs = tensor_of(f"{problem}/inputs", kind).view(shape + facts["input"])
        targets = tensor_of(f"{problem}/targets", torch.int64).view(shape + facts["target"])
        self.inputs = inputs[:, rank].contiguous()
        self.targets = targets[:, rank].contiguous()
        self.model = WithLoss(model)
        self.model.train()
        if not plain:
            self.model = nn.parallel.DistributedDataParallel(self.model)
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), lr=facts["rate"], momentum=facts["momentum"])
        self.steps = 0
        self.ranks = ranks

    def step(self):
        batch = self.steps % len(self.inputs)
        self.optimizer.zero_grad()
        loss = self.model(self.inputs[batch], self.targets[batch])
        loss.backward()
        self.optimizer.step()
        self.steps += 1
        return loss

    def mean_loss(self):
        loss = self.step().detach().double()
        if self.ranks > 1:
            dist.all_reduce(loss)
        return float(loss) / self.ranks


def check(training, steps):
    return [f"{training.mean_loss():.9g}" for _ in range(steps)]


def run(training, steps):
    for _ in range(WARM_UP_STEPS):
        training.step()
    samples = []
    for _ in range(steps):
        start = time.perf_counter()
        training.step()
        samples.append(f"{(time.perf_counter() - start) * 1e6:.1f}")
    return samples


def main():
    folder, problem, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    plain = "--plain" in sys.argv
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(threads)
    out = os.open(f"{folder}/out", os.O_WRONLY)
    if not plain:
        dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank,
                                world_size=ranks, timeout=timedelta(minutes=30))
    training = Training(problem, rank, ranks, plain)
    with open(f"{folder}/in.{rank}", encoding="ascii") as commands:
        os.write(out, f"ready {rank} {torch.__version__}\n".encode())
        for line in commands:
            name, steps = line.split()
            values = check(training, int(steps)) if name == "check" else run(training, int(steps))
            answer = [f"done {rank} -"] + (values if rank == 0 else [])
            os.write(out, (" ".join(answer) + "\n").encode())
    sys.stdout.flush()
    os._exit(0)  # no teardown: the peers exit at the same moment


main()
