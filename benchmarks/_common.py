"""Shared by the benchmarks: an attention to measure, and results with their provenance."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

import nystream as ns
from nystream import provenance
from nystream.lab.bench.timing import interleaved

__all__ = ["FIGURES", "RESULTS", "ROOT", "build", "interleaved", "write_results"]

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"
FIGURES = ROOT / "docs" / "img"


def build(variant: str, n: int, d: int, heads: int, m: int, **options: Any) -> ns.MultiheadAttention:
    """An attention with random weights and, where they are fixed, random landmarks."""
    torch.manual_seed(0)
    cfg = ns.AttentionConfig(variant, embed_dim=d, num_heads=heads, window=n, landmarks=m, **options)
    attn = ns.MultiheadAttention(cfg).eval()
    if cfg.fixed:
        attn.set_landmarks(torch.randn(heads, m, d // heads), torch.randn(heads, m, d // heads))
    return attn


def write_results(name: str, figures: Mapping[str, Any]) -> Path:
    """results/<name>.json: the figures, and the command, commit and hardware they come from."""
    script = Path(sys.argv[0]).resolve()
    command = " ".join(["python", str(script.relative_to(ROOT)), *sys.argv[1:]])
    RESULTS.mkdir(exist_ok=True)
    return provenance.write(RESULTS / f"{name}.json", command, figures)
