"""Trains ResNet-18 on a folder of pictures, with torchvision's data set and
transforms: all of its layers or, with --finetune, the last one alone.

    python pictures.py serve FOLDER --workers 2 &
    python pictures.py FOLDER & python pictures.py FOLDER &

FOLDER has a folder of pictures for each class.
"""

import argparse
import sys

import torch
import troupe
from torch import nn
from torchvision import datasets, models, transforms


def make_model(classes, finetune, weights):
    torch.manual_seed(1)
    model = models.resnet18()
    if weights:
        model.load_state_dict(torch.load(weights, weights_only=True))
    model.requires_grad_(not finetune)
    model.fc = nn.Linear(model.fc.in_features, classes)
    return model


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", nargs="*", metavar="[serve] FOLDER")
    parser.add_argument("--finetune", action="store_true", help="train the last layer alone")
    parser.add_argument("--weights", help="a state dict of torchvision's to begin with")
    for name, default in [("side", 224), ("workers", 2), ("epochs", 10), ("batch", 32),
                          ("loaders", 2), ("port", 4242)]:
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    data = datasets.ImageFolder(given.what[-1], transforms.Compose([
        transforms.RandomResizedCrop(given.side),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
    ]))
    model = make_model(len(data.classes), given.finetune, given.weights)
    if given.what[0] == "serve":
        sys.exit(troupe.serve(
            model, dataset_size=len(data), dataset_id="pictures", port=given.port,
            workers=given.workers, epochs=given.epochs, batch_size=given.batch,
            lr=0.05, momentum=0.9, weight_decay=0 if given.finetune else 1e-4,
        ))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model.to(device)
    model.train(not given.finetune)  # In eval mode frozen norms keep their statistics.
    with troupe.Worker(
        model, dataset_size=len(data), dataset_id="pictures", port=given.port
    ) as worker:
        for x, y in worker.loader(data, num_workers=given.loaders):
            loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
            loss.backward()
            worker.step(loss)


if __name__ == "__main__":
    main()
