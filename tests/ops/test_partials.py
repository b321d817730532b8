"""The monoid: associative, commutative, with an identity, exact for any logits."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from nystream.ops import partials
from nystream.ops.partials import FLOOR, Partial


def some(seed, tokens=4, m=3, d=2, size=1.0):
    torch.manual_seed(seed)
    return torch.randn(tokens, m, dtype=torch.float64) * size, torch.randn(tokens, d, dtype=torch.float64)


def same(a, b):
    # Equal triples may differ in c: compare means, and s at a common c.
    torch.testing.assert_close(partials.mean(a), partials.mean(b), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(
        a.sum[..., -1].log() + a.max, b.sum[..., -1].log() + b.max, rtol=1e-12, atol=1e-12, equal_nan=True
    )


@given(st.integers(0, 999), st.sampled_from([0.0, 1.0, 1e4]))
def test_combine_is_associative_and_commutative_with_an_identity(seed, size):
    a, b, c = (partials.of_tokens(*some(seed + i, size=size)) for i in range(3))
    same(partials.combine(partials.combine(a, b), c), partials.combine(a, partials.combine(b, c)))
    same(partials.combine(a, b), partials.combine(b, a))
    nothing = Partial(torch.full_like(a.max, FLOOR), torch.zeros_like(a.sum))
    for part in (partials.combine(a, nothing), partials.combine(nothing, a)):
        assert all(torch.equal(x, y) for x, y in zip(part, a, strict=True))
    assert not partials.mean(partials.combine(nothing, nothing)).any()


@given(st.integers(0, 999), st.integers(1, 9), st.sampled_from([1.0, 1e4]))
def test_the_parts_of_a_set_combine_to_its_softmax(seed, cut, size):
    logit, value = some(seed, tokens=10, size=size)
    whole = partials.combine(partials.of_tokens(logit[:cut], value[:cut]), partials.of_tokens(logit[cut:], value[cut:]))
    torch.testing.assert_close(partials.mean(whole), logit.T.softmax(-1) @ value, rtol=1e-12, atol=1e-12)


def test_void_tokens_add_nothing():
    logit, value = some(0)
    logit[1] = -torch.inf
    kept = [0, 2, 3]
    same(partials.of_tokens(logit, value), partials.of_tokens(logit[kept], value[kept]))
    nothing = partials.of_tokens(torch.full_like(logit, -torch.inf), value)
    assert (nothing.max == FLOOR).all()
    assert not nothing.sum.any()


@given(st.integers(0, 999), st.sampled_from([1.0, 10.0, 1e4]))
def test_attend_is_the_weighted_sum_of_means(seed, size):
    shared_logit, shared_value = some(seed, tokens=5, size=size)
    edge_logit, edge_value = some(seed + 1, tokens=4, size=size)
    weight = torch.randn(3, 3, dtype=torch.float64)
    seen = torch.rand(3, 4) < 0.5
    part = partials.of_tokens(shared_logit, shared_value)
    out = partials.attend(weight, Partial(part.max[None], part.sum), edge_logit.T, seen, edge_value)
    for q in range(3):
        logit = torch.cat([shared_logit, edge_logit[seen[q]]])
        value = torch.cat([shared_value, edge_value[seen[q]]])
        torch.testing.assert_close(out[q], weight[q] @ (logit.T.softmax(-1) @ value), rtol=1e-11, atol=1e-11)


@given(st.integers(0, 999), st.sampled_from([0.0, 1.0, 12.0]))
def test_both_ways_to_attend_agree(seed, size):
    logit, value = some(seed, tokens=6, size=size)
    part = partials.of_tokens(*some(seed + 1, tokens=5, size=size))
    weight, seen = torch.randn(4, 3, dtype=torch.float64), torch.rand(4, 6) < 0.5
    seen[0] = False
    for shared in (None, Partial(part.max[None], part.sum)):
        largest = logit.amax(0) if shared is None else torch.maximum(logit.amax(0), part.max)
        close = partials._attend_close(weight, shared, logit.T, seen, value, largest)
        torch.testing.assert_close(
            close, partials._attend_far(weight, shared, logit.T, seen, value), rtol=1e-9, atol=1e-11
        )


@given(st.integers(0, 999), st.floats(0, 100), st.booleans())
def test_gradients_are_those_of_softmax_however_far_apart_logits_are(seed, spread, beside):
    logit, value = some(seed, tokens=4)
    logit[0] -= spread  # the only token that the first query sees
    weight = torch.randn(2, 3, dtype=torch.float64)
    seen = torch.tensor([[True, False, False, False], [True, True, True, True]])
    shared = partials.of_tokens(*some(seed + 1, tokens=5))
    part_max = torch.stack([torch.full_like(shared.max, FLOOR), shared.max])  # the first query does not see it
    both = Partial(part_max, shared.sum) if beside else None

    def gradients(attend, dtype):
        inputs = [x.to(dtype, copy=True).requires_grad_() for x in (weight, logit.T, value)]
        part = None if both is None else Partial(*(x.to(dtype) for x in both))
        out = attend(inputs[0], part, inputs[1], seen, inputs[2])
        return out, *torch.autograd.grad(out.square().sum(), inputs)

    exact = gradients(partials._attend_far, torch.float64)
    for ours, theirs in zip(gradients(partials.attend, torch.float32), exact, strict=True):
        torch.testing.assert_close(ours, theirs.float(), rtol=1e-3, atol=1e-4)
