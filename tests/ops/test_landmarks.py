"""Segments of a stream, against a plain enumeration."""

from itertools import pairwise

import torch
from hypothesis import given
from hypothesis import strategies as st

from nystream.ops.attention.reference import segment_sizes
from nystream.ops.landmarks import Segments, collect, schedule, segment_means

windows = st.integers(1, 40).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n)))


@given(windows)
def test_segments_are_those_of_a_plain_enumeration(window):
    n, m = window
    seg, time, done, last = Segments(n, m), 0, 0, 0
    for _ in range(3):
        for k, size in enumerate(segment_sizes(n, m)):
            for place in range(size):
                time += 1
                if place == size - 1:
                    done, last = done + 1, time
                t = torch.tensor(time)
                assert int(seg.of(t)) == k
                assert bool(seg.ends(t)) == (place == size - 1)
                assert int(seg.completed(t)) == done
                assert int(seg.renewed_at(t)) == last
    assert int(seg.completed(torch.tensor(0))) == 0


@given(windows)
def test_segment_means(window):
    n, m = window
    x = torch.randn(2, n, 3, dtype=torch.float64)
    pieces = x.split(segment_sizes(n, m), 1)
    torch.testing.assert_close(segment_means(x, m), torch.stack([p.mean(1) for p in pieces], 1))


@given(windows, st.integers(1, 4))
def test_collect_renews_each_landmark_when_its_segment_is_complete(window, r):
    n, m = window[0] * r, window[1]
    plan = schedule(n, m, r, device=torch.device("cpu"))
    tokens = torch.randn(4 * n, 2, dtype=torch.float64)
    ends = [0]
    while ends[-1] < 4 * n:
        ends += [ends[-1] + s for s in torch.tensor(segment_sizes(n, m)).cumsum(0).tolist()]
    landmarks, pending = torch.zeros(1, m, 2, dtype=torch.float64), torch.zeros(1, 2, dtype=torch.float64)
    for t in range(0, 4 * n, r):
        landmarks, pending = collect(landmarks, pending, tokens[None, t : t + r], torch.tensor([t]), plan)
        complete = [(a, b) for a, b in pairwise(ends) if b <= t + r]
        for number, (a, b) in list(enumerate(complete))[-m:]:
            torch.testing.assert_close(landmarks[0, number % m], tokens[a:b].mean(0))


def test_a_token_that_is_not_a_number_spoils_its_own_landmark_only():
    plan = schedule(6, 3, 1, device=torch.device("cpu"))
    landmarks, pending = torch.zeros(1, 3, 1), torch.zeros(1, 1)
    for t in range(12):
        token = torch.full((1, 1, 1), torch.nan if t == 2 else 1.0)
        landmarks, pending = collect(landmarks, pending, token, torch.tensor([t]), plan)
        lost = [False, 3 <= t < 9, False]
        assert landmarks.isnan().flatten().tolist() == lost, t
