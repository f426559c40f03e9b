"""What pyproject.toml cannot say: the wheel has a program of this machine's kind
inside, and fits any Python 3. For `./dev wheel`, which lays out the files."""

import os

from setuptools import Distribution, setup
from wheel.bdist_wheel import bdist_wheel


class WithProgram(Distribution):
    def has_ext_modules(self) -> bool:
        return True


class AnyPython(bdist_wheel):
    def get_tag(self) -> tuple[str, str, str]:
        glibc = os.environ["TROUPE_GLIBC"].replace(".", "_")
        return "py3", "none", f"manylinux_{glibc}_{os.uname().machine}"


setup(
    version=os.environ["TROUPE_VERSION"],
    distclass=WithProgram,
    cmdclass={"bdist_wheel": AnyPython},
)
