"""One rank of the contenders in Python: DistributedDataParallel, or with --plain a loop without it.

Optimizers and DistributedDataParallel have their default options. The worker reads commands from
its own named pipe and answers on the pipe that all ranks share, as torch_worker.cc does:
    check STEPS   trains and answers with the mean loss over all ranks of every step
    run STEPS     trains without reading losses and answers with the microseconds of every step; on
                  a GPU with their mean over all steps, because a wait for the GPU after each step
                  would lengthen it
The models are those of models.cc; problem.cc writes their weights and samples.

Usage: python_worker.py FOLDER PROBLEM --threads N --device cpu|cuda --precision float32|bfloat16
           [--tf32] [--channels-last] [--plain]
with RANK and WORLD_SIZE set.
"""
import argparse
import contextlib
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
    def __init__(self, facts, _device):
        super().__init__()
        widths = facts["widths"]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(widths, widths[1:]))

    def loss(self, x, target):
        for layer in self.layers[:-1]:
            x = F.relu(layer(x))
        return F.cross_entropy(self.layers[-1](x), target)


class Cnn(nn.Module):
    def __init__(self, facts, _device):
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


class ResidualBlock(nn.Module):
    def __init__(self, channels, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = None
        if stride != 1 or channels != width:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        x = self.bn2(self.conv2(x))
        x += identity
        return F.relu(x, inplace=True)


class ResidualNet(nn.Module):
    """As in torchvision, with the stem for small pictures."""

    def __init__(self, facts):
        super().__init__()
        width = 64
        self.conv1 = nn.Conv2d(facts["input"][0], width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        channels = width
        for stage, count in enumerate(facts["blocks"]):
            width = 64 << stage
            blocks = nn.Sequential()
            for i in range(count):
                stride = 2 if i == 0 and stage > 0 else 1
                blocks.append(ResidualBlock(channels, width, stride))
                channels = width
            setattr(self, f"layer{stage + 1}", blocks)
        self.fc = nn.Linear(channels, facts["classes"])

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


class Resnet(nn.Module):
    def __init__(self, facts, _device):
        super().__init__()
        self.net = ResidualNet(facts)

    def loss(self, x, target):
        return F.cross_entropy(self.net(x), target)


def attention_written_out(q, k, v, future):
    scores = torch.matmul(q, k.transpose(2, 3)) * q.shape[-1] ** -0.5
    scores = scores.masked_fill(future, float("-inf"))
    return torch.matmul(torch.softmax(scores, -1), v)


class Block(nn.Module):
    def __init__(self, width, heads, future):
        super().__init__()
        self.heads = heads
        self.future = future
        self.norm1 = nn.LayerNorm(width)
        self.attend = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.expand = nn.Linear(width, 4 * width)
        self.contract = nn.Linear(4 * width, width)

    def attention(self, x):
        batch, length, width = x.shape
        q, k, v = self.attend(x).split(width, 2)
        q = q.view(batch, length, self.heads, -1).transpose(1, 2)
        k = k.view(batch, length, self.heads, -1).transpose(1, 2)
        v = v.view(batch, length, self.heads, -1).transpose(1, 2)
        if hasattr(F, "scaled_dot_product_attention"):  # since torch 2
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            mixed = attention_written_out(q, k, v, self.future)
        return self.project(mixed.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.contract(F.gelu(self.expand(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, facts, device):
        super().__init__()
        width, context = facts["width"], facts["context"]
        future = torch.ones(context, context, dtype=torch.bool, device=device).triu(1)
        self.symbol = nn.Embedding(facts["classes"], width)
        self.position = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(
            Block(width, facts["heads"], future) for _ in range(facts["layers"]))
        self.norm = nn.LayerNorm(width)
        self.places = torch.arange(context, device=device)

    def loss(self, x, target):
        x = self.symbol(x) + self.position(self.places)
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.symbol.weight)
        return F.cross_entropy(logits.flatten(0, 1), target.flatten())


MODELS = {"mlp": Mlp, "cnn": Cnn, "gpt": Gpt, "resnet": Resnet}


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


def optimizer_of(parameters, facts):
    if facts["optimizer"] == "adamw":
        return torch.optim.AdamW(parameters, lr=facts["rate"], betas=(0.9, facts["beta2"]),
                                 weight_decay=facts["weight_decay"])
    return torch.optim.SGD(parameters, lr=facts["rate"], momentum=facts["momentum"],
                           weight_decay=facts["weight_decay"])


class Training:
    def __init__(self, options, device, rank, ranks):
        problem = options.problem
        with open(f"{problem}/problem.json", encoding="utf-8") as file:
            facts = json.load(file)
        model = MODELS[facts["family"]](facts, device)
        load_weights(model, problem, facts)
        model.to(device)
        shape = [facts["batches"], facts["ranks"], facts["batch"]]
        kind = torch.int64 if facts["family"] == "gpt" else torch.float32
        inputs = tensor_of(f"{problem}/inputs", kind).view(shape + facts["input"])
        targets = tensor_of(f"{problem}/targets", torch.int64).view(shape + facts["target"])
        self.inputs = [batch.contiguous().to(device) for batch in inputs[:, rank]]
        self.targets = [batch.contiguous().to(device) for batch in targets[:, rank]]
        if options.channels_last and self.inputs[0].dim() == 4:
            model.to(memory_format=torch.channels_last)
            self.inputs = [batch.contiguous(memory_format=torch.channels_last)
                           for batch in self.inputs]
        self.model = WithLoss(model)
        self.model.train()
        if not options.plain:
            self.model = nn.parallel.DistributedDataParallel(
                self.model, device_ids=[device.index] if device.type == "cuda" else None)
        self.optimizer = optimizer_of(self.model.parameters(), facts)
        self.precision = options.precision
        self.device = device
        self.steps = 0
        self.ranks = ranks

    def forward_scope(self):
        if self.precision == "bfloat16":
            return torch.autocast(self.device.type, dtype=torch.bfloat16)
        return contextlib.nullcontext()

    def step(self):
        batch = self.steps % len(self.inputs)
        self.optimizer.zero_grad()
        with self.forward_scope():
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


def run_on_gpu(training, steps):
    for _ in range(max(WARM_UP_STEPS, steps // 5)):
        training.step()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(steps):
        training.step()
    torch.cuda.synchronize()
    return [f"{(time.perf_counter() - start) / steps * 1e6:.1f}"]


def parse_options():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("problem")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--device", required=True)
    parser.add_argument("--precision", required=True)
    parser.add_argument("--tf32", action="store_true")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--plain", action="store_true")
    return parser.parse_args()


def device_of(options, rank):
    """The ranks are assigned the GPUs round-robin."""
    if options.device != "cuda":
        return torch.device("cpu")
    device = torch.device("cuda", rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device


def main():
    options = parse_options()
    folder = options.folder
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(options.threads)
    if options.tf32:
        torch.set_float32_matmul_precision("high")
    device = device_of(options, rank)
    out = os.open(f"{folder}/out", os.O_WRONLY)
    if not options.plain:
        # NCCL refuses ranks that share a GPU.
        has_own_gpu = device.type == "cuda" and ranks <= torch.cuda.device_count()
        dist.init_process_group("nccl" if has_own_gpu else "gloo",
                                init_method=f"file://{folder}/store", rank=rank, world_size=ranks,
                                timeout=timedelta(minutes=30))
    training = Training(options, device, rank, ranks)
    time_steps = run_on_gpu if device.type == "cuda" else run
    with open(f"{folder}/in.{rank}", encoding="ascii") as commands:
        os.write(out, f"ready {rank} {torch.__version__}\n".encode())
        for line in commands:
            name, steps = line.split()
            values = (check if name == "check" else time_steps)(training, int(steps))
            answer = [f"done {rank} -"] + (values if rank == 0 else [])
            os.write(out, (" ".join(answer) + "\n").encode())
    sys.stdout.flush()
    os._exit(0)  # no teardown: the peers exit at the same moment


main()
