"""Outputs, states and gradients at sizes, phases, lengths and resets that hypothesis draws."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import nystream as ns

compare = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("compare.py"))))


@st.composite
def cases(draw, variant):
    r = draw(st.sampled_from([1, 1, 2, 3]))
    n = draw(st.sampled_from([1, 5, 16, 24, 36])) * r
    heads, width = draw(st.sampled_from([(1, 3), (2, 4), (1, 17)]))
    options = {"landmarks": draw(st.integers(1, min(3, n)))} if variant == "co-fixed-single" else {}
    cfg = ns.AttentionConfig(
        variant, heads * width, heads, n, update_size=r, decay=draw(st.booleans()), pinv="ridge", **options
    )
    batch = draw(st.integers(1, 2))
    tokens = draw(st.sampled_from([1, 3, 16, 17, 40])) * r
    before = draw(st.sampled_from([0, 1, 7, 40])) * r
    torch.manual_seed(draw(st.integers(0, 2**16)))
    lengths = reset = None
    if draw(st.booleans()):
        lengths = torch.randint(0, tokens // r + 1, (batch,)) * r
    if draw(st.booleans()):
        reset = (torch.rand(batch, tokens // r) < 0.1).repeat_interleave(r, 1)
        reset[:, torch.arange(tokens) % r != 0] = False
    width = cfg.embed_dim
    return cfg, compare.Piece(torch.randn(batch, tokens, width), torch.randn(batch, before, width), lengths, reset)


@pytest.mark.parametrize("variant", ["co-fixed-single", "co-full-single"])
def test_any_size(variant):
    @settings(max_examples=12)
    @given(cases(variant))
    def run(case):
        cfg, piece = case
        compare.check(compare.build(cfg), piece)

    run()
