"""What the benchmarks share: timing that bears a busy machine, and results that say where they come from."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import torch

import nystream as ns

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"
FIGURES = ROOT / "docs" / "img"


def interleaved(jobs: Mapping[str, Callable[[], object]], rounds: int, block: int = 1) -> dict[str, float]:
    """Median seconds of a call of every job: `rounds` times, `block` calls of one after `block` calls of another.

    Whatever else the machine does then falls on all of them alike, and their ratio is worth more than either.
    """
    took: dict[str, list[float]] = {name: [] for name in jobs}
    for number in range(rounds + 1):
        for name, job in jobs.items():
            for _ in range(block):
                begin = time.perf_counter()
                job()
                seconds = time.perf_counter() - begin
                if number:  # the first round warms up
                    took[name].append(seconds)
    return {name: median(seconds) for name, seconds in took.items()}


def build(variant: str, n: int, d: int, heads: int, m: int, **options: Any) -> ns.MultiheadAttention:
    """An attention with random weights and, where they are fixed, random landmarks."""
    torch.manual_seed(0)
    cfg = ns.AttentionConfig(variant, embed_dim=d, num_heads=heads, window=n, landmarks=m, **options)
    attn = ns.MultiheadAttention(cfg).eval()
    if cfg.fixed:
        attn.set_landmarks(torch.randn(heads, m, d // heads), torch.randn(heads, m, d // heads))
    return attn


def hardware() -> dict[str, Any]:
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": platform.system(),
    }


def commit() -> str:
    """The commit that ran, marked where the package differs from it; "unknown" outside a repository.

    GIT_COMMIT, if it is set, names it where the files were copied without their repository.
    """
    if os.environ.get("GIT_COMMIT"):
        return os.environ["GIT_COMMIT"]

    def git(*args: str) -> str:
        done = subprocess.run(["git", "-C", str(ROOT), *args], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        head, changed = git("rev-parse", "HEAD"), git("status", "--porcelain", "--", "src")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{head} with changes" if changed else head


def write_results(name: str, figures: Mapping[str, Any]) -> Path:
    """results/<name>.json: the figures, and the command, commit and hardware they come from."""
    script = Path(sys.argv[0]).resolve()
    header = {
        "command": " ".join(["python", str(script.relative_to(ROOT)), *sys.argv[1:]]),
        "commit": commit(),
        "hardware": hardware(),
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(header | dict(figures), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
