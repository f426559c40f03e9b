"""The GPT of python/examples on the bytes of a text, as rounds.py trains it.

    text.py describe FOLDER       writes FOLDER/gpt.safetensors
    text.py score FOLDER          an evaluator
    text.py work FOLDER H LR EPOCHS
                                 a worker; H local steps with AdamW(LR), or 0

FOLDER/text is the text, whose last tenth is for testing. SEED in the environment is that
of the first weights. An epoch has so many pieces that its batches make whole rounds.
"""

import os
import sys
from pathlib import Path

import torch
import troupe
from torch import nn
from torch.nn.functional import cross_entropy

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "python" / "examples"))
from gpt import Gpt  # noqa: E402

LENGTH, TRAIN, TEST, BATCH, WORKERS = 64, 8192, 512, 8, 4
DATA = {"dataset_size": TRAIN, "dataset_id": "text"}


def make_model():
    torch.manual_seed(int(os.environ.get("SEED", 1)))
    model = Gpt(LENGTH, width=64, depth=2, heads=4)
    # As small as the bytes' own: else the places drown them for a thousand steps.
    nn.init.normal_(model.place.weight, std=0.02)
    return model


def pieces(text, count):
    """So many pieces at equal distances, each with its target, a byte later."""
    text = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
    starts = torch.arange(count) * (len(text) - LENGTH - 1) // (count - 1)
    rows = text[starts[:, None] + torch.arange(LENGTH + 1)]
    return rows[:, :-1], rows[:, 1:]


def make_text(folder):
    """FOLDER/text of the documents, if it is not there."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    file = Path(folder) / "text"
    if not file.exists():
        documents = sorted((ROOT / "docs").rglob("*.md"))
        file.write_bytes(b"".join(x.read_bytes() for x in documents))


def read(folder):
    text = (Path(folder) / "text").read_bytes()
    cut = len(text) * 9 // 10
    return pieces(text[:cut], TRAIN), pieces(text[cut:], TEST)


def loss_of(model, x, y):
    return cross_entropy(model(x).flatten(0, 1), y.flatten())


def score(folder):
    model, (_, (x, y)) = make_model(), read(folder)
    with troupe.Evaluator(model, lambda found: {"loss": loss_of(found, x, y)}) as evaluator:
        evaluator.run()


def work(folder, local_steps, lr, epochs):
    model, ((x, y), _) = make_model(), read(folder)
    own = torch.optim.AdamW(model.parameters(), lr, weight_decay=0)
    steps = epochs * TRAIN // BATCH // WORKERS
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(own, steps)
    with troupe.Worker(model, local_steps=local_steps or None, **DATA) as worker:
        for lease in worker:
            indices = list(lease.indices)
            loss = loss_of(model, x[indices], y[indices])
            loss.backward()
            if local_steps:
                nn.utils.clip_grad_norm_(model.parameters(), 1)
                own.step()
                own.zero_grad()
                schedule.step()
            worker.step(loss)


if __name__ == "__main__":
    torch.set_num_threads(1)
    kind, folder, *rest = sys.argv[1:]
    if kind == "describe":
        troupe.describe(make_model(), str(Path(folder) / "gpt.safetensors"))
    elif kind == "score":
        score(folder)
    else:
        work(folder, int(rest[0]), float(rest[1]), int(rest[2]))
