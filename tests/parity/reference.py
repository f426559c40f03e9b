#!/usr/bin/env python3
"""Holds Troupe's networks to torchvision's.

For each network: makes it with torchvision (the others are written out below),
computes logits, gradients and running statistics for a batch in eval and in train
mode with weights of its own, writes all of it to a temporary safetensors file, and
lets troupe_parity compute the same from the same weights. Dropout is off: its masks
are not PyTorch's. Everything is computed in float64; weights are float32 numbers, and
gradients are rounded to float32 in the file. Exits 1 if a network differs.

Usage: reference.py TROUPE_PARITY [--side PIXELS] [--batch N] [NETWORK...]
`--side` is for the networks that take images of any size. Without names: some of
each family; with TROUPE_ALL_NETWORKS in the environment: all.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import torchvision.models
from torch import nn
from torch.nn import functional as F

RESNETS = [f"resnet{d}" for d in (18, 34, 50, 101, 152)]
VGGS = [f"vgg{d}{n}" for d in (11, 13, 16, 19) for n in ("", "_bn")]
CIFAR_RESNETS = [f"resnet{d}" for d in (20, 32, 44, 56, 110)]

#: Of each family its smallest, and what has blocks or layers of another kind.
USUAL = [
    "lenet", "mnist_net", "resnet18", "resnet50", "vgg11", "resnet18_cifar", "resnet101_cifar",
    "vgg11_cifar", "vgg13_bn_cifar", "vgg19_bn_cifar", "resnet20", "resnet110",
]


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 20, 5)
        self.conv2 = nn.Conv2d(20, 50, 5)
        self.fc1 = nn.Linear(800, 500)
        self.fc2 = nn.Linear(500, 10)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.conv2(x), 2))
        return self.fc2(self.fc1(x.flatten(1)))


class MnistNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        self.fc1 = nn.Linear(9216, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):
        x = F.relu(self.conv2(F.relu(self.conv1(x))))
        return self.fc2(F.relu(self.fc1(F.max_pool2d(x, 2).flatten(1))))


class PaddedBlock(nn.Module):
    """Two 3x3 convolutions; the shortcut is option A of He et al. 2016."""

    def __init__(self, before, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.more = width - before
        self.stride = stride

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        half = self.more // 2
        short = F.pad(x[:, :, ::self.stride, ::self.stride],
                      (0, 0, 0, 0, half, self.more - half))
        return F.relu(y + short)


class CifarResNet(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        before = 16
        for i, width in enumerate((16, 32, 64)):
            blocks = []
            for k in range((depth - 2) // 6):
                blocks.append(PaddedBlock(before, width, 2 if i and not k else 1))
                before = width
            setattr(self, f"layer{i + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(64, 10)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(x.mean((2, 3)))


def for_cifar(name):
    """torchvision's network with ps_pytorch's changes for images of 32x32."""
    net = make(name, classes=10)
    if name.startswith("resnet"):
        net.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        net.maxpool = nn.Identity()
    else:
        net.avgpool = nn.Identity()
        net.classifier = nn.Sequential(
            nn.Dropout(0), nn.Linear(512, 512), nn.ReLU(), nn.Dropout(0),
            nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    return net


def make(name, classes=1000):
    more = {"dropout": 0.0} if name.startswith("vgg") else {}
    return getattr(torchvision.models, name)(num_classes=classes, **more)


def network(name, side):
    """The network and the shape of its inputs."""
    if name == "lenet":
        return LeNet(), (1, 28, 28)
    if name == "mnist_net":
        return MnistNet(), (1, 28, 28)
    if name in CIFAR_RESNETS:
        return CifarResNet(int(name.removeprefix("resnet"))), (3, 32, 32)
    if name.endswith("_cifar"):
        return for_cifar(name.removesuffix("_cifar")), (3, 32, 32)
    return make(name), (3, side, side)


def shake(net):
    """Running statistics and scales that a wrong use would show."""
    for key, value in net.named_buffers():
        if key.endswith("running_mean"):
            value.copy_(torch.randn_like(value) * 0.1)
        elif key.endswith("running_var"):
            value.copy_(torch.rand_like(value) + 0.5)


def step(net, training, inputs, targets, out):
    net.train(training)
    mode = "train" if training else "eval"
    net.zero_grad()
    logits = net(inputs)
    F.cross_entropy(logits, targets).backward()
    out[f"{mode}.logits"] = logits.detach()
    for key, value in net.named_parameters():
        out[f"{mode}.gradient.{key}"] = value.grad.float()
    for key, value in net.named_buffers():
        out[f"{mode}.buffer.{key}"] = value.clone()


def record(name, side, batch):
    torch.manual_seed(1)
    net, shape = network(name, side)
    shake(net)
    keys = list(net.state_dict())
    out = {f"state.{key}": value.clone() for key, value in net.state_dict().items()}
    net.double()
    out["inputs"] = torch.randn(batch, *shape, dtype=torch.float64)
    with torch.no_grad():
        classes = net(out["inputs"]).shape[1]
    net.load_state_dict({key: out[f"state.{key}"] for key in keys})
    out["targets"] = torch.randint(classes, (batch,))
    for training in (False, True):
        step(net, training, out["inputs"], out["targets"], out)
    return out, {"keys": "\n".join(keys), "classes": str(classes)}


def write(path, tensors, metadata):
    names = {torch.float64: "F64", torch.int64: "I64", torch.float32: "F32"}
    order = sorted(tensors, key=lambda name: -tensors[name].element_size())
    header, end = {"__metadata__": metadata}, 0
    for name in order:
        value = tensors[name]
        begin, end = end, end + value.numel() * value.element_size()
        header[name] = {"dtype": names[value.dtype], "shape": list(value.shape),
                        "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in order:
            tensors[name].contiguous().numpy().tofile(file)


def main():
    known = ["lenet", "mnist_net", *RESNETS, *VGGS,
             *(f"{name}_cifar" for name in RESNETS + VGGS), *CIFAR_RESNETS]
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--side", type=int, default=64)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("networks", nargs="*", choices=[[], *known])
    given = parser.parse_args()
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, torchvision {torchvision.__version__}")
    names = given.networks or known
    if not given.networks and "TROUPE_ALL_NETWORKS" not in os.environ:
        names = USUAL
        print("left out, see TROUPE_ALL_NETWORKS:", *sorted({*known} - {*names}))
    failed = 0
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "reference.safetensors"
            write(path, *record(name, given.side, given.batch))
            failed += subprocess.run([given.program, name, path]).returncode != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
