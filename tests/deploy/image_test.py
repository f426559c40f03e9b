"""buildah builds the image of config/deploy/Dockerfile from a wheel, and it trains.

That needs packages of Debian and PyTorch, so it is for by hand:

    TROUPE_IMAGE_BASE=debian:12-slim TROUPE_IMAGE_FLAGS="--build-arg PIP_OPTIONS=..." \\
        ctest --preset release -R deploy_image

after `./dev wheel`; the flags, which may be left out, are buildah's.

usage: image_test.py ROOT
"""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SKIPPED = 77

IMAGE = "localhost/troupe-test"


def why_not(root, base):
    if not base:
        return "TROUPE_IMAGE_BASE names no image of Debian 12"
    if not shutil.which("buildah"):
        return "buildah is not installed"
    if not list(root.glob("build/wheel/troupe-*.whl")):
        return "build/wheel has no wheel; ./dev wheel makes one"
    return ""


def buildah(*arguments):
    done = subprocess.run(["buildah", *map(str, arguments)], stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0, f"buildah {arguments[0]} has ended with {done.returncode}"
    return done.stdout.strip()


def main():
    root, base = Path(sys.argv[1]).resolve(), os.environ.get("TROUPE_IMAGE_BASE")
    if why := why_not(root, base):
        print(f"left out: {why}")
        return SKIPPED
    flags = shlex.split(os.environ.get("TROUPE_IMAGE_FLAGS", ""))
    buildah("build", "--quiet", "--build-arg", f"BASE={base}", *flags, "--target", "wheel",
            "--file", root / "config/deploy/Dockerfile", "--tag", IMAGE, root)
    container = buildah("from", IMAGE)
    try:
        with tempfile.TemporaryDirectory(prefix="troupe-image-") as runs:
            os.chmod(runs, 0o777)
            said = buildah("run", "--volume", f"{runs}:/runs", container, "--", "sh", "-c",
                           "id -u; trainer_node --simulate --train-dir /runs/a --max-steps 5")
            assert said.startswith("1000\n"), said
            assert (Path(runs) / "a/summary.json").exists(), said
    finally:
        buildah("rm", container)
        buildah("rmi", IMAGE)
    print("the image trains as user 1000")
    return 0


sys.exit(main())
