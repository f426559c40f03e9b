#!/usr/bin/env python3
"""Compares weights that go between PyTorch and Troupe, both ways.

In: files of torch.save (a state dict; those of DistributedDataParallel and
torch.compile; a checkpoint as the ImageNet example writes it) and safetensors begin a
run of Troupe, whose first score must be torchvision's to 1e-5. Out: what Troupe exports
must load with torch.load's defaults, strictly, with the bits of the checkpoint. Between:
a script with tied weights is trained by Troupe and by torch, whole and with a frozen
body, and both must end with the same weights. Exits 1 if anything differs.

Usage: weights_reference.py TRAINER_NODE
"""

import json
import subprocess
import sys
import tempfile
from collections import OrderedDict
from pathlib import Path

import numpy as np
import torch
import torchvision.models
from PIL import Image
from torch import distributed, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torchvision import datasets, transforms

CLASSES = 3
# Images of this size are only cropped: Resize makes 128 of a crop of 112.
SIDE, CROP = 128, 112
SAMPLES, STEPS, LR = 60, 10, 0.05
DATA = ["--network", "resnet18", "--dataset", "folder", "--image-size", str(CROP)]


def make_images(folder):
    random = np.random.default_rng(1)
    for part, count in (("train", 8), ("val", 12)):
        for label in range(CLASSES):
            where = folder / part / f"class{label}"
            where.mkdir(parents=True)
            for i in range(count):
                pixels = random.integers(0, 256, (SIDE, SIDE, 3), np.uint8)
                Image.fromarray(pixels).save(where / f"{i}.png")


def make_network():
    torch.manual_seed(1)
    net = torchvision.models.resnet18(num_classes=CLASSES)
    for key, value in net.named_buffers():
        if key.endswith("running_mean"):
            value.copy_(torch.randn_like(value) * 0.1)
        elif key.endswith("running_var"):
            value.copy_(torch.rand_like(value) + 0.5)
    return net.eval()


def score(net, folder):
    """Loss and accuracy over the test images, in float32 as Troupe's."""
    images = datasets.ImageFolder(folder / "val", transforms.Compose([
        transforms.Resize(SIDE), transforms.CenterCrop(CROP), transforms.ToTensor(),
        transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]))
    inputs = torch.stack([image for image, _ in images])
    targets = torch.tensor([label for _, label in images])
    with torch.no_grad():
        logits = net(inputs)
    loss = F.cross_entropy(logits, targets).item()
    return loss, (logits.argmax(1) == targets).float().mean().item()


def write_safetensors(path, tensors):
    names = {torch.int64: "I64", torch.float32: "F32"}
    header, end = {}, 0
    for name, value in tensors.items():
        begin, end = end, end + value.numel() * value.element_size()
        header[name] = {"dtype": names[value.dtype], "shape": list(value.shape),
                        "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for value in tensors.values():
            file.write(value.contiguous().numpy().tobytes())


def write_all(net, folder):
    """Files with the same weights, as others write them."""
    torch.save(net.state_dict(), folder / "plain.pt")
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting", rank=0, world_size=1)
    torch.save(DistributedDataParallel(net).state_dict(), folder / "ddp.pth")
    torch.save(torch.compile(net).state_dict(), folder / "compiled.pt")
    optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
    for parameter in net.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [30, 60])
    state = OrderedDict((f"module.{key}", value)
                        for key, value in net.state_dict().items())
    torch.save({"epoch": 3, "arch": "resnet18", "state_dict": state,
                "best_acc1": torch.tensor(0.5), "optimizer": optimizer.state_dict(),
                "scheduler": scheduler.state_dict()}, folder / "imagenet.pth.tar")
    torch.save(net.to(memory_format=torch.channels_last).state_dict(),
               folder / "channels_last.pt")
    torch.save({"model": {key: nn.Parameter(value, False) if value.is_floating_point()
                          else value for key, value in net.state_dict().items()}},
               folder / "parameters.pt")
    write_safetensors(folder / "weights.safetensors", net.state_dict())
    return ["plain.pt", "ddp.pth", "compiled.pt", "imagenet.pth.tar",
            "channels_last.pt", "parameters.pt", "weights.safetensors"]


def run(program, folder, *flags):
    subprocess.run([program, *flags], cwd=folder, check=True, stdout=subprocess.DEVNULL)


def first_score(program, folder, file):
    """Of a run that begins with the file."""
    run(program, folder, "--simulate", *DATA, "--data-dir", "images", "--init", file,
        "--train-dir", "run", "--overwrite", "--workers", "1", "--batch-size", "4",
        "--max-steps", "1", "--threads", "1")
    for line in (folder / "run/metrics.jsonl").read_text().splitlines():
        entry = json.loads(line)
        if entry["kind"] == "evaluation":
            assert entry["step"] == 0
            return entry["loss"], entry["accuracy"]


def tensors_of(path):
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {key: data[8 + size + entry["data_offsets"][0]:8 + size +
                      entry["data_offsets"][1]] for key, entry in header.items()}


def compare_in(program, folder, net):
    loss, accuracy = score(net, folder / "images")
    good = True
    for file in write_all(net, folder):
        found = first_score(program, folder, file)
        gap = max(abs(found[0] - loss) / loss, abs(found[1] - accuracy))
        good = good and gap <= 1e-5
        print(f"{file:20} loss {found[0]:.6f} there {loss:.6f}  gap {gap:.0e}"
              f"  {'equal' if gap <= 1e-5 else 'DIFFERENT'}")
    return good


def compare_out(program, folder):
    saved = tensors_of(folder / "run/checkpoints/step-00000001/model.safetensors")
    run(program, folder, "checkpoint", "export", "run", "--format", "pt", "--out", "x.pt")
    run(program, folder, "checkpoint", "export", "run", "--format", "safetensors",
        "--out", "x.safetensors")
    state = torch.load(folder / "x.pt")
    torchvision.models.resnet18(num_classes=CLASSES).load_state_dict(state, strict=True)
    good = all(value.numpy().tobytes() == saved[key] for key, value in state.items())
    good = good and state.keys() == saved.keys()
    good = good and tensors_of(folder / "x.safetensors") == saved
    print(f"exported: {len(state)} tensors  {'equal' if good else 'DIFFERENT'}")
    return good


class Tied(nn.Module):
    """Two layers with one weight, behind a body with batch normalisation."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 4, 5, stride=4), nn.BatchNorm2d(4),
                                  nn.ReLU(), nn.Flatten())
        self.first = nn.Linear(144, 144)
        self.second = nn.Linear(144, 144)
        self.second.weight = self.first.weight
        self.head = nn.Linear(144, 10)

    def forward(self, x):
        return self.head(torch.relu(self.second(torch.relu(self.first(self.body(x))))))


def make_digits(folder):
    """Random images and labels in the files of MNIST; as torch sees them."""
    random = np.random.default_rng(2)
    folder.mkdir()
    images = random.integers(0, 256, (SAMPLES, 28, 28), np.uint8)
    labels = random.integers(0, 10, SAMPLES).astype(np.uint8)
    for part in ("train", "t10k"):
        for name, magic, values in (("images-idx3", 0x803, images),
                                    ("labels-idx1", 0x801, labels)):
            head = np.array([magic, *values.shape], ">i4").tobytes()
            (folder / f"{part}-{name}-ubyte").write_bytes(head + values.tobytes())
    pixels = torch.from_numpy(images).float().unsqueeze(1) / 255
    return (pixels - 0.1307) / 0.3081, torch.from_numpy(labels).long()


def train_in_torch(net, data):
    optimizer = torch.optim.SGD((p for p in net.parameters() if p.requires_grad), LR,
                                momentum=0.9, weight_decay=1e-3)
    for _ in range(STEPS):
        optimizer.zero_grad()
        F.cross_entropy(net(data[0]), data[1]).backward()
        optimizer.step()


def train_in_troupe(program, folder, *flags):
    """Every step takes all samples, so that their order does not matter."""
    run(program, folder, "--simulate", "--network", "script:net.pt", "--allow-scripts",
        "--dataset", "mnist", "--data-dir", "digits", "--workers", "1", "--batch-size",
        str(SAMPLES), "--optimizer", "sgd", "--lr", str(LR), "--momentum", "0.9",
        "--weight-decay", "1e-3", "--max-steps", str(STEPS), "--threads", "1",
        "--train-dir", "trained", "--overwrite", *flags)
    (folder / "trained.pt").unlink(missing_ok=True)  # It replaces no file.
    run(program, folder, "checkpoint", "export", "trained", "--format", "pt", "--out",
        "trained.pt")
    return torch.load(folder / "trained.pt")


def compare_training(program, folder):
    data = make_digits(folder / "digits")
    torch.manual_seed(3)
    torch.jit.script(Tied().train()).save(str(folder / "net.pt"))
    good = True
    for what, flags in (("tied weights", []),
                        ("frozen body", ["--freeze", "body.*"])):
        net = torch.jit.load(folder / "net.pt")
        if flags:
            for parameter in net.body.parameters():
                parameter.requires_grad_(False)
            getattr(net.body, "1").eval()
        train_in_torch(net, data)
        found = train_in_troupe(program, folder, *flags)
        Tied().load_state_dict(found, strict=True)
        gap = max((found[key] - value).abs().max().item()
                  for key, value in net.state_dict().items())
        tied = found["first.weight"].data_ptr() == found["second.weight"].data_ptr()
        equal = gap <= 1e-5 and tied
        good = good and equal
        print(f"{what}: after {STEPS} steps, gap {gap:.0e}  "
              f"{'equal' if equal else 'DIFFERENT'}")
    return good


def main():
    torch.set_num_threads(1)
    program = str(Path(sys.argv[1]).resolve())
    print(f"torch {torch.__version__}, torchvision {torchvision.__version__}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_images(folder / "images")
        good = compare_in(program, folder, make_network())
        good = compare_out(program, folder) and good
        return 0 if compare_training(program, folder) and good else 1


if __name__ == "__main__":
    sys.exit(main())
