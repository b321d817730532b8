"""Tiles: they fit into registers, and cover all columns; strips keep every number."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import nystream as ns
from nystream.stream.gpu.blocks import power_of_two
from nystream.stream.gpu.tiles import ELEMENTS, LANES, Strips, max_edges, tile


@given(st.integers(1, 70), st.integers(1, 300), st.integers(1, 16))
def test_tiles_fit_and_cover(m, head_dim, heads):
    size = tile(ns.AttentionConfig("co-fixed-single", heads * head_dim, heads, 128, m))
    assert size.landmarks == power_of_two(m)
    assert size.pairs == (LANES if m <= 8 else 1)
    assert size.landmarks * size.elements <= max(ELEMENTS, LANES * size.landmarks)
    assert size.strips % size.renewed == 0
    assert all(x == power_of_two(x) for x in (size.strips, size.renewed, size.padded_columns))
    assert size.value.columns <= size.padded_columns
    assert max_edges(size) >= 4
    for strips, number in ((size.logit, m), (size.value, head_dim)):
        assert strips.size == number
        assert (strips.strips - 1) * strips.columns < number <= strips.strips * strips.columns
    assert size.value.strips * size.value.columns < head_dim + 4 * size.value.strips  # little is left empty


@given(st.integers(1, 30), st.integers(1, 12), st.integers(1, 4))
def test_strips_keep_every_number(size, columns, heads):
    x = torch.arange(2.0 * heads * size).reshape(2, heads, size)
    strips = Strips(size, columns)
    stored = strips.of(x, -1.0)
    assert stored.shape == (2, strips.strips, heads, columns)
    assert torch.equal(strips.plain(stored), x)
    assert int((stored == -1.0).sum()) == 2 * heads * (strips.strips * columns - size)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [((192, 16, 4), (32, 4, 4)), ((1024, 8, 16), (1, 2, 64)), ((512, 8, 16), (1, 1, 64)), ((256, 8, 8), (32, 2, 4))],
)
def test_usual_shapes(sizes, expected):
    """Pairs, strips and columns of a program."""
    d, heads, m = sizes
    size = tile(ns.AttentionConfig("co-fixed-single", d, heads, 64, m))
    assert (size.pairs, size.strips, size.value.columns) == expected
