#!/usr/bin/env python3
"""Compares Troupe's images and data sets with those of PIL and torchvision.

Usage: data_reference.py TROUPE_DATA_PARITY
Makes files of all kinds in a folder of its own, has them read by both, and prints
the largest and the mean difference of each kind in levels of 255. Exits 1 when one
is above what is allowed: IDX, CIFAR, PNG, jitter, shares 0; JPEG 1; resize 0.01 in the mean.
"""

import gzip
import pickle
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DistributedSampler
from torchvision import datasets, transforms
from torchvision.transforms import functional as F

random = np.random.default_rng(1)


def scene(height, width, channels=3):
    """Smooth shapes, edges and some noise."""
    y, x = np.mgrid[0:height, 0:width].astype(float)
    planes = []
    for _ in range(channels):
        a, b, c = random.uniform(0.02, 0.3, 3)
        plane = 128 + 60 * np.sin(a * x + c) + 50 * np.cos(b * y)
        plane += 70 * ((x - width / 2) ** 2 + (y - height / 2) ** 2
                       < (min(height, width) / random.uniform(3, 6)) ** 2)
        planes.append(plane + random.normal(0, 4, (height, width)))
    out = np.clip(np.stack(planes, -1), 0, 255).astype(np.uint8)
    return out[..., 0] if channels == 1 else out


class Comparison:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        self.commands, self.expected = [], []

    def want(self, kind, command, reference):
        out = self.folder / f"{len(self.expected)}.raw"
        self.commands.append(f"{command} {out}")
        self.expected.append((kind, out, np.asarray(reference), command))

    def run(self):
        subprocess.run([self.program], input="\n".join(self.commands), text=True,
                       check=True)
        found = {}
        for kind, out, reference, command in self.expected:
            mine = np.fromfile(out, np.uint8).reshape(reference.shape)
            gap = np.abs(mine.astype(int) - reference.astype(int))
            most, total, count, worst = found.get(kind, (0, 0, 0, ""))
            if gap.max() > most:
                worst = command
            found[kind] = (max(most, int(gap.max())), total + int(gap.sum()),
                           count + gap.size, worst)
        return found


def save_images(folder):
    """Files of all kinds, by what they are."""
    made = {"PNG": [], "JPEG": []}
    sizes = [(1, 1), (7, 5), (33, 64), (97, 131), (240, 320), (375, 500)]
    for i, (h, w) in enumerate(sizes):
        rgb = Image.fromarray(scene(h, w))
        gray = Image.fromarray(scene(h, w, 1))
        alpha = Image.fromarray(scene(h, w, 4), "RGBA")
        deep = Image.fromarray((scene(h, w, 1).astype(np.uint16) * 7))
        for name, image in [
                ("rgb", rgb), ("gray", gray), ("alpha", alpha),
                ("gray-alpha", alpha.convert("LA")), ("palette", rgb.quantize(200)),
                ("palette-4", rgb.quantize(13)), ("bits", gray.convert("1")),
                ("deep", deep)]:
            file = folder / f"{name}-{i}.png"
            image.save(file)
            made["PNG"].append(file)
        file = folder / f"clear-palette-{i}.png"
        rgb.quantize(9).save(file, transparency=3)
        made["PNG"].append(file)
        for quality in (30, 75, 95):
            for sampling in (0, 1, 2):
                for progressive in (False, True):
                    file = folder / f"{i}-{quality}-{sampling}-{progressive}.jpg"
                    rgb.save(file, quality=quality, subsampling=sampling,
                             progressive=progressive)
                    made["JPEG"].append(file)
        for name, image in [("gray", gray), ("cmyk", rgb.convert("CMYK"))]:
            file = folder / f"{name}-{i}.jpeg"
            image.save(file, quality=90)
            made["JPEG"].append(file)
    return made


def opened(file):
    return np.asarray(Image.open(file).convert("RGB"))


def compare_images(to, files):
    for kind, all_files in files.items():
        for file in all_files:
            reference = opened(file)
            to.want(kind, f"decode {file}", reference)
            h, w = reference.shape[:2]
            for _ in range(3):
                top, left = random.integers(0, h), random.integers(0, w)
                ph = random.integers(1, h - top + 1)
                pw = random.integers(1, w - left + 1)
                to.want(f"{kind} part", f"part {file} {top} {left} {ph} {pw}",
                        reference[top:top + ph, left:left + pw])


def compare_transforms(to, folder):
    for i, (h, w) in enumerate([(375, 500), (500, 333), (64, 64), (20, 300),
                                (257, 256), (100, 91)]):
        file = folder / f"scene-{i}.png"
        Image.fromarray(scene(h, w)).save(file)
        image = Image.open(file).convert("RGB")
        for oh, ow in [(224, 224), (32, 48), (h, 17), (19, w), (600, 700), (h, w)]:
            to.want("resize", f"resize {file} {oh} {ow}",
                    F.resize(image, [oh, ow]))
        for side in (224, 32, 56):
            usual = transforms.Compose([transforms.Resize(side * 8 // 7),
                                        transforms.CenterCrop(side)])
            to.want("resize + centre crop", f"evaluate {file} {side}", usual(image))
        for _ in range(8):
            order = random.permutation(4)
            drawn = [random.uniform(0.2, 1.8), random.uniform(0.2, 1.8),
                     random.uniform(0.2, 1.8), random.uniform(-0.5, 0.5)]
            steps = [F.adjust_brightness, F.adjust_contrast, F.adjust_saturation,
                     F.adjust_hue]
            used = [random.random() < 0.8 for _ in range(4)]
            changed = image
            for step in order:
                if used[step]:
                    changed = steps[step](changed, drawn[step])
            words = [repr(float(x)) if u else "-" for x, u in zip(drawn, used)]
            to.want("jitter", f"jitter {file} {''.join(map(str, order))} "
                              + " ".join(words), changed)


def idx(array):
    head = bytes([0, 0, 8, array.ndim])
    return head + b"".join(int(n).to_bytes(4, "big") for n in array.shape) \
        + array.tobytes()


def rows(images, labels):
    images = np.asarray(images, np.uint8).reshape(len(labels), -1)
    labels = np.asarray(labels, np.uint8).reshape(-1, 1)
    return np.concatenate([labels, images], 1)


def compare_sets(to, folder):
    for name, where, reader in [("mnist", "MNIST", datasets.MNIST),
                                ("fashion-mnist", "FashionMNIST",
                                 datasets.FashionMNIST)]:
        raw = folder / name / where / "raw"
        raw.mkdir(parents=True)
        for part, n in [("train", 50), ("t10k", 20)]:
            images = random.integers(0, 256, (n, 28, 28), np.uint8)
            labels = random.integers(0, 10, n, np.uint8)
            for kind, array in [("images-idx3", images), ("labels-idx1", labels)]:
                (raw / f"{part}-{kind}-ubyte").write_bytes(idx(array))
                (raw / f"{part}-{kind}-ubyte.gz").write_bytes(
                    gzip.compress(idx(array)))
        want_set(to, "IDX", name, folder / name,
                 lambda train: reader(folder / name, train=train))
    emnist = folder / "emnist"
    raw = emnist / "EMNIST" / "raw"
    raw.mkdir(parents=True)
    for part in ("train", "test"):
        images = random.integers(0, 256, (30, 28, 28), np.uint8)
        labels = random.integers(1, 27, 30, np.uint8)
        for kind, array in [("images-idx3", images), ("labels-idx1", labels)]:
            (raw / f"emnist-letters-{part}-{kind}-ubyte").write_bytes(idx(array))
    want_set(to, "IDX", "emnist-letters", emnist,
             lambda train: datasets.EMNIST(emnist, "letters", train=train))
    for name in ("cifar10", "cifar100"):
        compare_cifar(to, folder / name, name)


def compare_cifar(to, folder, name):
    """torchvision reads pickles: the same records, written both ways."""
    binary = folder / ("cifar-10-batches-bin" if name == "cifar10"
                       else "cifar-100-binary")
    binary.mkdir(parents=True)
    files = ([(f"data_batch_{i}", f"data_batch_{i}.bin") for i in range(1, 6)]
             + [("test_batch", "test_batch.bin")]) if name == "cifar10" else \
        [("train", "train.bin"), ("test", "test.bin")]
    python = folder / "python"
    python.mkdir()
    classes = 10 if name == "cifar10" else 100
    for pickled, raw in files:
        data = random.integers(0, 256, (40, 3072), np.uint8)
        fine = random.integers(0, classes, 40, np.uint8)
        coarse = random.integers(0, 20, 40, np.uint8)
        heads = [fine] if name == "cifar10" else [coarse, fine]
        (binary / raw).write_bytes(
            np.concatenate([*(x[:, None] for x in heads), data], 1).tobytes())
        key = "labels" if name == "cifar10" else "fine_labels"
        (python / pickled).write_bytes(
            pickle.dumps({"data": data, key: fine.tolist()}))
    base = datasets.CIFAR10 if name == "cifar10" else datasets.CIFAR100

    class Unchecked(base):
        base_folder = "python"
        train_list = [[p, ""] for p, _ in files[:-1]]
        test_list = [[files[-1][0], ""]]

        def _check_integrity(self):
            return True

        def _load_meta(self):
            pass

    want_set(to, "CIFAR", name, folder,
             lambda train: Unchecked(str(folder), train=train))


def want_set(to, kind, name, folder, reader):
    parts = [reader(True), reader(False)]
    tables = [rows([np.asarray(image) for image, _ in part],
                   [label for _, label in part]) for part in parts]
    out = to.folder / f"{name}-train.raw"
    to.commands.append(f"set {name} {folder} {out} {to.folder / name}-test.raw")
    to.expected.append((kind, out, tables[0], name))
    to.expected.append((kind, Path(f"{to.folder / name}-test.raw"), tables[1], name))


def compare_folder(to, folder):
    root = folder / "folder"
    for part in ("train", "val"):
        for name in ("b", "a-c", "a", "Z"):
            for below in ("", "x/", "x-y/", "x/z/"):
                (root / part / name / below).mkdir(parents=True, exist_ok=True)
                for file in ("2.PNG", "10.png", "1.jpeg.png"):
                    Image.fromarray(scene(6, 5)).save(
                        root / part / name / below / file, "PNG")
    want_set(to, "folder", "folder", root,
             lambda train: datasets.ImageFolder(root / ("train" if train else "val")))


def compare_shares(to):
    """Who gets which place of an epoch's order."""
    for samples, ranks in ((10, 3), (100, 7), (3, 8), (240, 4)):
        for rank in range(ranks):
            for drop_last in (False, True):
                theirs = list(DistributedSampler(
                    range(samples), ranks, rank, shuffle=False, drop_last=drop_last))
                if theirs:
                    to.want("shares", f"share {samples} {ranks} {rank} 2 {len(theirs)}",
                            np.array(theirs, np.uint8))


def compare_speed(program, folder):
    """Decode, RandomResizedCrop to 224, flip, normalise; one thread each."""
    root = folder / "speed"
    for part, n in (("train", 256), ("val", 1)):
        (root / part / "class").mkdir(parents=True)
        for i in range(n):
            image = scene(375, 500).astype(int) + random.integers(-20, 20, (375, 500, 3))
            Image.fromarray(np.clip(image, 0, 255).astype(np.uint8)).save(
                root / part / "class" / f"{i}.jpg", quality=90)
    torch.set_num_threads(1)
    reader = datasets.ImageFolder(root / "train", transforms.Compose([
        transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]))
    mine, theirs = [], []
    for _ in range(3):
        mine.append(1 / float(subprocess.run(
            [program], input=f"speed {root}\n", text=True, check=True,
            capture_output=True).stdout))
        begin = time.process_time()
        for first in range(0, 256, 64):
            torch.stack([reader[i][0] for i in range(first, first + 64)])
        theirs.append(256 / (time.process_time() - begin))
    print(f"JPEG 500x375 to 224, images a second of a core: {np.median(mine):.0f}, "
          f"torchvision {np.median(theirs):.0f}, "
          f"ratio {np.median(mine) / np.median(theirs):.2f}")


def allowed(kind, most, mean):
    if kind.startswith("JPEG"):
        return most <= 1
    if kind.startswith("resize"):
        return mean <= 1e-2
    return most == 0


def main():
    print(f"torch {torch.__version__}, PIL {Image.__version__}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        to = Comparison(sys.argv[1], folder)
        compare_images(to, save_images(folder))
        compare_transforms(to, folder)
        compare_sets(to, folder)
        compare_folder(to, folder)
        compare_shares(to)
        good = True
        for kind, (most, total, count, worst) in to.run().items():
            fits = allowed(kind, most, total / count)
            good = good and fits
            print(f"{'ok  ' if fits else 'FAIL'} {kind}: largest {most}, mean "
                  f"{total / count:.2e} of {count} bytes"
                  + ("" if fits else f"; worst: {worst}"))
        compare_speed(sys.argv[1], folder)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
