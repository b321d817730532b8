"""A conversion copies weights only: anything else that a module does is an error that names it."""

import continual as co
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, prune, spectral_norm

import nystream as ns
from nystream.compat import from_continual, from_torch, to_continual


def torch_encoder():
    layer = nn.TransformerEncoderLayer(8, 2, 12, batch_first=True)
    return nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(8), enable_nested_tensor=False)


def co_encoder():
    factory = co.TransformerEncoderLayerFactory(8, 2, 12, sequence_len=4)
    return co.TransformerEncoder(factory, 2, nn.LayerNorm(8))


def our_encoder():
    attention = ns.AttentionConfig("co-full-single", embed_dim=8, num_heads=2, window=4)
    return ns.StreamEncoder(ns.EncoderConfig(attention=attention, layers=2, ff_dim=12, stack="paper", norm="post"))


CONVERSIONS = {
    "from_torch": (torch_encoder, lambda encoder: from_torch(encoder, window=4)),
    "from_continual": (co_encoder, from_continual),
    "to_continual": (our_encoder, to_continual),
}


def doubled(module, *args):
    return None


class Double(nn.Module):
    def forward(self, x):
        return 2 * x


def old_weight_norm(module):
    with pytest.warns(FutureWarning):
        nn.utils.weight_norm(module)


ADDITIONS = {
    "forward hook": (lambda m: m.register_forward_hook(doubled), "a forward hook, doubled"),
    "forward hook of an object": (lambda m: m.register_forward_hook(Double()), "a forward hook, Double"),
    "forward pre-hook": (lambda m: m.register_forward_pre_hook(doubled), "a forward pre-hook, doubled"),
    "backward hook": (lambda m: m.register_full_backward_hook(doubled), "a backward hook, doubled"),
    "backward pre-hook": (lambda m: m.register_full_backward_pre_hook(doubled), "a backward pre-hook, doubled"),
    "hook on a gradient": (lambda m: m.weight.register_hook(doubled), "a hook on the gradient of weight, doubled"),
    "hook after a gradient": (
        lambda m: m.weight.register_post_accumulate_grad_hook(doubled),
        "a hook on the gradient of weight, doubled",
    ),
    "parametrization": (
        lambda m: nn.utils.parametrize.register_parametrization(m, "weight", Double()),
        r"a parametrization of weight \(Double\)",
    ),
    "weight norm": (parametrizations.weight_norm, r"a parametrization of weight \(_WeightNorm\)"),
    "spectral norm": (parametrizations.spectral_norm, r"a parametrization of weight \(_SpectralNorm\)"),
    "old weight norm": (old_weight_norm, "a forward pre-hook, WeightNorm"),
    "old spectral norm": (spectral_norm, "a forward pre-hook, SpectralNorm"),
    "pruning": (lambda m: prune.l1_unstructured(m, "weight", 0.5), "a forward pre-hook, L1Unstructured"),
    "own forward": (lambda m: setattr(m, "forward", doubled), r"forward\(\)"),
}


@pytest.mark.parametrize("conversion", CONVERSIONS)
@pytest.mark.parametrize("addition", ADDITIONS)
def test_what_the_weights_do_not_say_is_refused(conversion, addition):
    build, convert = CONVERSIONS[conversion]
    add, says = ADDITIONS[addition]
    encoder = build()
    path, linear = next((path, m) for path, m in encoder.named_modules() if path.endswith("linear2"))
    assert path.count(".0.")
    add(linear)
    with pytest.raises((ValueError, TypeError), match=says) as caught:
        convert(encoder)
    assert "[0]" in str(caught.value)
    assert "linear2" in str(caught.value)


@pytest.mark.parametrize("conversion", CONVERSIONS)
@pytest.mark.parametrize("where", ["encoder", "norm", "attention", "first block"])
def test_every_part_is_looked_at(conversion, where):
    build, convert = CONVERSIONS[conversion]
    encoder = build()
    convert(encoder)
    modules = dict(encoder.named_modules())
    endings = {"norm": "norm", "attention": ("self_attn", "attention"), "first block": "s.0"}
    name = "" if where == "encoder" else next(name for name in modules if name.endswith(endings[where]))
    modules[name].register_forward_hook(doubled)
    with pytest.raises(ValueError, match=r"encoder.* has a forward hook, doubled, which the conversion would lose"):
        convert(encoder)


def test_a_hook_that_was_removed_is_no_hook():
    encoder = torch_encoder()
    encoder.layers[0].register_forward_hook(doubled).remove()
    nn.utils.parametrize.register_parametrization(encoder.layers[0].linear1, "weight", Double())
    nn.utils.parametrize.remove_parametrizations(encoder.layers[0].linear1, "weight")
    encoder, x = encoder.eval(), torch.randn(2, 4, 8)
    # float32 in another order of operations
    assert torch.allclose(from_torch(encoder, window=4)(x), encoder(x), atol=1e-5)


class OwnLinear(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


class OwnCall(nn.Linear):
    def __call__(self, x):
        return 2 * super().__call__(x)


class OwnNorm(nn.LayerNorm):
    def forward(self, x):
        return 2 * super().forward(x)


class OwnGelu(nn.GELU):
    def forward(self, x):
        return 2 * x


class OwnBlock(type(our_encoder().blocks[0])):
    pass


@pytest.mark.parametrize(
    ("conversion", "ending", "part", "says"),
    [
        ("from_torch", "linear1", lambda: OwnLinear(8, 12), r"layers\[0\]\.linear1 is a OwnLinear"),
        ("from_torch", "linear1", lambda: OwnCall(8, 12), r"linear1 is a OwnCall that overrides __call__\(\)"),
        ("from_torch", "out_proj", lambda: OwnLinear(8, 8), r"layers\[0\]\.self_attn\.out_proj is a OwnLinear"),
        ("from_torch", "norm1", lambda: OwnNorm(8), "norm1 is a OwnNorm"),
        ("from_continual", "linear1", lambda: OwnLinear(8, 12), r"layer 0\.linear1 is a OwnLinear"),
        ("from_continual", "norm1", lambda: OwnNorm(8), r"layer 0\.norm1 is a OwnNorm"),
        (
            "to_continual",
            "blocks.0",
            lambda: OwnBlock(our_encoder().config.blocks[0], our_encoder().config),
            "OwnBlock",
        ),
    ],
)
def test_parts_of_another_class_are_refused(conversion, ending, part, says):
    build, convert = CONVERSIONS[conversion]
    encoder = build()
    path = next(path for path, _ in encoder.named_modules() if path.endswith(ending))
    owner, _, name = path.rpartition(".")
    setattr(encoder.get_submodule(owner), name, part())
    with pytest.raises(TypeError, match=says):
        convert(encoder)


def test_activations_of_another_class_are_refused():
    theirs, ours = torch_encoder(), our_encoder()
    theirs.layers[1].activation = OwnGelu()
    with pytest.raises(ValueError, match=r"layers\[1\]\.activation is OwnGelu"):
        from_torch(theirs, window=4)
    ours.blocks[1].activation = torch.tanh
    with pytest.raises(ValueError, match=r"encoder\.blocks\[1\]\.activation is not 'gelu'"):
        to_continual(ours)


@pytest.mark.parametrize("method", ["forward", "_sa_block", "_ff_block"])
def test_a_method_that_was_set_on_a_layer_is_refused(method):
    encoder = torch_encoder()
    setattr(encoder.layers[1], method, lambda x, *_, **__: x)
    with pytest.raises(TypeError, match=rf"layers\[1\] is a TransformerEncoderLayer that overrides {method}\(\)"):
        from_torch(encoder, window=4)
