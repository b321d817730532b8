import pytest
import torch

import nystream as ns


@pytest.fixture
def build():
    """A small float64 attention of any variant, ready to use: build("co-fixed-single", window=12, ...)."""

    def build(variant, window=6, landmarks=3, dtype=torch.float64, fit=True, **options):
        options = {"embed_dim": 8, "num_heads": 2, **options}
        cfg = ns.AttentionConfig(variant, window=window, landmarks=landmarks, **options)
        attn = ns.MultiheadAttention(cfg, dtype=dtype).eval()
        if cfg.fixed and fit:
            shape = (cfg.num_heads, landmarks, cfg.head_dim)
            attn.set_landmarks(torch.randn(shape), torch.randn(shape))
        return attn

    return build
