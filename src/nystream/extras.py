"""Optional packages: the extra that installs each, and errors that say what to install."""

from __future__ import annotations

import os
import re
import shutil
import sys
import sysconfig
import warnings
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# How to install an extra: from a clone, as the package is on no index, where anyone could take its name.
INSTALL = "pip install -c constraints.txt '.[{}]'"

TRITON = (3, 6)  # the oldest that has what the kernels use; older ones come with older versions of PyTorch

# package -> the extra that installs it
EXTRAS = {
    "fastapi": "serve",
    "jinja2": "cli",
    "matplotlib": "plot",
    "msgpack": "serve",
    "narwhals": "data",
    "onnx": "export",
    "onnxruntime": "export",
    "onnxscript": "export",
    "polars": "data",
    "prometheus_client": "serve",
    "ray": "ray",
    "redis": "redis",
    "rich": "cli",
    "scipy": "train",
    "sklearn": "train",
    "sounddevice": "mic",
    "soundfile": "audio",
    "soxr": "audio",
    "tensorboard": "train",
    "triton": "gpu",
    "tyro": "cli",
    "uvicorn": "serve",
    "websockets": "serve",
}
NAMES = {  # where they differ from the package's
    "fastapi": "FastAPI",
    "onnx": "ONNX",
    "onnxruntime": "ONNX Runtime",
    "onnxscript": "ONNX Script",
    "prometheus_client": "prometheus-client",
    "ray": "Ray",
    "redis": "redis-py",
    "sklearn": "scikit-learn",
    "tensorboard": "TensorBoard",
    "triton": "Triton",
}


def require(what: str, module: str, instead: str = "") -> Any:
    """Import an optional module. If it is not installed, the error says what needs it and how to install it.

    `what` is the subject of the message, such as "a plot"; `instead` is appended and may name an alternative.
    """
    package = module.partition(".")[0]
    try:
        import_module(package)
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise
        raise missing(what, package, instead) from error


def missing(what: str, package: str, instead: str = "") -> ModuleNotFoundError:
    """Return the error for an optional package that is not installed."""
    install = INSTALL.format(EXTRAS[package])
    return ModuleNotFoundError(f"{what} needs {NAMES.get(package, package)}: {install}{instead}", name=package)


def without_triton() -> str | None:
    """The reason why kernels of Triton cannot be used here, or None if they can."""
    if find_spec("triton") is None:
        if sys.platform != "linux":
            return "There is no Triton for this platform: use Linux"
        return f"Triton is not installed: {INSTALL.format('gpu')}"
    version = _triton_version()
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers is None or tuple(map(int, numbers.groups())) < TRITON:
        need = ".".join(map(str, TRITON))
        return (
            f"Triton {version or 'of an unknown version'} is installed, but the kernels need at least {need}: install "
            f"PyTorch 2.10 or newer, which comes with it"
        )
    return None


@cache
def without_compiler() -> str | None:
    """The reason why Triton cannot compile its kernels for a GPU here, or None if it can."""
    chosen = os.environ.get("CC")
    if chosen is not None and shutil.which(chosen) is None:
        return (
            f"Triton needs a C compiler, but the environment variable CC names {chosen!r}, which is not found: unset it"
        )
    if chosen is None and not (shutil.which("gcc") or shutil.which("clang")):
        return "Triton needs a C compiler, which is not installed: install gcc"
    scheme = sysconfig.get_default_scheme()
    scheme = "posix_prefix" if scheme == "posix_local" else scheme  # as Triton does, for Debian's Python
    if not Path(sysconfig.get_path("include", scheme), "Python.h").exists():
        return "Triton needs the header files of Python, which are not installed: install python3-dev"
    return None


@cache
def warn_if_slower(what: str, why: str | None, curable: bool = sys.platform == "linux") -> None:
    """Warn, once per process, that something is slower, and why, if it can be helped; Triton is for Linux alone."""
    if why is not None and curable:
        warnings.warn(f"{what}, which is slower. {why}", stacklevel=1)


@cache
def _triton_version() -> str:
    version: str = getattr(import_module("triton"), "__version__", "")
    return version
