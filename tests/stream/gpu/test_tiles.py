"""Tiles: they fit into registers, and cover all columns; layouts keep every number."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import nystream as ns
from nystream.stream.gpu.blocks import power_of_two
from nystream.stream.gpu.layout import Layout
from nystream.stream.gpu.tiles import ELEMENTS, LANES, max_edges, tile


@given(st.integers(1, 70), st.integers(1, 300), st.integers(1, 16))
def test_tiles_fit_and_cover(m, head_dim, heads):
    size = tile(ns.AttentionConfig("co-fixed-single", heads * head_dim, heads, 128, m), torch.float32)
    assert size.landmarks == power_of_two(m)
    assert size.pairs == (LANES if m <= 8 else 1)
    assert size.landmarks * size.elements <= max(ELEMENTS, LANES * size.landmarks)
    assert size.strips % size.renewed == 0
    assert all(x == power_of_two(x) for x in (size.strips, size.renewed, size.padded_columns))
    assert size.value.columns <= size.padded_columns
    assert max_edges(size) >= 4
    for layout, number in ((size.logit, m), (size.value, head_dim)):
        assert layout.size == number
        assert layout.width - layout.columns < number <= layout.width
        assert (layout.block == 0) == (size.pairs > 1)
    assert size.value.width < head_dim + 4 * size.value.strips  # little is left empty


@given(st.integers(1, 30), st.integers(1, 12), st.integers(1, 4), st.integers(1, 7), st.integers(0, 4))
def test_layouts_keep_every_number(size, columns, heads, rows, block):
    x = torch.arange(2.0 * rows * heads * size).reshape(2, rows, heads, size)
    layout = Layout(size, columns, block)
    stored = layout.store(x, -1.0)
    blocks = -(-rows // block) if block else 0
    parts = (blocks, heads, block, layout.width) if block else (rows, layout.strips, heads, columns)
    assert stored.shape == (2, *parts)
    assert torch.equal(layout.plain(stored, rows), x)
    assert int((stored == -1.0).sum()) == stored.numel() - x.numel()


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [((192, 16, 4), (32, 4, 4)), ((1024, 8, 16), (1, 2, 64)), ((512, 8, 16), (1, 1, 64)), ((256, 8, 8), (32, 2, 4))],
)
def test_usual_shapes(sizes, expected):
    """Pairs, strips and columns of a program."""
    d, heads, m = sizes
    size = tile(ns.AttentionConfig("co-fixed-single", d, heads, 64, m), torch.float32)
    assert (size.pairs, size.strips, size.value.columns) == expected
