"""Files of earlier versions still load, and streams that resume from them give the outputs of those versions.

The files and the outputs are in `fixtures`; `fixtures/write.py` wrote them.
"""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save

import nystream as ns

FOLDERS = sorted(path.parent for path in (Path(__file__).parent / "fixtures").glob("*/*/config.json"))
BEFORE = 38


@pytest.fixture(params=FOLDERS, ids=lambda folder: f"{folder.parent.name}-{folder.name}")
def folder(request):
    return request.param


@pytest.fixture
def model(folder):
    return ns.StreamModel.from_pretrained(folder).requires_grad_(False)


@pytest.fixture
def numbers(folder):
    return load_file(folder / "numbers.safetensors")


def same(model, got, expected):
    """Relative to the largest output: rounding of float32, and of the inverses that a stream makes of Γ.

    Those amplify it, by the condition of Γ, and may be computed in another precision than they were.
    """
    tolerance = 1e-4 if any(block.record.landmarks == "stream" for block in model.config.blocks) else 1e-5
    expected = np.asarray(expected)
    np.testing.assert_allclose(np.asarray(got), expected, rtol=0, atol=tolerance * np.abs(expected).max())


def test_there_are_files():
    assert [folder.name for folder in FOLDERS if folder.parent.name == "0.1.0"] == ["cont", "deep", "fixed", "learned"]


def test_a_model(model, numbers):
    assert model.info.labels == ("a", "b", "c")
    same(model, model(numbers["x"][:, : model.config.window]), numbers["window"])


def test_a_module_that_was_pickled_whole(folder, model, numbers):
    module = torch.load(folder / "module.pt", weights_only=False)
    for again in (module, copy.deepcopy(module)):
        again.load_state_dict(model.state_dict())
        same(model, again(numbers["x"][:, : model.config.window]), numbers["window"])
    for attention in (block.attention for block in module.encoder.blocks if block.attention.config.fixed):
        attention.q_tilde.data.neg_()
        assert torch.equal(attention.gamma_pinv, copy.deepcopy(attention).gamma_pinv)


def test_a_state(folder, model, numbers):
    state, rest = ns.load_state(folder / "state.safetensors", model), numbers["x"][:, BEFORE:]
    assert state.time.tolist() == [BEFORE, BEFORE]
    same(model, model.steps(rest, state)[0], numbers["streamed"])
    r, outs = model.config.update_size, []
    for token in rest.split(r, 1):
        y, state = model.step(token, state)
        outs.append(y)
    same(model, torch.cat(outs, 1), numbers["streamed"])


@pytest.mark.parametrize("backend", ["torch", "numba"])
def test_a_snapshot(folder, model, numbers, backend):
    pool, r = ns.StreamPool(model, backend=backend), model.config.update_size
    sid = pool.restore((folder / "snapshot.safetensors").read_bytes())
    assert pool.time(sid) == BEFORE
    rest = numbers["x"][0, BEFORE:]
    outs = [pool.push(sid, token[0] if r == 1 else token).reshape(r, -1) for token in rest.split(r)]
    same(model, np.concatenate(outs), numbers["pushed"])


def attention(variant, window=24, **options):
    landmarks = None if "full" in variant else 3
    return ns.AttentionConfig(variant, embed_dim=8, num_heads=2, window=window, landmarks=landmarks, **options)


def encoder(*blocks, stack="deep"):
    return ns.StreamEncoder(ns.EncoderConfig(attention=blocks, layers=len(blocks), stack=stack))


def linear():
    path = ns.LinearConfig(segments=(1, 1, 3))
    return ns.StreamModel(
        ns.ModelConfig(input_dim=8, output_dim=3, attention=attention("co-fixed-single", sums="partials"), linear=path)
    )


OWNERS = {
    "fixed": lambda: ns.MultiheadAttention(attention("co-fixed-single", sums="partials")),
    "decay": lambda: ns.MultiheadAttention(attention("co-fixed-single", sums="partials", decay=True)),
    "groups": lambda: ns.MultiheadAttention(attention("co-fixed-single", sums="partials", update_size=2)),
    "tiers": lambda: ns.MultiheadAttention(attention("co-fixed-single", 200, sums="partials")),
    "subtract": lambda: ns.MultiheadAttention(attention("co-fixed-single", sums="subtract")),
    "recompute": lambda: ns.MultiheadAttention(attention("co-cont-retro", sums="recompute")),
    "cont": lambda: ns.MultiheadAttention(attention("co-cont-single", sums="partials")),
    "cont-retro": lambda: ns.MultiheadAttention(attention("co-cont-retro", sums="partials")),
    "fixed-retro": lambda: ns.MultiheadAttention(attention("co-fixed-retro", sums="partials")),
    "mixed": lambda: encoder(
        attention("co-full-single"),
        attention("co-fixed-single", sums="partials", decay=True),
        attention("co-cont-single", 30, sums="partials"),
    ),
    "paper": lambda: encoder(attention("co-fixed-retro", sums="partials"), attention("co-fixed-single"), stack="paper"),
    "linear": linear,
}


def as_in_format_1(state, owner, slots):
    """The bytes of a state of format 1: the partial sums have other contents, and `slots` slots, None for as many."""
    tensors = {name: leaf.contiguous() for name, leaf in ns.state.named_leaves(state)}
    for name in [name for name in tensors if name.endswith(("part_max", "part_sum"))]:
        rows, count, *rest = tensors[name].shape
        tensors[name] = torch.full((rows, slots if slots and count > 1 else count, *rest), 1e3, dtype=torch.float32)
    meta = ns.state.metadata(ns.state.pack(state, owner))
    meta = {key: text for key, text in meta.items() if key != "checksum"} | {"format": "nystream-state-1"}
    return save(tensors, meta | {"checksum": ns.state.checksum(tensors, meta)})


@pytest.mark.parametrize("tokens", [0, 10, 64])
@pytest.mark.parametrize("slots", [None, 11])
@pytest.mark.parametrize("name", OWNERS)
def test_partial_sums_of_format_1_are_computed_from_the_rings(name, slots, tokens):
    torch.manual_seed(0)
    owner = OWNERS[name]().eval().requires_grad_(False)
    for module in owner.modules():
        if getattr(getattr(module, "config", None), "fixed", False):
            module.set_landmarks(torch.randn(2, 3, 4), torch.randn(2, 3, 4))
    x, state = torch.randn(2, tokens + 40, 8), owner.init_state(2)
    if tokens:
        state = owner.steps(x[:, :tokens], state)[1]
    loaded = ns.state.unpack(as_in_format_1(state, owner, slots), owner)
    for (_, leaf), (_, expected) in zip(ns.state.named_leaves(loaded), ns.state.named_leaves(state), strict=True):
        torch.testing.assert_close(leaf, expected)
    r = getattr(owner.config, "update_size", 1)
    for token in x[:, tokens:].split(r, 1):
        (y, loaded), (expected, state) = owner.step(token, loaded), owner.step(token, state)
        torch.testing.assert_close(y, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda tensors: tensors | {"ring_logit": tensors["ring_logit"][:, 1:]}, "state.ring_logit"),
        (lambda tensors: tensors | {"part_max": tensors["part_max"][:1]}, "different numbers of rows"),
        (lambda tensors: tensors | {"part_sum": torch.tensor(1.0)}, "state.part_sum"),
        (lambda tensors: {name: leaf for name, leaf in tensors.items() if name != "part_sum"}, "lacks part_sum"),
        (lambda tensors: tensors | {"time": torch.tensor([-1, -1])}, "a time must be between"),
    ],
)
def test_a_damaged_file_of_format_1_is_refused(change, says):
    owner = OWNERS["fixed"]()
    tensors = change(dict(ns.state.named_leaves(owner.init_state(2))))
    meta = ns.state.metadata(ns.state.pack(owner.init_state(2), owner)) | {"format": "nystream-state-1"}
    del meta["checksum"]
    with pytest.raises(ValueError, match=says):
        ns.state.unpack(save({name: leaf.contiguous() for name, leaf in tensors.items()}, meta), owner)
