"""The window of partials: correct at every phase, with the same work at every phase, and a cache of the rings only."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

import nystream as ns
from nystream.ops import partials, ring, sliding
from nystream.ops.partials import FLOOR, Partial

HEADS, M, D = 2, 3, 4
FIXED = ("co-fixed-single", "co-fixed-retro")
RATES = (None, (0.01, 0.7))  # of decay


def tensor(rates):
    return None if rates is None else torch.tensor(rates, dtype=torch.float64)


def start(batch, n, r, dtype=torch.float64):
    slots = sliding.slots(n // r, r, M)
    parts = Partial(
        torch.full((batch, slots, HEADS, M), FLOOR, dtype=dtype),
        torch.zeros(batch, slots, HEADS, M, D + 1, dtype=dtype),
    )
    logit = torch.full((batch, n, HEADS, M), -torch.inf, dtype=dtype)
    return parts, logit, torch.zeros(batch, n, HEADS, D, dtype=dtype), torch.zeros(batch, dtype=torch.long)


def push(parts, ring_logit, ring_value, time, logit, value, decay=None):
    sliding.push(parts, ring_logit, ring_value, time, logit, value, decay)
    ring.write(ring_logit, time, logit)
    ring.write(ring_value, time, value)
    return time + logit.shape[1]


@given(
    st.integers(2, 60), st.integers(1, 3), st.integers(0, 2**16), st.sampled_from([1.0, 1e4]), st.sampled_from(RATES)
)
def test_every_phase_is_the_softmax_of_the_window(groups, r, seed, size, rates):
    torch.manual_seed(seed)
    n, decay = groups * r, tensor(rates)
    parts, ring_logit, ring_value, time = start(1, n, r)
    logit = torch.randn(1, 5 * n, HEADS, M, dtype=torch.float64) * size
    value = torch.randn(1, 5 * n, HEADS, D, dtype=torch.float64)
    for t in range(0, 5 * n, r):
        time = push(parts, ring_logit, ring_value, time, logit[:, t : t + r], value[:, t : t + r], decay)
        seen = slice(max(0, t + r - n), t + r)
        seen_logit = logit[:, seen].permute(0, 2, 3, 1)
        if decay is not None:
            seen_logit = seen_logit - decay[:, None, None] * torch.arange(seen_logit.shape[-1] - 1, -1, -1)
        expected = seen_logit.softmax(-1) @ value[:, seen].transpose(1, 2)
        torch.testing.assert_close(
            sliding.read(parts, ring_logit, ring_value, time, r, decay), expected, rtol=1e-11, atol=1e-11
        )


@given(st.integers(2, 60), st.integers(1, 2), st.integers(0, 2**16), st.sampled_from(RATES))
def test_partials_can_be_rebuilt_from_the_rings_at_any_phase(groups, r, seed, rates):
    torch.manual_seed(seed)
    n, decay = groups * r, tensor(rates)
    parts, ring_logit, ring_value, time = start(2, n, r)
    rebuilt = parts
    for _ in range(int(torch.randint(1, 4 * groups, ()))):
        logit, value = (
            torch.randn(2, r, HEADS, M, dtype=torch.float64),
            torch.randn(2, r, HEADS, D, dtype=torch.float64),
        )
        rebuilt = sliding.rebuild(ring_logit, ring_value, time, r, M, decay)
        again = push(rebuilt, ring_logit.clone(), ring_value.clone(), time, logit, value, decay)
        time = push(parts, ring_logit, ring_value, time, logit, value, decay)
        assert torch.equal(again, time)
        torch.testing.assert_close(
            sliding.read(rebuilt, ring_logit, ring_value, time, r, decay),
            sliding.read(parts, ring_logit, ring_value, time, r, decay),
            rtol=1e-12,
            atol=1e-12,
        )
    # Both continue alike, so every slot that is read later was rebuilt correctly.
    other = (rebuilt, ring_logit.clone(), ring_value.clone())
    for _ in range(2 * groups):
        logit, value = (
            torch.randn(2, r, HEADS, M, dtype=torch.float64),
            torch.randn(2, r, HEADS, D, dtype=torch.float64),
        )
        push(*other, time, logit, value, decay)
        time = push(parts, ring_logit, ring_value, time, logit, value, decay)
        torch.testing.assert_close(
            sliding.read(*other, time, r, decay),
            sliding.read(parts, ring_logit, ring_value, time, r, decay),
            rtol=1e-12,
            atol=1e-12,
        )


class Work(TorchDispatchMode):
    """Counts operator calls and the numbers they write."""

    def __init__(self):
        super().__init__()
        self.calls, self.numbers = 0, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        self.calls += 1
        if isinstance(out, torch.Tensor) and not func.is_view:
            # An in-place write returns the whole ring; what it writes is the size of its last argument.
            written = args[-1] if func._schema.is_mutable else out
            self.numbers += written.numel() if isinstance(written, torch.Tensor) else 0
        return out


@pytest.mark.parametrize(("variant", "sums"), [(v, s) for v in FIXED for s in ("partials", "recompute")])
def test_no_phase_does_more_work_than_another(variant, sums):
    # Counted, not timed: every in-place step with fixed landmarks issues the same operators on the same sizes.
    assert len({work(variant, 37, sums, phase) for phase in range(76)}) == 1


@pytest.mark.parametrize("n", [256, 1024, 4096])
def test_the_work_of_a_step_hardly_depends_on_the_window(n):
    calls, numbers = work("co-fixed-single", n, "partials", 0)
    few_calls, few_numbers = work("co-fixed-single", 128, "partials", 0)
    # A longer window has more tiers, and every tier adds a few totals to the sum of a middle.
    assert calls == few_calls
    assert numbers < 1.5 * few_numbers


def work(variant, n, sums, phase):
    cfg = ns.AttentionConfig(variant, embed_dim=8, num_heads=2, window=n, landmarks=3, sums=sums)
    attn = ns.MultiheadAttention(cfg)
    torch.manual_seed(0)
    attn.set_landmarks(torch.randn(2, 3, 4), torch.randn(2, 3, 4))
    with torch.no_grad():
        _, state = attn.steps(torch.randn(1, n + phase, 8), attn.init_state(1))
        attn.step(torch.randn(1, 8), state)  # builds the tables
        with Work() as counted:
            attn.step(torch.randn(1, 8), state, inplace=True)
    return counted.calls, counted.numbers


def test_mean_of_nothing_is_zero():
    parts, ring_logit, ring_value, time = start(1, 4, 1)
    assert not sliding.read(parts, ring_logit, ring_value, time, 1).any()
    assert not partials.mean(parts).any()
