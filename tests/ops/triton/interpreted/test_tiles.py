"""The tiles that GPUs use; the other tests have smaller ones, so that few tokens are many tiles."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import nystream as ns
from nystream.ops.triton import full, landmarks, launch

compare = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("compare.py"))))
TILES = {full: full.tile, landmarks: landmarks.tile}  # before a fixture replaces them


@pytest.mark.parametrize("decay", [False, True])
@pytest.mark.parametrize("hopper", [False, True])
@pytest.mark.parametrize("variant", ["co-fixed-single", "co-full-single"])
def test_tiles(variant, hopper, decay, monkeypatch):
    for module, tile in TILES.items():
        monkeypatch.setattr(module, "tile", tile)
    monkeypatch.setattr(launch, "is_hopper", lambda x: hopper)
    options = {"landmarks": 5, "pinv": "ridge"} if variant == "co-fixed-single" else {}
    torch.manual_seed(0)
    attn = compare.build(ns.AttentionConfig(variant, 24, 2, 150, decay=decay, **options))
    x = torch.randn(2, 330, 24)
    reset = torch.zeros(2, 330, dtype=torch.bool)
    reset[1, 201] = True
    compare.check(attn, compare.Piece(x, torch.randn(2, 37, 24), torch.tensor([330, 305]), reset))
