import pytest
import torch

import nystream as ns


def fit(module):
    """Set random landmarks if the module needs them."""
    for attention in module.modules():
        if isinstance(attention, ns.MultiheadAttention) and attention.config.fixed:
            shape = attention.q_tilde.shape
            attention.set_landmarks(torch.randn(shape), torch.randn(shape))
    return module.eval()


@pytest.fixture(scope="session")
def build():
    """A small float64 module of each kind, ready to use: build("encoder", "co-cont-single", stack="deep", window=6)."""

    def build(
        kind, variant="co-fixed-single", layers=2, stack="paper", dtype=torch.float64, window=4, linear=None, **options
    ):
        cfg = ns.AttentionConfig(variant, embed_dim=8, num_heads=2, window=window, landmarks=2, **options)
        if kind == "attention":
            return fit(ns.MultiheadAttention(cfg, dtype=dtype))
        common = {"attention": cfg, "layers": layers, "ff_dim": 12, "stack": stack}
        if kind == "encoder":
            return fit(ns.StreamEncoder(ns.EncoderConfig(norm="post", **common), dtype=dtype))
        model = ns.StreamModel(ns.ModelConfig(input_dim=5, output_dim=3, linear=linear, **common), dtype=dtype)
        if linear is not None:
            torch.nn.init.normal_(model.linear.weight)  # it would be zero
        return fit(model)

    return build
