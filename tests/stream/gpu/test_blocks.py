"""The cut of a window: legal, and with about the fewest bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nystream.stream.gpu.blocks import Blocks, blocks, power_of_two


@given(st.integers(1, 300), st.integers(1, 4), st.integers(8, 5000), st.integers(8, 80_000))
def test_the_cut_moves_few_bytes(groups, r, token, partial):
    n = groups * r
    cut = blocks(n, r, token, partial, 16)
    assert cut.edges % r == 0
    assert 0 < cut.edges <= min(n, max(r, 16))
    assert cut.tier == n or cut.tier % cut.edges == 0
    assert cut.totals != 1
    fewest = min(
        Blocks(n, r, edges, tier).bytes(token, partial)
        for edges in range(r, min(n, max(r, 16)) + 1, r)
        for tier in (*range(edges, min(n, 16 * edges), edges), n)
    )
    assert cut.bytes(token, partial) <= 1.08 * fewest


def test_bytes_are_those_of_one_turn_of_the_ring():
    token, partial, cut = 10, 100, Blocks(n=24, r=1, edges=2, tier=6)
    moved = 0
    for place in range(24):
        if place % cut.tier == 0:  # its tokens and two totals are read, a total and `far` written
            moved += 6 * token + 4 * partial
        if place % cut.edges == 0:  # `far` and tokens are read, the middle written
            moved += 4 * token + 2 * partial
        moved += 2 * token + partial
    assert cut.totals == 4
    assert cut.partials == 6
    assert cut.bytes(token, partial) == pytest.approx(moved / 24)


def test_a_small_window_needs_no_totals():
    assert blocks(64, 1, 2560, 66_048, 16) == Blocks(64, 1, 8, 64)
    assert Blocks(64, 1, 8, 64).partials == 1


def test_powers_of_two():
    assert [power_of_two(x) for x in (1, 2, 3, 4, 5, 16, 17)] == [1, 2, 4, 4, 8, 16, 32]
