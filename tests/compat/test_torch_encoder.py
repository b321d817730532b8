"""torch's encoders, converted: the same function with `forward`, `step` and `steps` of every variant."""

import copy
import functools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import nystream as ns
from nystream import testing
from nystream.compat import from_torch

TOLERANCE = testing.TOLERANCE[torch.float64]


def close(actual, expected, tolerance=TOLERANCE):
    assert testing.relative_error(actual, expected) <= tolerance


def torch_encoder(layers=2, width=8, heads=2, ff=12, final_norm=False, dtype=torch.float64, **options):
    """An encoder with random norms and biases."""
    options = {"batch_first": True, "dropout": 0.0, **options}
    layer = nn.TransformerEncoderLayer(width, heads, ff, dtype=dtype, **options)
    norm = nn.LayerNorm(width, eps=options.get("layer_norm_eps", 1e-5), dtype=dtype) if final_norm else None
    encoder = nn.TransformerEncoder(layer, layers, norm, enable_nested_tensor=False)
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return encoder.eval()


def fit(encoder):
    """Set random landmarks if the module needs them."""
    for block in encoder.blocks:
        cfg = block.attention.config
        if cfg.fixed:
            shape = (cfg.num_heads, cfg.m, cfg.head_dim)
            block.attention.set_landmarks(torch.randn(shape), torch.randn(shape))
    return encoder


@pytest.mark.parametrize("final_norm", [False, True], ids=["last", "normed"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm_first", [False, True], ids=["post", "pre"])
@settings(max_examples=5)
@given(
    layers=st.integers(1, 3),
    heads=st.integers(1, 3),
    head_dim=st.integers(1, 5),
    ff=st.integers(1, 9),
    window=st.integers(1, 9),
    batch_first=st.booleans(),
)
def test_full_is_the_original(norm_first, activation, final_norm, layers, heads, head_dim, ff, window, batch_first):
    width = heads * head_dim
    original = torch_encoder(
        layers, width, heads, ff, final_norm, norm_first=norm_first, activation=activation, batch_first=batch_first
    )
    encoder = from_torch(original, "full", window=window)
    x = torch.randn(3, window, width, dtype=torch.float64)
    with torch.no_grad():  # torch takes a path of its own here
        expected = original(x) if batch_first else original(x.transpose(0, 1)).transpose(0, 1)
        close(encoder(x), expected)
    close(encoder(x), expected)


@pytest.mark.parametrize("norm_first", [False, True], ids=["post", "pre"])
@pytest.mark.parametrize("variant", ["full", "co-full-single"])
def test_a_stream_gives_the_original_over_every_window(variant, norm_first):
    original = torch_encoder(3, final_norm=True, norm_first=norm_first)
    encoder = from_torch(original, variant, window=5)
    x = torch.randn(2, 14, 8, dtype=torch.float64)
    state = encoder.init_state(2)
    with torch.no_grad():
        newest, _ = encoder.newest(x, encoder.init_state(2))
        for t in range(14):
            expected = original(x[:, max(t - 4, 0) : t + 1])
            y, state = encoder.step(x[:, t], state)
            close(y if y.dim() == 2 else y[:, -expected.shape[1] :], expected[:, -1] if y.dim() == 2 else expected)
            close(newest[:, t], expected[:, -1])


@pytest.mark.parametrize("norm_first", [False, True], ids=["post", "pre"])
def test_a_deep_stack_is_the_original_under_a_causal_mask(norm_first):
    original = torch_encoder(3, norm_first=norm_first)
    encoder = from_torch(original, "co-full-single", window=7, stack="deep")
    x = torch.randn(2, 17, 8, dtype=torch.float64)
    age = torch.arange(17)[:, None] - torch.arange(17)
    hidden = (age < 0) | (age >= 7)  # a token sees itself and the n − 1 before it
    close(encoder.steps(x, encoder.init_state(2))[0], original(x, mask=hidden))


def test_a_landmark_for_every_token_gives_the_original():
    original = torch_encoder(2, norm_first=True)
    encoder = from_torch(original, "nystrom", window=6, landmarks=6, pinv="exact")
    x = torch.randn(2, 6, 8, dtype=torch.float64)
    close(encoder(x), original(x), 1e-6)  # as good as the inverse of an ill-conditioned Γ


def test_a_family_and_a_wrong_name():
    encoder = from_torch(torch_encoder(2), "co-full", window=4, stack="deep")
    assert [cfg.variant for cfg in encoder.config.blocks] == ["co-full-single"] * 2
    with pytest.raises(ValueError, match=r"variant='co-fulll' is not known; .*; did you mean co-full\?"):
        from_torch(torch_encoder(2), "co-fulll", window=4)


@pytest.mark.parametrize("variant", ns.VARIANTS)
def test_every_variant_has_faces_that_agree(variant):
    encoder = from_torch(torch_encoder(2, norm_first=True), variant, window=4, landmarks=2, pinv="exact")
    for parameter in encoder.parameters():
        assert bool(parameter.isfinite().all())
    assert encoder.config.single == variant.startswith("co-")
    x, state = torch.randn(2, 10, 8, dtype=torch.float64), fit(encoder).init_state(2)
    with torch.no_grad():
        for t in range(10):
            y, state = encoder.step(x[:, t], state)
            if t == 3:
                close(encoder(x[:, :4])[:, -1], y if y.dim() == 2 else y[:, -1])
        at_once, _ = encoder.steps(x, encoder.init_state(2))
    close(at_once[:, -1] if y.dim() == 2 else at_once, y)


@pytest.mark.parametrize("layer", [False, True], ids=["encoder", "layer"])
def test_gradients_and_dropout_are_the_originals(layer):
    original = torch_encoder(1 if layer else 2, dropout=0.3).train()
    original = original.layers[0] if layer else original
    for module in original.modules():
        if isinstance(module, nn.MultiheadAttention):
            module.dropout = 0.0
    encoder = from_torch(original, "full", window=5)
    x = torch.randn(1, 5, 8, dtype=torch.float64)  # with one row torch draws what it drops in our order
    for module in (original, encoder):
        torch.manual_seed(1)
        module(x).square().sum().backward()
    for block, source in zip(encoder.blocks, [original] if layer else original.layers, strict=True):
        attention = block.attention
        ours = torch.cat([p.weight.grad for p in (attention.q_proj, attention.k_proj, attention.v_proj)])
        close(ours, source.self_attn.in_proj_weight.grad)
        close(block.norm1.bias.grad, source.norm1.bias.grad)


@pytest.mark.parametrize("norm_first", [False, True], ids=["post", "pre"])
def test_an_encoder_without_biases_stays_without(norm_first):
    original = torch_encoder(2, final_norm=True, norm_first=norm_first, bias=False, activation="gelu")
    original.norm = nn.LayerNorm(8, elementwise_affine=False)
    encoder = from_torch(original, "full", window=5)
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    close(encoder(x), original(x))
    assert not encoder.config.blocks[0].bias
    assert encoder.blocks[0].attention.out_proj.bias is None
    trained = {name for name, parameter in encoder.named_parameters() if parameter.requires_grad}
    assert trained
    assert not any("bias" in name or name.startswith("norm.") for name in trained)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
def test_dtype_mode_and_what_is_frozen_follow_the_original(dtype, training):
    original = torch_encoder(2, dtype=dtype, layer_norm_eps=1e-3).train(training)
    original.layers[0].requires_grad_(False)
    before = copy.deepcopy(original.state_dict())
    encoder = from_torch(original, "co-fixed-single", window=5, landmarks=2)
    assert encoder.training == training
    assert {parameter.dtype for parameter in encoder.parameters()} == {dtype}
    assert [p.requires_grad for p in encoder.blocks[0].parameters()].count(True) == 0
    assert all(p.requires_grad for p in encoder.blocks[1].parameters())
    assert encoder.config.norm_eps == encoder.blocks[0].norm1.eps == 1e-3
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.zero_()
    for name, held in original.state_dict().items():
        assert torch.equal(held, before[name])


def test_options_reach_the_attention():
    encoder = from_torch(
        torch_encoder(2), "co-fixed-single", 6, 3, stack="deep", pinv="ridge", pinv_ridge=0.5, update_size=2
    )
    cfg = encoder.config.blocks[0]
    assert (cfg.variant, cfg.window, cfg.m, cfg.pinv, cfg.pinv_ridge) == ("co-fixed-single", 6, 3, "ridge", 0.5)
    assert (cfg.update_size, encoder.config.stack) == (2, "deep")


def test_dropout_of_attention_weights_is_said_not_inherited():
    original = torch_encoder(1, dropout=0.2)
    encoder = from_torch(original, "full", window=5)
    assert (encoder.config.dropout, encoder.config.blocks[0].dropout) == (0.2, 0.0)
    assert from_torch(original, "full", window=5, attention_dropout=0.2).config.blocks[0].dropout == 0.2
    with pytest.raises(ValueError, match="is not supported by variant 'nystrom'"):
        from_torch(original, "nystrom", window=5, landmarks=2, attention_dropout=0.2)


@pytest.mark.parametrize(
    ("activation", "name"),
    [
        ("relu", "relu"),
        (nn.functional.relu, "relu"),
        (torch.relu, "relu"),
        (nn.ReLU(), "relu"),
        ("gelu", "gelu"),
        (nn.functional.gelu, "gelu"),
        (nn.GELU(), "gelu"),
    ],
)
def test_activations_by_name_function_and_module(activation, name):
    assert from_torch(torch_encoder(1, activation=activation), window=5).config.activation == name


class Louder(nn.TransformerEncoderLayer):
    def _ff_block(self, x):
        return 2 * super()._ff_block(x)


def broken(path, value):
    """An encoder in which one part has been replaced."""

    def build():
        encoder = torch_encoder(2, final_norm=True)
        owner, name = path.rsplit(".", 1) if "." in path else ("", path)
        setattr(encoder.get_submodule(owner), name, value() if callable(value) else value)
        return encoder

    return build


def wider():
    encoder = torch_encoder(2)
    encoder.layers[1] = torch_encoder(1, ff=20).layers[0]
    return encoder


def mixed(**options):
    encoder = torch_encoder(2)
    encoder.layers[1] = torch_encoder(1, **options).layers[0]
    return encoder


def attention(**options):
    return lambda: nn.MultiheadAttention(8, 2, dtype=torch.float64, batch_first=True, **options)


REFUSED = {
    "another module": (lambda: nn.Linear(3, 3), TypeError, "encoder is a Linear, but must be a torch.nn.Transf"),
    "a decoder": (lambda: nn.TransformerDecoderLayer(8, 2), TypeError, "encoder is a TransformerDecoderLayer"),
    "a subclass": (lambda: Louder(8, 2), TypeError, r"encoder is a Louder that overrides _ff_block\(\)"),
    "tanh gelu": (
        broken("layers.1.activation", lambda: nn.GELU("tanh")),
        ValueError,
        r"layers\[1\].activation is GELU",
    ),
    "silu": (broken("layers.0.activation", lambda: nn.functional.silu), ValueError, "ReLU or the exact GELU"),
    "part of gelu": (
        broken("layers.0.activation", lambda: functools.partial(nn.functional.gelu, approximate="tanh")),
        ValueError,
        "ReLU or the exact GELU",
    ),
    "kdim": (broken("layers.0.self_attn", attention(kdim=5)), ValueError, "kdim=5"),
    "bias kv": (broken("layers.0.self_attn", attention(add_bias_kv=True)), ValueError, "add_bias_kv=True"),
    "zero attn": (broken("layers.1.self_attn", attention(add_zero_attn=True)), ValueError, "add_zero_attn=True"),
    "rms norm": (broken("layers.0.norm1", lambda: nn.RMSNorm(8)), TypeError, "norm1 is a RMSNorm, but must be a"),
    "last rms norm": (broken("norm", lambda: nn.RMSNorm(8)), TypeError, "encoder.norm is a RMSNorm"),
    "wide norm": (
        broken("norm", lambda: nn.LayerNorm((5, 8))),
        ValueError,
        r"norm.normalized_shape is \[5, 8\], but must be \[8\]",
    ),
    "other linear": (broken("layers.0.linear1", lambda: nn.Identity()), TypeError, "linear1 is a Identity"),
    "last eps": (broken("norm.eps", 1e-3), ValueError, "norm.eps is 0.001, but must be 1e-05, as in the layers"),
    "inner eps": (broken("layers.1.norm2.eps", 1e-3), ValueError, r"norm2.eps 0.001; they must be equal"),
    "dropouts": (broken("layers.1.dropout1.p", 0.5), ValueError, r"layers\[1\] has dropouts of 0.5, 0.0, 0.0"),
    "no layers": (broken("layers", nn.ModuleList), ValueError, "encoder has no layers"),
    "width of feed-forward": (wider, ValueError, r"layers\[1\] has ff_dim 20, but encoder.layers\[0\] has 12"),
    "heads": (lambda: mixed(heads=4), ValueError, "has num_heads 4"),
    "norm places": (lambda: mixed(norm_first=True), ValueError, "has norm_first True"),
    "activations": (lambda: mixed(activation="gelu"), ValueError, "has activation gelu"),
    "layer eps": (lambda: mixed(layer_norm_eps=1e-3), ValueError, "has norm eps 0.001"),
    "layer dropout": (lambda: mixed(dropout=0.5), ValueError, "has dropout 0.5"),
    "dtypes": (lambda: mixed(dtype=torch.float32), ValueError, "has dtype torch.float32"),
}


@pytest.mark.parametrize(("build", "error", "says"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_taken_over_is_refused(build, error, says):
    with pytest.raises(error, match=says):
        from_torch(build(), "full", window=5)


def test_arguments_that_are_missing_or_unknown():
    with pytest.raises(TypeError, match="window= is required"):
        from_torch(torch_encoder(1))
    with pytest.raises(TypeError, match="pinv_steps= is not an option; the options are pinv, pinv_iters"):
        from_torch(torch_encoder(1), window=5, pinv_steps=3)
    with pytest.raises(ValueError, match="landmarks=None, but variant 'nystrom' needs"):
        from_torch(torch_encoder(1), "nystrom", window=5)
