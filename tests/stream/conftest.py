import numpy as np
import pytest
import torch

import nystream as ns


@pytest.fixture(scope="session")
def build():
    """A small model that is ready to stream: build("co-fixed-single", window=12, layers=2, ...).

    Several blocks are a paper stack, unless `stack` is given.
    """

    def build(variant="co-fixed-single", dtype=torch.float32, seed=0, **options):
        torch.manual_seed(seed)
        own = ("window", "landmarks", "update_size", "sums", "pinv")
        sizes = {"embed_dim": 8, "num_heads": 2, "window": 6, "landmarks": 3}
        sizes |= {name: options.pop(name) for name in own if name in options}
        cfg = ns.ModelConfig(
            input_dim=5,
            output_dim=3,
            ff_dim=12,
            attention=ns.AttentionConfig(variant, **sizes),
            **{"stack": "paper", **options},
        )
        model = ns.StreamModel(cfg, dtype=dtype).eval()
        for block in model.encoder.blocks:
            own = block.attention.config
            if own.fixed:
                shape = (own.num_heads, own.m, own.head_dim)
                block.attention.set_landmarks(torch.randn(shape), torch.randn(shape))
        return model

    return build


@pytest.fixture(scope="session")
def alone():
    """Outputs [T, output_dim] of `model.step` for one stream of tokens [T, input_dim]."""

    def alone(model, tokens):
        state, outs = model.init_state(1), []
        with torch.no_grad():
            for x in torch.as_tensor(np.asarray(tokens), dtype=next(model.parameters()).dtype):
                y, state = model.step(x[None], state, inplace=True)
                outs.append(y[0])
        return torch.stack(outs).double().numpy()

    return alone


@pytest.fixture(scope="session")
def tokens():
    """Random tokens, float32 by default."""

    def tokens(*shape, seed=0, dtype=np.float32):
        return np.random.default_rng(seed).standard_normal(shape).astype(dtype)

    return tokens


@pytest.fixture(params=["torch", "numba"])
def backend(request):
    """Every backend in turn."""
    return request.param


@pytest.fixture
def streams(build, backend):
    """A pool of the smallest model."""
    return ns.StreamPool(build(), capacity=4, backend=backend)


@pytest.fixture(scope="session")
def refused():
    """refused(streams, call, error, *words): the call raises an error with these words, and no stream changes."""

    def refused(streams, call, error, *words):
        before = {sid: streams.snapshot(sid) for sid in streams.ids}
        with pytest.raises(error) as caught:
            call()
        for word in words:
            assert word in str(caught.value)
        assert {sid: streams.snapshot(sid) for sid in streams.ids} == before

    return refused
