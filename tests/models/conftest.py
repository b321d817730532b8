import dataclasses

import huggingface_hub
import pytest
import torch

import nystream as ns

ATTENTION = {f.name for f in dataclasses.fields(ns.AttentionConfig)} - {
    f.name for f in dataclasses.fields(ns.ModelConfig)
}


@pytest.fixture(autouse=True)
def _no_network(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a network would have been reached")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", refuse)


@pytest.fixture(scope="session")
def build():
    """A small float64 model of any family, ready to use: build("co-fixed-single", layers=2, window=12, ...).

    Several blocks are a paper stack, unless `stack` is given. The first argument may be a list of AttentionConfigs;
    options are passed to the config that has them.
    """

    def build(attention="co-fixed-single", layers=None, dtype=torch.float64, fit=True, info=None, **options):
        if isinstance(attention, str):
            sizes = {"embed_dim": 8, "num_heads": 2, "window": 6, "landmarks": 3}
            own = {name: options.pop(name) for name in ATTENTION & set(options)}
            attention = ns.AttentionConfig(attention, **{**sizes, **own})
        options = {"input_dim": 5, "output_dim": 3, "ff_dim": 12, "stack": "paper", **options}
        cfg = ns.ModelConfig(attention=attention, layers=layers, **options)
        model = ns.StreamModel(cfg, info, dtype=dtype).eval()
        for block in model.encoder.blocks if fit else ():
            one = block.attention.config
            if one.fixed:
                shape = (one.num_heads, one.m, one.head_dim)
                block.attention.set_landmarks(torch.randn(shape), torch.randn(shape))
        return model

    return build
