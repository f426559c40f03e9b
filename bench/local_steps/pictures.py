"""Makes small colour pictures of the bundled handwritten digits, as a data set that is not
learned at once: each digit is turned, moved, resized and drawn in a colour over another
one, with a shadow of a second digit and with noise.

    pictures.py FOLDER

FOLDER gets train/CLASS/NUMBER.png and val/CLASS/NUMBER.png, 12x12 pixels, the same ones
each time. Those for testing are made of digits that no picture for training shows.
"""

import sys
from pathlib import Path

import numpy as np
from PIL import Image

DIGITS = Path(__file__).parents[2] / "data" / "digits"
SIDE, TRAIN, TEST, DIGITS_FOR_TEST = 12, 16384, 1024, 360


def read_digits():
    images = np.fromfile(DIGITS / "digits-images.idx3-ubyte", np.uint8)[16:]
    labels = np.fromfile(DIGITS / "digits-labels.idx1-ubyte", np.uint8)[8:]
    return images.reshape(-1, 8, 8).astype(np.float32) / 16, labels


def placed(digit, draw):
    """The digit's ink at each pixel, from 0 to 1."""
    angle, size = draw.uniform(-0.3, 0.3), draw.uniform(0.6, 0.85)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]) * size
    middle = SIDE / 2 + draw.uniform(-1, 1, 2)
    shift = 4 - turn @ middle
    words = (*turn[0], shift[0], *turn[1], shift[1])
    # A digit fills its 8x8 pixels: the border is ours.
    bordered = Image.fromarray(np.pad(digit, 4))
    words = (words[0], words[1], words[2] + 4, words[3], words[4], words[5] + 4)
    found = bordered.transform((SIDE, SIDE), Image.AFFINE, words, Image.BILINEAR)
    return np.asarray(found)[..., None]


def picture(digit, other, draw):
    below, ink, shade = draw.uniform(0, 1, (3, 3))
    while np.abs(ink - below).sum() < 1:
        ink = draw.uniform(0, 1, 3)
    shadow, mask = 0.2 * placed(other, draw), placed(digit, draw)
    out = below * (1 - shadow) + shade * shadow
    out = out * (1 - mask) + ink * mask + draw.normal(0, 0.08, (SIDE, SIDE, 3))
    return Image.fromarray((255 * out.clip(0, 1)).astype(np.uint8))


def write(folder, images, labels, count, draw):
    for label in range(10):
        (folder / str(label)).mkdir(parents=True, exist_ok=True)
    for i in range(count):
        which, other = draw.integers(len(images), size=2)
        made = picture(images[which], images[other], draw)
        made.save(folder / str(labels[which]) / f"{i}.png")


def make(folder):
    images, labels = read_digits()
    order = np.random.default_rng(0).permutation(len(images))
    test, train = order[:DIGITS_FOR_TEST], order[DIGITS_FOR_TEST:]
    write(Path(folder) / "train", images[train], labels[train], TRAIN, np.random.default_rng(1))
    write(Path(folder) / "val", images[test], labels[test], TEST, np.random.default_rng(2))


if __name__ == "__main__":
    make(sys.argv[1])
