"""A small GPT that learns to write the bytes of a text.

    python gpt.py serve TEXT --workers 2 &
    python gpt.py TEXT & python gpt.py TEXT &

The server trains with AdamW, without weight decay of biases and norms. The learning
rate follows a cosine after a warm-up, and gradients are clipped. The embedding and the
last layer share their weights.

With `--local-steps 32`, for all of them, each worker trains with an AdamW of its own, and
only each 32nd step pushes what has changed: for a slow network between the machines.
"""

import argparse
import sys
from pathlib import Path

import torch
import troupe
from torch import nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.attend = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        n, length, width = x.shape
        parts = self.attend(self.norm1(x)).view(n, length, 3, self.heads, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.project(seen.transpose(1, 2).reshape(n, length, width))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    def __init__(self, length, width, depth, heads):
        super().__init__()
        self.embed = nn.Embedding(256, width)
        self.place = nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 256, bias=False)
        for table in (self.embed, self.place):
            nn.init.normal_(table.weight, std=0.02)
        self.head.weight = self.embed.weight

    def forward(self, text):
        places = torch.arange(text.shape[1], device=text.device)
        return self.head(self.norm(self.blocks(self.embed(text) + self.place(places))))


class Bytes(torch.utils.data.Dataset):
    """Pieces of a text, each with its target: the same piece, one byte later."""

    def __init__(self, file, length):
        self.text = torch.frombuffer(bytearray(Path(file).read_bytes()), dtype=torch.uint8)
        self.length = length

    def __len__(self):
        return (len(self.text) - 1) // self.length

    def __getitem__(self, index):
        piece = self.text[index * self.length :][: self.length + 1].long()
        return piece[:-1], piece[1:]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", nargs="*", metavar="[serve] TEXT")
    for name, default in [("length", 128), ("width", 128), ("depth", 4), ("heads", 4),
                          ("workers", 2), ("epochs", 10), ("batch", 32), ("port", 4242),
                          ("local-steps", None)]:
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--lr", type=float, default=0.002)
    given = parser.parse_args()
    torch.manual_seed(1)
    model = Gpt(given.length, given.width, given.depth, given.heads)
    data = Bytes(given.what[-1], given.length)
    if given.what[0] == "serve":
        optimizer = {
            "optimizer": "adamw", "lr": given.lr, "weight_decay": 0.1,
            "weight_decay_exclude": "bias+norm", "warmup_epochs": given.epochs / 10,
            "lr_schedule": "cosine", "clip_norm": 1,
        }
        if given.local_steps:  # It steps along what the workers have changed.
            optimizer = {
                "local_steps": given.local_steps, "optimizer": "sgd", "lr": 0.7,
                "momentum": 0.9, "nesterov": True,
            }
        sys.exit(troupe.serve(
            model, dataset_size=len(data), dataset_id="text", port=given.port,
            workers=given.workers, epochs=given.epochs, batch_size=given.batch, **optimizer,
        ))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model.to(device)
    own = None
    if given.local_steps:
        own = torch.optim.AdamW(model.parameters(), given.lr, weight_decay=0.1)
    with troupe.Worker(
        model, dataset_size=len(data), dataset_id="text", port=given.port,
        local_steps=given.local_steps,
    ) as worker:
        for text, following in worker.loader(data):
            scores = model(text.to(device))
            loss = cross_entropy(scores.flatten(0, 1), following.to(device).flatten())
            loss.backward()
            if own:
                nn.utils.clip_grad_norm_(model.parameters(), 1)
                own.step()
                own.zero_grad()
            worker.step(loss)


if __name__ == "__main__":
    main()
