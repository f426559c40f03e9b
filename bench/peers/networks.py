"""The networks that loops in Python train beside Troupe's, the shapes of their inputs,
and the optimiser."""

import torch
from torch import nn

SHAPES = {
    "lenet": (1, 28, 28),
    "mnist_net": (1, 28, 28),
    "resnet18": (3, 32, 32),
    "wide": (1, 28, 28),
}


def shortcut(before, after, stride):
    """What a residual block adds its input by: as it is, where it has the right shape."""
    if stride == 1 and before == after:
        return nn.Identity()
    return nn.Sequential(
        nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)
    )


class Residual(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(before, after, 3, stride, 1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(),
            nn.Conv2d(after, after, 3, 1, 1, bias=False),
            nn.BatchNorm2d(after),
        )
        self.short = shortcut(before, after, stride)

    def forward(self, x):
        return torch.relu(self.body(x) + self.short(x))


def resnet18():
    layers = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    before = 64
    for after in (64, 128, 256, 512):
        layers.append(Residual(before, after, 1 if after == 64 else 2))
        layers.append(Residual(after, after, 1))
        before = after
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10)]
    return nn.Sequential(*layers)


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 20, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(20, 50, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(800, 500),
        nn.Linear(500, 10),
    )


def mnist_net():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout2d(0.25),
        nn.Flatten(),
        nn.Linear(9216, 128),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(128, 10),
    )


def wide():
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, 14000), nn.ReLU(), nn.Linear(14000, 10)
    )


def make_network(name):
    torch.manual_seed(1)
    networks = [lenet, mnist_net, resnet18, wide]
    return {one.__name__: one for one in networks}[name]()


def make_optimizer(parameters):
    return torch.optim.SGD(parameters, lr=1e-3, momentum=0.9)
