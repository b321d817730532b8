"""Attention alone: checked against the reference, whatever runs it."""

import pytest
import torch

from nystream import testing
from nystream.lab.bench import alone, check
from nystream.lab.bench.settings import BenchSettings
from nystream.lab.bench.sizes import ModelSizes, build_attention

TINY = ModelSizes(window=7, embed_dim=8, num_heads=2, landmarks=3)


def compare():
    with torch.inference_mode():
        return alone.compare(TINY, BenchSettings(sizes=TINY, rounds=2), lambda: None)


def test_every_contender_is_in_the_table_with_its_error(monkeypatch, kernel_in_torch):
    monkeypatch.setattr("nystream.stream.cpu.alone.AttentionKernel", kernel_in_torch)
    case = compare()
    assert [row["name"] for row in case["rows"]] == [alone.RING, alone.EAGER, alone.EAGER_PARTIALS, alone.KERNEL]
    for row in case["rows"]:
        assert row["error"] < 1e-5
        assert 0 < row["median_microseconds"] <= row["p99_microseconds"] <= row["worst_microseconds"]
        assert row["bytes_per_stream"] > 0


def test_a_kernel_that_is_wrong_stops_the_run(monkeypatch, kernel_in_torch):
    monkeypatch.setattr("nystream.stream.cpu.alone.AttentionKernel", type("Off", (kernel_in_torch,), {"off": 0.01}))
    with pytest.raises(check.WrongNumbersError, match="compiled, co-fixed"):
        compare()


def test_the_references_are_those_of_the_library():
    attn = build_attention(TINY)
    for layer in (attn.q_proj, attn.k_proj, attn.v_proj, attn.out_proj):
        layer.weight.copy_(torch.eye(8))
        layer.bias.zero_()
    x = torch.randn(TINY.window + alone.NUM_CHECKED, 8)
    stream = x.view(-1, 1, 2, 4).expand(-1, 3, -1, -1)
    _, low_rank = alone.references(attn, stream)
    wanted = testing.reference_outputs(attn, x[None])[0, TINY.window :]
    assert testing.relative_error(low_rank, wanted) < 1e-12
