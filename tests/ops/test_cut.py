"""Windows of all sizes are cut so that edges and middle of a landmark are the window, with bounded work and memory."""

import numpy as np
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nystream.ops import sliding
from nystream.ops.cut import LAST_TIER, cut, sizes, starts

groups, update_size, landmarks = st.integers(1, 400), st.integers(1, 9), st.integers(1, 40)
CPU = torch.device("cpu")
long = st.builds(cut, st.integers(1, 200_000), update_size, landmarks)


@given(st.integers(1, 500), st.integers(1, 500))
def test_starts_tile_a_length_with_the_longer_blocks_first(length, count):
    count = min(length, count)
    bounds = starts(length, count)
    assert (bounds[0], bounds[-1], len(bounds)) == (0, length, count + 1)
    lengths = np.diff(bounds)
    assert lengths.min() >= 1
    assert lengths.max() - lengths.min() <= 1
    assert (np.diff(lengths) <= 0).all()


@given(long)
def test_blocks_of_all_tiers_tile_the_ring(c):
    assert 1 <= c.blocks <= c.groups
    below = np.arange(c.groups + 1)
    for tier, count in enumerate(c.tiers, 1):
        bounds = c.bounds(tier)
        assert (bounds[0], bounds[-1], len(bounds)) == (0, c.groups, count + 1)
        assert np.isin(bounds, below).all()  # blocks of a tier are divided by those of the tier below
        assert c.longest(tier) == np.diff(bounds).max()
        below = bounds


@given(long)
def test_the_last_tier_is_short(c):
    assert all(later < earlier for earlier, later in zip(c.tiers, c.tiers[1:], strict=False))
    if len(c.tiers) > 1:
        assert 2 < c.tiers[-1] <= LAST_TIER * 3


@given(groups, update_size, landmarks)
def test_landmarks_begin_their_blocks_in_turn(n, r, m):
    c = cut(n, r, m)
    bounds, begins = starts(n, c.blocks), c.begins(m)
    assert (begins[:, 0] == bounds[:-1]).all()
    assert (np.diff(begins, axis=1) >= 0).all()
    assert (begins[:, -1] < bounds[1:]).all()
    at_once = np.unique(begins, return_counts=True)[1]
    assert at_once.max() == -(-m // (n // c.blocks))


def lengths_of_edges(c, m):
    events = c.events(m)
    return events.following - events.begin


@given(groups, update_size, landmarks)
def test_longest_edges(n, r, m):
    c = cut(n, r, m)
    assert lengths_of_edges(c, m).max() == c.longest_edges
    assert lengths_of_edges(c, m).min() >= 1


@given(groups, update_size, landmarks)
def test_edges_lie_in_at_most_two_blocks_of_tier_1(n, r, m):
    c = cut(n, r, m)
    if c.tiers:
        begin, last = c.events(m).begin, c.events(m).following - 1
        block, end = (np.searchsorted(c.bounds(1), x % n, side="right") - 1 for x in (begin, last))
        assert np.isin((end - block) % c.tiers[0], (0, 1)).all()


def contents(c):
    """[slots, N]: how often a slot has every group, with totals of complete blocks."""
    tiers = [c.bounds(tier) for tier in range(1, len(c.tiers) + 1)]
    places = np.arange(c.groups)
    totals = [(places >= b[:-1, None]) & (places < b[1:, None]) for b in tiers]
    return np.concatenate([np.zeros((sliding.TOTALS, c.groups), int), *totals])


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 250), st.integers(1, 4), st.integers(1, 20))
@example(1, 1, 1)
@example(250, 1, 1)
@example(300, 1, 3)
def test_edges_and_middle_are_the_window(n, r, m):
    """At every phase, the middle that was summed last and the edges that are read have each group once."""
    t, slots, middle = sliding.table(n, r, m, device=CPU), contents(cut(n, r, m)), np.full((m, n), 9)
    landmark, group, void, joins, edge, other = (
        x.numpy() for x in (t.landmark, t.group, t.void, t.joins, t.edge, t.other)
    )
    for phase in (*range(n), *range(n)):  # after one round, every middle has been summed
        for i, some, none, totals in zip(landmark[phase], group[phase], void[phase], joins[phase], strict=True):
            middle[i] = np.bincount(some[~none], minlength=n) + slots[totals].sum(0)
        edges = np.stack([np.bincount(edge[phase][~x], minlength=n) for x in other[phase][:, 0].T])
        summed = middle[:, 0] < 9
        assert ((middle + edges)[summed] == 1).all()
    assert summed.all()


@given(groups, update_size, landmarks)
def test_first_and_last_are_the_edges_that_are_read(n, r, m):
    t = sliding.table(n, r, m, device=CPU)
    length = (~t.other[:, :, 0]).sum(1)
    assert torch.equal(length, t.last - t.first)
    assert torch.equal(t.passed, torch.arange(n)[:, None] + 1 - t.first)
    assert int(length.max()) == cut(n, r, m).longest_edges
    newest = torch.arange(n)[:, None]
    assert bool(((t.first <= newest) & (newest < t.last)).all())  # the newest group is an edge of every landmark


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 300), st.integers(1, 4), st.integers(1, 20))
def test_the_table_does_the_work_that_the_cut_says(n, r, m):
    t = sliding.table(n, r, m, device=CPU)
    assert cut(n, r, m).work(m) == (t.landmark.shape[1], t.group.shape[2], t.joins.shape[2])


@given(long, landmarks)
def test_a_middle_has_all_groups_but_the_edges(c, m):
    events = c.events(m)
    near, *far = c.middles(events)
    total = sizes(near)
    for tier, runs in enumerate(far, 1):
        bounds = c.bounds(tier)
        total = total + bounds[runs[:, 1]] - bounds[runs[:, 0]] + bounds[runs[:, 3]] - bounds[runs[:, 2]]
    assert (total == c.groups - lengths_of_edges(c, m)).all()


@given(st.integers(1, 200_000), update_size, st.integers(1, 64))
def test_totals_take_at_most_about_half_of_the_memory_of_the_rings(n, r, m):
    """A total has m (d + 2h) numbers, and a token d + hm: fewer than its part of the total, whatever d and h are."""
    c = cut(n, r, m)
    assert c.totals * max(m, 8) <= 0.5 * n * r


@given(st.integers(1, 200_000), st.integers(1, 64))
def test_work_does_not_grow_with_the_window(n, m):
    n = max(n, m)
    c = cut(n, 1, m)
    most, near, far = c.work(m)
    block = max(8, m)
    assert most <= 2
    assert c.longest_edges < 2 * block
    assert near <= 10 * block
    assert far <= 8 + 18 * len(c.tiers)
    assert len(c.tiers) <= 2 + np.log(n) / np.log(5)
