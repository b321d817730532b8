import dataclasses

import pytest
import torch

import nystream as ns

ATTENTION = {f.name for f in dataclasses.fields(ns.AttentionConfig)} - {
    f.name for f in dataclasses.fields(ns.EncoderConfig)
}


@pytest.fixture(scope="session")
def sharp():
    """sharp(variant or variants, by=1.0, ...): a model with logits multiplied by `by`², so that attention matters."""

    def sharp(variant, by=1.0, **options):
        sizes = {"embed_dim": 24, "num_heads": 4, "window": 10, "landmarks": 3, "pinv": "ridge"}
        own = {**sizes, **{name: options.pop(name) for name in ATTENTION & set(options)}}
        variants = [variant] if isinstance(variant, str) else variant
        configs = tuple(ns.AttentionConfig(v, **own) for v in variants)
        attention = configs if len(configs) > 1 else configs[0]
        options = {"input_dim": 7, "output_dim": 5, "ff_dim": 40, "stack": "deep", **options}
        model = ns.StreamModel(ns.ModelConfig(attention=attention, **options)).eval()
        for block in model.encoder.blocks:
            attn = block.attention
            with torch.no_grad():
                for layer in (attn.q_proj, attn.k_proj, attn.v_proj):
                    layer.weight.mul_(by)
            if attn.config.fixed:
                shape = (attn.config.num_heads, attn.config.m, attn.config.head_dim)
                attn.set_landmarks(torch.randn(shape) * by, torch.randn(shape) * by)
        width, out = model.config.input_dim, model.config.output_dim
        model.input_scaler.set(torch.randn(width), torch.rand(width) + 0.5)
        model.output_scaler.set(torch.randn(out), torch.rand(out) + 0.5)
        return model

    return sharp
