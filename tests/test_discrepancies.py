"""Errors of the paper, with a test that shows each; `docs/discrepancies.md` explains them.

Numbers 7 and 8, on counts of operations and memory, are in tests/costs.
"""

import pytest
import torch

import nystream as ns
from nystream.ops.landmarks import segment_means
from nystream.ops.pinv import newton
from nystream.testing import relative_error


def tokens(*shape):
    torch.manual_seed(5)
    return torch.randn(*shape, dtype=torch.float64)


def rho(a, b):
    return (a @ b.mT / a.shape[-1] ** 0.5).exp()


def test_1_gamma_loses_the_old_landmark_not_the_new_one():
    q_tilde, k_tilde = tokens(2, 5, 4)  # five landmarks in a row: the first four, then the last four
    before = rho(q_tilde[:4], k_tilde[:4]).sum(-1)
    after = rho(q_tilde[1:], k_tilde[1:]).sum(-1)
    kept, new, old = q_tilde[1:4], k_tilde[4:], k_tilde[:1]
    printed = before[1:] - rho(kept, new)[:, 0] + rho(kept, new)[:, 0]
    meant = before[1:] - rho(kept, old)[:, 0] + rho(kept, new)[:, 0]
    torch.testing.assert_close(meant, after[:3])
    assert relative_error(printed, after[:3]) > 0.1


def test_2_an_inverse_is_not_updated_by_adding_inverses():
    q_tilde, k = tokens(2, 5, 4)
    before, after = rho(q_tilde, k[:4]).sum(-1), rho(q_tilde, k[1:]).sum(-1)
    old, new = rho(q_tilde, k[:1])[:, 0], rho(q_tilde, k[4:])[:, 0]
    printed = 1 / before - 1 / old + 1 / new
    torch.testing.assert_close(1 / (before - old + new), 1 / after)
    assert relative_error(printed, 1 / after) > 0.1


def test_3_the_new_row_of_the_fixed_retroactive_form_needs_the_inverse():
    cfg = ns.AttentionConfig("co-fixed-retro", embed_dim=4, num_heads=1, window=6, landmarks=3)
    attn = ns.MultiheadAttention(cfg, dtype=torch.float64)
    attn.set_landmarks(*tokens(2, 1, 3, 4))
    beta, inverse, delta = attn.factors(x := tokens(1, 6, 4))
    value = attn.v_proj(x)
    newest = attn(x)[0, -1]
    torch.testing.assert_close(attn.out_proj(beta[0, 0, -1] @ inverse[0, 0] @ delta[0, 0] @ value[0]), newest)
    assert relative_error(attn.out_proj(beta[0, 0, -1] @ delta[0, 0] @ value[0]), newest) > 0.1


def test_4_fixed_landmarks_need_what_leaves_the_window():
    # Two streams that differ in one token agree again once it has left, and not before. So a state that did not know
    # that token's logits and value could not be right: O(dm + m²) numbers are not enough.
    cfg = ns.AttentionConfig("co-fixed-single", embed_dim=4, num_heads=1, window=6, landmarks=2)
    attn = ns.MultiheadAttention(cfg, dtype=torch.float64)
    attn.set_landmarks(*tokens(2, 1, 2, 4))
    one = tokens(1, 20, 4)
    other = one.clone()
    other[0, 3] += 1
    ours, theirs = (attn.steps(x, attn.init_state(1))[0] for x in (one, other))
    differs = ((ours - theirs).abs().amax(-1) > 1e-12)[0].tolist()
    assert differs == [3 <= t < 9 for t in range(20)]


def test_5_every_input_of_a_second_block_changes_at_every_step():
    # A token moves up one row; if a second block could be continual, its row would come out unchanged.
    for variant in ("co-fixed-retro", "co-cont-retro", "co-full-retro"):
        cfg = ns.AttentionConfig(variant, embed_dim=4, num_heads=1, window=6, landmarks=2)
        attn = ns.MultiheadAttention(cfg, dtype=torch.float64)
        if cfg.fixed:
            attn.set_landmarks(*tokens(2, 1, 2, 4))
        x, state = tokens(1, 12, 4), attn.init_state(1)
        rows, state = attn.steps(x[:, :11], state)
        later, _ = attn.step(x[:, 11], state)
        assert ((rows[:, 1:] - later[:, :-1]).abs().amax(-1) > 1e-6).all()


@pytest.mark.parametrize(("logit", "least"), [(15.0, 1e-3), (20.0, 1e-1)])
def test_6_sums_that_subtract_drift_and_stable_softmax_is_possible(logit, least):
    n, m, d = 32, 2, 4
    errors = {}
    x = tokens(1, 6 * n, d) / 4
    landmark = tokens(1, m, d)
    key = x.clone()
    key[0, n] = landmark[0, 0] / landmark[0, 0].square().sum() * logit * d**0.5
    for sums in ("subtract", "partials", "recompute"):
        cfg = ns.AttentionConfig("co-fixed-single", d, 1, n, m, sums=sums, bias=False)
        attn = ns.MultiheadAttention(cfg)
        with torch.no_grad():
            for layer in (attn.q_proj, attn.k_proj, attn.v_proj, attn.out_proj):
                layer.weight.copy_(torch.eye(d))
            attn.set_landmarks(landmark, landmark)
            state = attn.init_state(1)
            for t in range(6 * n):
                y, state = attn.step(x[:, t].float(), state, key=key[:, t].float(), value=x[:, t].float(), inplace=True)
            attn.double()
            expected, _ = attn.steps(x, attn.init_state(1), key=key, value=x)
        errors[sums] = relative_error(y, expected[:, -1])
    # The outlier left the window four windows ago.
    assert errors["subtract"] > least
    assert errors["partials"] < 1e-5
    assert errors["recompute"] < 1e-5


def test_9_a_landmark_is_the_mean_of_n_over_m_tokens():
    # The printed sum, from i = n − n/m to n, has one term too many: of a constant it makes more than the constant.
    n, m = 20, 4
    x = torch.ones(n + 1, 1, dtype=torch.float64)
    printed = m / n * x[n - n // m : n + 1].sum(0)
    assert printed.item() == pytest.approx(1.2)
    assert segment_means(x[1:], m)[-1].item() == 1.0


def test_9_landmarks_are_renewed_every_n_over_m_tokens():
    n, m = 20, 4
    attn = ns.MultiheadAttention(ns.AttentionConfig("co-cont-single", 4, 1, n, m), dtype=torch.float64)
    x, state = tokens(1, 3 * n, 4), attn.init_state(1)
    _, state = attn.steps(x[:, :n], state)
    renewed = []
    for t in range(n, 3 * n):
        before = state.landmarks
        _, state = attn.step(x[:, t], state)
        changed = (state.landmarks != before).any(-1).any(-1).any(-1)[0]
        if changed.any():
            renewed.append((t + 1, changed.nonzero()[:, 0].tolist()))
    assert renewed == [(n + 5 * (i + 1), [i % m]) for i in range(8)]


def test_10_newton_schulz_is_scaled_by_its_own_matrix():
    gamma = tokens(3, 4, 4).softmax(-1)
    sharp = torch.eye(4, dtype=torch.float64)[[0, 0, 0, 0]].expand(1, -1, -1)  # one column: ‖Γ‖₁ = 4

    def scaled_by_the_batch(batch, iters=6):
        identity = torch.eye(4, dtype=torch.float64)
        z = batch.mT / (batch.sum(-2).max() * batch.sum(-1).max())
        for _ in range(iters):
            gz = batch @ z
            z = 0.25 * z @ (13 * identity - gz @ (15 * identity - gz @ (7 * identity - gz)))
        return z

    beside = torch.cat([gamma, sharp])
    torch.testing.assert_close(newton(beside, 6)[:3], newton(gamma, 6), rtol=1e-12, atol=1e-12)
    assert relative_error(scaled_by_the_batch(beside)[:3], scaled_by_the_batch(gamma)) > 1e-3
