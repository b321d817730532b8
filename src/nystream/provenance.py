"""The header of every record: command, commit, hardware."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from nystream import files
from nystream.version import __version__

PACKAGE = Path(__file__).resolve().parent


def header(command: str) -> dict[str, Any]:
    return {"command": command, "commit": commit(), "hardware": hardware()}


def write(path: Path, command: str, figures: Mapping[str, Any]) -> Path:
    """Write figures as JSON, with command, commit and hardware."""
    text = json.dumps(header(command) | dict(figures), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    files.write_text(path, text)
    return path


def hardware() -> dict[str, Any]:
    """The machine, and the versions of software that affect its speed."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "numba": installed("numba"),
        "python": platform.python_version(),
        "system": platform.system(),
        "nystream": __version__,
    }


def installed(package: str) -> str | None:
    """The version of a package, without importing it."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def commit() -> str:
    """The current commit, marked if the package has changes; "unknown" outside the repository.

    GIT_COMMIT, if it is set, overrides it: for files that were copied without their repository.
    """
    if os.environ.get("GIT_COMMIT"):
        return os.environ["GIT_COMMIT"]

    def git(*args: str) -> str:
        done = subprocess.run(["git", "-C", str(PACKAGE), *args], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        git("ls-files", "--error-unmatch", "version.py")  # else this is the repository of another project
        head, changed = git("rev-parse", "HEAD"), git("status", "--porcelain", "--", ".")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{head} with changes" if changed else head


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
