"""Optional packages: the extra that installs each, and errors that say what to install."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

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
    return ModuleNotFoundError(
        f"{what} needs {NAMES.get(package, package)}: pip install 'nystream[{EXTRAS[package]}]'{instead}", name=package
    )


def without_triton() -> str | None:
    """The reason why kernels of Triton cannot be used here, or None if they can."""
    if find_spec("triton") is None:
        return "Triton is not installed: pip install 'nystream[gpu]'"
    version = _triton_version()
    if tuple(int(part) for part in version.split(".")[:2]) < TRITON:
        need = ".".join(map(str, TRITON))
        return f"Triton {version} is installed, but the kernels need at least {need}: pip install 'nystream[gpu]'"
    return None


@cache
def _triton_version() -> str:
    version: str = import_module("triton").__version__
    return version
