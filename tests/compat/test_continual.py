"""Weights from and to the encoders of continual-inference."""

import sys
from importlib.metadata import version

import continual as co
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import nystream as ns
from nystream import testing
from nystream.compat import from_continual, from_torch, to_continual

TOLERANCE = testing.TOLERANCE[torch.float64]


def randn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def close(actual, expected):
    assert testing.relative_error(actual, expected) <= TOLERANCE


def post_norm(layers, window=4, heads=2, head_dim=4, ff=12, dtype=torch.float64, **options):
    cfg = ns.AttentionConfig("co-full-single", embed_dim=heads * head_dim, num_heads=heads, window=window)
    config = ns.EncoderConfig(attention=cfg, layers=layers, ff_dim=ff, stack="paper", norm="post", **options)
    encoder = ns.StreamEncoder(config, dtype=dtype)
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return encoder.eval().requires_grad_(False)


def check_same_numbers(encoder, peer, x, streams_until=None):
    """forward, forward_steps in pieces and forward_step of the package against `steps`, x [B, T, E]."""
    n, until = encoder.config.window, streams_until or x.shape[1]
    expected, _ = encoder.steps(x, encoder.init_state(x.shape[0]))
    for t in range(n, x.shape[1] + 1):
        close(peer.forward(x[:, t - n : t].mT)[:, :, -1], expected[:, t - 1])
    peer.clean_state()
    for t in range(until):
        y = peer.forward_step(x[:, t])
        if t < n - 1:
            assert y is None
        else:
            close(y, expected[:, t])
    peer.clean_state()
    first = peer.forward_steps(x[:, : n + 1].mT)
    close(first.mT, expected[:, n - 1 : n + 1])
    if until > n + 1:
        close(peer.forward_steps(x[:, n + 1 : until].mT).mT, expected[:, n + 1 : until])


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("layers", [1, 2, 3])
@settings(max_examples=4)
@given(window=st.integers(2, 6), heads=st.integers(1, 3), head_dim=st.integers(2, 4), final_norm=st.booleans())
def test_to_the_package_the_numbers_stay(layers, activation, window, heads, head_dim, final_norm):
    encoder = post_norm(layers, window, heads, head_dim, activation=activation, final_norm=final_norm)
    peer = to_continual(encoder)
    assert isinstance(peer, co.TransformerEncoder)
    x = randn(2, 3 * window + 2, heads * head_dim)
    check_same_numbers(encoder, peer, x)
    back = from_continual(peer)
    assert back.config == encoder.config
    for ours, theirs in zip(encoder.parameters(), back.parameters(), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("final_norm", [False, True], ids=["last", "normed"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])  # its factory takes both for ReLU, when given by name
@pytest.mark.parametrize("layers", [1, 2])
def test_from_the_package_the_numbers_stay(layers, activation, final_norm):
    factory = co.TransformerEncoderLayerFactory(8, 2, 12, activation=activation, sequence_len=4, dropout=0.1)
    peer = co.TransformerEncoder(factory, layers, nn.LayerNorm(8) if final_norm else None).double().eval()
    encoder = from_continual(peer.requires_grad_(False))
    assert (encoder.config.window, encoder.config.activation, encoder.config.dropout) == (4, "relu", 0.1)
    assert encoder.config.final_norm == final_norm
    assert not encoder.training
    # With two layers its ring of residuals is out of step from token 2 n − 1 on.
    check_same_numbers(encoder, peer, randn(2, 12, 8), streams_until=6 if layers == 2 else None)


@pytest.mark.skipif(version("continual-inference") != "1.2.4", reason="it may have been mended since")
def test_the_packages_own_stream_leaves_its_own_windows():
    factory = co.TransformerEncoderLayerFactory(8, 2, 12, activation="relu", sequence_len=4, dropout=0.0)
    peer = co.TransformerEncoder(factory, 2).double().eval().requires_grad_(False)
    x = randn(2, 7, 8)
    streamed = peer.forward_steps(x.mT)
    windows = torch.cat([peer.forward(x[:, t - 4 : t].mT) for t in range(4, 8)], 2)
    close(streamed[:, :, :3], windows[:, :, :3])
    assert testing.relative_error(streamed[:, :, 3], windows[:, :, 3]) > 1e-2


@pytest.mark.parametrize("layer", [co.SingleOutputTransformerEncoderLayer, co.RetroactiveTransformerEncoderLayer])
def test_one_layer_of_the_package(layer):
    peer = layer(8, 2, 12, sequence_len=4, dropout=0.0, dtype=torch.float64).eval()
    peer.requires_grad_(False)
    encoder = from_continual(peer, "full")
    x = randn(2, 4, 8)
    close(encoder(x), peer.forward(x.mT).mT)
    streamed = peer.forward_steps(x.mT)  # its newest row, or all of its rows
    close(encoder(x)[:, -1], streamed[..., -1].flatten(1))


def test_from_the_package_to_landmarks_and_other_windows():
    factory = co.TransformerEncoderLayerFactory(8, 2, 12, sequence_len=4, dropout=0.0)
    peer = co.TransformerEncoder(factory, 2)
    encoder = from_continual(peer, "co-fixed-single", window=9, landmarks=3, pinv="ridge")
    assert encoder.training
    assert [cfg.variant for cfg in encoder.config.blocks] == ["co-fixed-retro", "co-fixed-single"]
    assert {(cfg.window, cfg.m, cfg.pinv) for cfg in encoder.config.blocks} == {(9, 3, "ridge")}


def test_torch_to_the_package():
    layer = nn.TransformerEncoderLayer(8, 2, 12, batch_first=True, dtype=torch.float64, activation="gelu", bias=False)
    original = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    peer = to_continual(from_torch(original, "full", window=4))
    x = randn(2, 4, 8)
    with torch.no_grad():
        close(peer.forward_steps(x.mT).mT, original(x)[:, -1:])


REFUSED = {
    "landmarks": (
        lambda build: build("encoder"),
        ValueError,
        "'co-fixed-retro' has no counterpart",
    ),
    "pre-norm": (
        lambda build: from_torch(nn.TransformerEncoderLayer(8, 2, norm_first=True), window=4),
        ValueError,
        "'pre'",
    ),
    "deep": (
        lambda build: build("encoder", "co-full-single", stack="deep"),
        ValueError,
        "stack='deep', but the package",
    ),
    "groups": (
        lambda build: build("encoder", "full", update_size=2),
        ValueError,
        "update_size=2, but the package takes one",
    ),
    "one token": (lambda build: post_norm(2, window=1), ValueError, "window=1, but the package's retroactive layers"),
    "a model": (
        lambda build: build("model", "full"),
        TypeError,
        "encoder is a StreamModel, but must be a StreamEncoder",
    ),
}


@pytest.mark.parametrize(("make", "error", "says"), REFUSED.values(), ids=REFUSED.keys())
def test_what_the_package_cannot_express_is_refused(build, make, error, says):
    with pytest.raises(error, match=says):
        to_continual(make(build))


def layer_of(**options):
    return co.SingleOutputTransformerEncoderLayer(8, 2, 12, sequence_len=4, **options)


def other_norm():
    factory = co.TransformerEncoderLayerFactory(8, 2, 12, sequence_len=4)
    return co.TransformerEncoder(factory, 1, nn.BatchNorm1d(8))


def other_lengths():
    first, second = (co.TransformerEncoderLayerFactory(8, 2, 12, sequence_len=length) for length in (4, 5))
    return co.TransformerEncoder(lambda kind: (first if kind.value == "retroactive" else second)(kind), 2)


REFUSED_FROM = {
    "torch": (lambda: nn.TransformerEncoderLayer(8, 2), TypeError, "use nystream.from_torch for torch's"),
    "a tensor": (lambda: torch.zeros(3), TypeError, "encoder is a Tensor"),
    "inside": (lambda: co.Sequential(layer_of()), TypeError, "encoder is a Sequential, but must be a co.Transformer"),
    "older query": (
        lambda: layer_of(query_index=-2),
        ValueError,
        "layer 0 has query_index=-2, but must",
    ),
    "activation": (lambda: layer_of(activation=nn.SiLU()), ValueError, "layer 0.activation is SiLU"),
    "norm": (other_norm, TypeError, "norm is a BatchNorm1d"),
    "lengths": (other_lengths, ValueError, "layers with sequence_len 4, 5; specify window="),
}


@pytest.mark.parametrize(("make", "error", "says"), REFUSED_FROM.values(), ids=REFUSED_FROM.keys())
def test_what_cannot_be_taken_over_is_refused(make, error, says):
    with pytest.raises(error, match=says):
        from_continual(make())


@pytest.mark.parametrize("convert", [from_continual, to_continual])
def test_without_the_package(build, monkeypatch, convert):
    monkeypatch.setitem(sys.modules, "continual", None)
    with pytest.raises(ImportError, match="pip install continual-inference"):
        convert(build("encoder"))
