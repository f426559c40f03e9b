"""The wheel, in a Python that has torch and nothing of this project."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

import torch

ROOT = Path(__file__).parents[2]
TOY = Path(__file__).parent

#: What every system has, by PEP 600.
EVERYWHERE = re.compile(
    r"(ld-linux.*|lib(c|m|dl|rt|pthread|util|resolv|stdc\+\+|gcc_s)\.so\..*)"
)

PROGRAM = """
import json, sys, toy, troupe
file = troupe.describe(toy.model(), "toy.safetensors")
open("run.ini", "w").write(
    f"[training]\\nnetwork = weights:{file}\\nepochs = 3\\nlr = 0.05\\ntrain-dir = run\\n"
    f"[data]\\ndataset = external(samples={toy.SAMPLES},id=toy)\\n")
status = troupe.launch("run.ini", 2, sys.argv[1], "0", ".")
run = troupe.Run("run")
print(json.dumps([status, run.summary, toy.accuracy(run.state_dict("last"))]))
"""


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="troupe-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        subprocess.run([ROOT / "dev", "wheel"], check=True, stdout=subprocess.DEVNULL)
        (cls.wheel,) = (ROOT / "build" / "wheel").glob("*.whl")
        cls.python = cls.folder / "venv" / "bin" / "python"
        subprocess.run(
            [sys.executable, "-m", "venv", "--without-pip", cls.folder / "venv"], check=True
        )
        (cls.packages,) = (cls.folder / "venv" / "lib").glob("python*/site-packages")
        for package in Path(torch.__file__).parents[1].iterdir():
            (cls.packages / package.name).symlink_to(package)
        pip = next(
            x
            for x in ("/usr/bin/python3", shutil.which("python3"))
            if not subprocess.run([x, "-c", "import pip"], stderr=subprocess.DEVNULL).returncode
        )
        subprocess.run(
            [pip, "-m", "pip", "--python", cls.python, "install", "--quiet", "--no-deps"]
            + ["--no-index", "--disable-pip-version-check", cls.wheel],
            check=True,
        )

    def run_there(self, *command, path=(TOY,), folder=None):
        """With nothing of this user's environment."""
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(self.folder)}
        environment["PYTHONPATH"] = ":".join(map(str, path))
        return subprocess.run(
            [str(x) for x in command],
            cwd=folder or self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        ).stdout

    def test_name_and_content(self):
        self.assertRegex(
            self.wheel.name, r"^troupe-[0-9.]+-py3-none-manylinux_2_\d+_x86_64\.whl$"
        )
        with zipfile.ZipFile(self.wheel) as content:
            names = content.namelist()
            (about,) = (x for x in names if x.endswith("METADATA"))
            self.assertRegex(content.read(about), rb"Requires-Dist: torch \(?==2\.11\.\*")
        self.assertIn("troupe/py.typed", names)
        libraries = [x for x in names if x.startswith("troupe/lib/")]
        notices = [x for x in names if x.startswith("troupe/notices/")]
        self.assertIn("troupe/notices/caf.txt", notices)
        self.assertIn("troupe/notices/libprotobuf32.txt", notices)
        self.assertGreater(len(notices), 0.8 * len(libraries))
        for name in libraries:
            self.assertNotRegex(name, r"/lib(torch|c10|cu[^r]|nv|nccl)")

    def test_libraries(self):
        """The program finds all that it needs beside it, and in torch."""
        program = self.packages / "troupe" / "bin" / "trainer_node"
        for line in self.run_there("ldd", program).splitlines():
            self.assertNotIn("not found", line)
            name, _, found = line.strip().partition(" => ")
            if found and not EVERYWHERE.match(name):
                self.assertTrue(found.startswith(str(self.packages)), line)

    def test_finds_torch_elsewhere(self):
        """The package may lie in another folder than torch."""
        alone = self.folder / "alone"
        shutil.copytree(self.packages / "troupe", alone / "troupe", copy_function=os.link)
        shutil.rmtree(self.packages / "troupe")
        self.addCleanup(shutil.copytree, alone / "troupe", self.packages / "troupe")
        self.train(path=(TOY, alone))

    def test_trains(self):
        self.train()

    def train(self, **where):
        where["folder"] = tempfile.mkdtemp(dir=self.folder)
        for command in ([self.python, "-m", "troupe"], [self.python.parent / "trainer_node"]):
            version = self.run_there(*command, "--version", **where)
            self.assertRegex(version, r"^trainer_node [0-9.]+$")
        out = self.run_there(self.python, "-c", PROGRAM, TOY / "train.py", **where)
        status, summary, accuracy = json.loads(out.splitlines()[-1])
        self.assertEqual(status, 0)
        self.assertEqual(summary["status"], "completed")
        self.assertEqual(summary["samples_applied"], 3 * 600)
        self.assertGreater(accuracy, 0.7)


if __name__ == "__main__":
    unittest.main()
