"""The folders in which the documents' commands run: programs and files where the
commands name them, all of it small."""

import os
import random
import re
import struct
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.append(str(ROOT / "tests" / "parity"))
from ports import free_port
PROGRAM = Path(os.environ.get("TROUPE_TRAINER_NODE", "trainer_node")).absolute()

#: Of a training, unless the block says otherwise.
STEPS = "4"


def script(path, line):
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


def programs(folder):
    """What the reader has in PATH: trainer_node, python and torchrun."""
    folder.mkdir()
    (folder / "trainer_node").symlink_to(PROGRAM)
    script(folder / "python", f'exec "{sys.executable}" "$@"')
    script(
        folder / "torchrun", f'exec "{sys.executable}" -m torch.distributed.run "$@"'
    )


def clone(folder):
    """What the project's folder has, after its build."""
    folder.mkdir()
    (folder / "build" / "release").mkdir(parents=True)
    (folder / "build" / "release" / "bin").symlink_to(PROGRAM.parent)
    for name in ("config", "python"):
        (folder / name).symlink_to(ROOT / name)


def pixels(count):
    return random.Random(count).randbytes(count)


def make_mnist(folder):
    for part, count in (("train", 200), ("t10k", 40)):
        labels = bytes(i % 10 for i in range(count))
        (folder / f"{part}-images-idx3-ubyte").write_bytes(
            struct.pack(">4I", 0x803, count, 28, 28) + pixels(count * 28 * 28)
        )
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(
            struct.pack(">2I", 0x801, count) + labels
        )


def make_cifar(folder):
    for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        records = (bytes([i % 10]) + pixels(3072) for i in range(40))
        (folder / f"{name}.bin").write_bytes(b"".join(records))


def make_imagenet(folder):
    from PIL import Image

    for part, count in (("train", 48), ("val", 4)):
        for kind in ("n01440764", "n01443537"):
            (folder / part / kind).mkdir(parents=True)
            for number in range(count):
                picture = Image.frombytes("RGB", (48, 40), pixels(48 * 40 * 3))
                picture.save(folder / part / kind / f"{number}.JPEG")


DATA = {"mnist": make_mnist, "cifar": make_cifar, "imagenet": make_imagenet}


def make_data(folder, text):
    """The data sets that a document names, as /data/NAME."""
    for name, make in DATA.items():
        if f"/data/{name}" in text:
            (folder / name).mkdir(parents=True)
            make(folder / name)


def here(text, folder, port):
    """The text with this machine's names of folders, hosts and ports."""
    text = re.sub(r"(?<![\w./~-])/(data|shared)/", rf"{folder}/\1/", text)
    text = re.sub(r":43\d\d\b", lambda _: f":{free_port()}", text)  # --listen
    return text.replace("10.0.0.1", "127.0.0.1").replace(":4242", f":{port}")


def environment(folder, port, text):
    out = {x: y for x, y in os.environ.items() if not x.startswith("TROUPE_")}
    out |= {
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT / 'python'}:{HERE}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "PET_MASTER_PORT": str(port),  # torchrun's
        "TROUPE_TRAINER_NODE": str(PROGRAM),
        "TROUPE_TRAINING_MAX_STEPS": STEPS,
    }
    if "torchrun" not in text and "tcp://" not in text:
        out["TROUPE_CLUSTER_PORT"] = str(port)
    return out


def describe_network(folder, variables):
    """server.ini and the description of the network that it names."""
    sys.path.append(str(ROOT / "python"))
    from readers_program import SAMPLES

    subprocess.run(
        [sys.executable, "-c", "import readers_program, troupe;"
         "troupe.describe(readers_program.model, 'net.safetensors')"],
        cwd=folder, env=variables, check=True,
    )
    (folder / "server.ini").write_text(
        "[training]\nnetwork = weights:net.safetensors\n"
        f"[data]\ndataset = external(samples={SAMPLES},id=data)\n"
    )


def record_run(folder, variables):
    """A run with an event log in runs/net-1."""
    command = [sys.executable, "-m"]
    settings = ["train_dir=runs/net-1", "tape=true", "threads=1"]
    with open(folder / "recorded.log", "wb") as log:
        options = {"cwd": folder, "env": variables, "stdout": log, "stderr": log}
        server = subprocess.Popen([*command, "one_server", *settings], **options)
        try:
            subprocess.run([*command, "one_worker"], timeout=60, check=True, **options)
            if server.wait(60) != 0:
                raise RuntimeError((folder / "recorded.log").read_text())
        finally:
            server.kill()
            server.wait()


#: What a block takes for granted, by what its text names.
PREPARED = {"server.ini": describe_network, "runs/net-1": record_run}
