"""What the Python blocks of the documents take for granted: the reader's own model,
data and loss. Each block begins as if it had all of this."""

import torch
import troupe
from torch import nn
from torch.utils.data import DataLoader, Dataset

SAMPLES = 2048


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(20, 32)
        self.norm = nn.BatchNorm1d(32)
        self.head = nn.Linear(32, 3)
        self.scale = nn.Parameter(torch.ones(1))
        self.teacher = nn.Linear(20, 3).requires_grad_(False)
        self.body.register_buffer("mask", torch.ones(32))

    def forward(self, x):
        return self.scale * self.head(torch.relu(self.norm(self.body(x))))


class MyDataset(Dataset):
    """Points, and which of three directions each lies in."""

    def __init__(self, samples=SAMPLES):
        generator = torch.Generator().manual_seed(7)
        self.x = torch.randn(samples, 20, generator=generator)
        directions = torch.randn(20, 3, generator=generator)
        self.y = (self.x @ directions).argmax(1)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index], self.y[index]


def load_test_set():
    return MyDataset(64)


def loss_of(model, test):
    return loss_fn(model(test.x), test.y).item()


def f1_of(model, test):
    found = model(test.x).argmax(1)
    values = []
    for kind in range(3):
        right = ((found == kind) & (test.y == kind)).sum().item()
        told = (found == kind).sum().item() + (test.y == kind).sum().item()
        values.append(2 * right / told if told else 0.0)
    return sum(values) / len(values)


loss_fn = nn.functional.cross_entropy
torch.set_num_threads(1)
torch.manual_seed(0)  # All processes begin with the same weights.
model, data = Net(), MyDataset()
inputs, labels = data.x, data.y
