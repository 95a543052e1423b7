"""Compiles `runlore._speed` into the package. Where that fails, mostly for want of a C compiler, the package is made without it: all that
it does is done without it too, and slower."""

from __future__ import annotations

import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = Path("src", "runlore")
ABI = "0x030B0000"
"""The stable ABI of Python 3.11, the oldest that runlore runs on: one file is good for all."""


class SpeedHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        package = Path(self.root) / PACKAGE
        try:
            for old in (*package.glob("_speed*.so"), *package.glob("_speed*.pyd")):
                old.unlink()  # What cannot be compiled anew is not left from before.
            if sys.implementation.name != "cpython":
                raise NotImplementedError(f"not for {sys.implementation.name}")
            made = compiled(package / "_speed.c", package)
        except Exception as error:  # A compiler can fail in any way, and must not keep anybody from installing.
            self.app.display_warning(f"runlore is installed without its compiled part: {error}")
            return
        build_data["artifacts"].append((PACKAGE / made.name).as_posix())
        build_data["pure_python"] = False
        build_data["tag"] = f"cp311-abi3-{platform()}"


def platform() -> str:
    """What this machine is called in the name of a wheel, as hatchling has it: what Python calls it, pip does not always take."""
    from packaging.tags import sys_tags

    name = next(tag.platform for tag in sys_tags() if "manylinux" not in tag.platform and "musllinux" not in tag.platform)
    if sys.platform == "darwin":
        from hatchling.builders.macos import process_macos_plat_tag

        return process_macos_plat_tag(name, compat=False)
    return name


def compiled(source: Path, folder: Path) -> Path:
    """Where the extension is, once it is made."""
    from setuptools import Distribution, Extension

    flags = ["-O3"] if sysconfig.get_config_var("CC") else []  # Others than MSVC, which has no more than it does anyway.
    extension = Extension(
        source.stem, [str(source)], define_macros=[("Py_LIMITED_API", ABI)], py_limited_api=True, extra_compile_args=flags
    )
    with tempfile.TemporaryDirectory() as scratch:
        command: Any = Distribution({"ext_modules": [extension]}).get_command_obj("build_ext")
        command.build_lib = command.build_temp = scratch
        command.ensure_finalized()
        command.run()
        made = Path(command.get_ext_fullpath(source.stem))
        return Path(shutil.copy(made, folder / made.name))
