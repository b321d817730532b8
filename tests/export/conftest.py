import numpy as np
import pytest
import torch

import nystream as ns
from nystream.export.attention import tiers

INPUTS, OUTPUTS = 5, 3


@pytest.fixture(scope="session")
def build():
    """A model with weights of a trained one's size, scalers and landmarks: build("co-fixed-single", window=7, ...)."""

    def build(variant="co-fixed-single", *, seed=0, **options):
        torch.manual_seed(seed)
        own = (
            "embed_dim",
            "num_heads",
            "window",
            "landmarks",
            "update_size",
            "sums",
            "pinv",
            "pinv_ridge",
            "decay",
            "bias",
        )
        sizes = {"embed_dim": 8, "num_heads": 2, "window": 7, "landmarks": 3}
        sizes |= {name: options.pop(name) for name in own if name in options}
        options = {"stack": "deep", "ff_dim": 12} | options
        config = ns.ModelConfig(
            input_dim=INPUTS, output_dim=OUTPUTS, attention=ns.AttentionConfig(variant, **sizes), **options
        )
        model = ns.StreamModel(config).eval().requires_grad_(False)
        for weight in model.parameters():
            weight += 0.1 * torch.randn_like(weight)
        model.input_scaler.set(3 * torch.randn(INPUTS), torch.rand(INPUTS) + 0.5)
        model.output_scaler.set(3 * torch.randn(OUTPUTS), torch.rand(OUTPUTS) + 0.5)
        for block in model.encoder.blocks:
            cfg = block.attention.config
            if cfg.fixed:
                shape = (cfg.num_heads, cfg.m, cfg.head_dim)
                block.attention.set_landmarks(torch.randn(shape), torch.randn(shape))
        return model

    return build


@pytest.fixture
def short_blocks(monkeypatch):
    """Windows of more than eight tokens are divided into blocks of four."""
    monkeypatch.setattr(tiers, "SHORT", 8)
    monkeypatch.setattr(tiers, "BLOCK", 4)


@pytest.fixture(scope="session")
def outputs():
    """The outputs of `model.steps` for a new stream x [T, input_dim]."""

    def outputs(model, x):
        return model.steps(torch.from_numpy(x)[None], model.init_state(1))[0][0].numpy()

    return outputs


@pytest.fixture
def tokens():
    """Random tokens, in the units of a model's inputs."""
    rng = np.random.default_rng(0)
    return lambda *shape: rng.normal(size=shape).astype(np.float32)
