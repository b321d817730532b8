"""The reference itself, in small cases with known results."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

import nystream as ns
from nystream.ops.attention import reference


def config(variant, n, m, **options):
    return ns.AttentionConfig(variant, embed_dim=4, num_heads=1, window=n, landmarks=m, **options)


def test_segment_sizes_put_the_longer_ones_first():
    assert reference.segment_sizes(20, 4) == [5, 5, 5, 5]
    assert reference.segment_sizes(11, 4) == [3, 3, 3, 2]
    assert reference.segment_sizes(3, 3) == [1, 1, 1]


@pytest.mark.parametrize(
    ("t", "tiles"),
    [
        # n = 5, m = 2: segments of 3 and 2 tokens, in turn: (0,3] (3,5] (5,8] (8,10] (10,13] ...
        (5, [(0, 3), (3, 5)]),
        (7, [(0, 3), (3, 5)]),
        (8, [(3, 5), (5, 8)]),
        (9, [(3, 5), (5, 8)]),
        (10, [(5, 8), (8, 10)]),
        (12, [(5, 8), (8, 10)]),
        (13, [(8, 10), (10, 13)]),
    ],
)
def test_landmarks_of_a_stream_are_means_of_the_segments_that_are_complete(t, tiles):
    cfg = config("co-cont-single", 5, 2, pinv="none")
    q, k, v = torch.randn(3, 1, 20, 4, dtype=torch.float64)
    q_tilde, k_tilde = (torch.stack([x[0, a:b].mean(0) for a, b in tiles]) for x in (q, k))
    beta = (q[0, t - 1] @ k_tilde.T / 2).softmax(-1)
    delta = (q_tilde @ k[0, t - 5 : t].T / 2).softmax(-1)
    torch.testing.assert_close(
        reference.attend(cfg, q, k, v, t, None, None)[0, 0], beta @ (delta @ v[0, t - 5 : t]), rtol=1e-12, atol=1e-12
    )


def test_as_many_landmarks_as_tokens_and_an_exact_inverse_give_exact_attention():
    # Q̃ = Q and K̃ = K, so that Γ = A, and A A† A = A.
    cfg = config("nystrom", 6, 6, pinv="exact")
    q, k, v = torch.randn(3, 2, 6, 4, dtype=torch.float64)
    expected = scaled_dot_product_attention(q, k, v)
    torch.testing.assert_close(reference.attend(cfg, q, k, v, 6, None, None), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("variant", ["nystrom", "co-cont-single", "co-cont-retro"])
def test_before_the_window_is_full_segment_means_give_way_to_exact_attention(variant):
    cfg = config(variant, 6, 2)
    q, k, v = torch.randn(3, 1, 4, 4, dtype=torch.float64)
    out = reference.attend(cfg, q, k, v, 4, None, None)
    expected = scaled_dot_product_attention(q, k, v)
    torch.testing.assert_close(out[:, -1], expected[:, -1])
    if not cfg.single:
        assert out.shape[-2] == 6
        assert not out[:, :2].any()


def test_the_order_of_landmarks_does_not_matter():
    # Only then may a renewed landmark stay in the place of the one it replaces.
    q, k, v = torch.randn(3, 1, 9, 4, dtype=torch.float64)
    q_tilde, k_tilde = torch.randn(2, 1, 5, 4, dtype=torch.float64)
    order = torch.tensor([3, 0, 4, 1, 2])
    for pinv in ("newton", "exact", "ridge", "none"):
        cfg = config("nystrom-fixed", 9, 5, pinv=pinv)
        torch.testing.assert_close(
            reference.attend(cfg, q, k, v, 9, q_tilde[:, order], k_tilde[:, order]),
            reference.attend(cfg, q, k, v, 9, q_tilde, k_tilde),
            rtol=1e-9,
            atol=1e-9,
        )
