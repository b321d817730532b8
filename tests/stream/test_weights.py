"""Pools with weights in bfloat16 and int8: close to float32, the same bits alone and together, snapshots that move."""

import numpy as np
import pytest
import torch

import nystream as ns

# Largest error relative to the largest output. A weight in bfloat16 is off by up to 0.4 %, and by 0.2 % on average; in
# int8, so are inputs. Errors of many weights cancel out, those of several blocks add up; small models have few weights.
TOLERANCE = {"bfloat16": 0.01, "int8": 0.03}

MODELS = {
    "fixed": {"variant": "co-fixed-single"},
    "continual": {"variant": "co-cont-single", "pinv": "ridge"},
    "full": {"variant": "co-full-single"},
    "deep": {"variant": "co-fixed-single", "layers": 3},
    "deep and continual": {"variant": "co-cont-single", "layers": 2, "norm": "post", "activation": "relu"},
    "groups": {"variant": "co-cont-single", "update_size": 2},
    "linear path": {"variant": "co-fixed-single", "linear": ns.LinearConfig(segments=(1, 1, 3), embedded=True)},
}


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    """A model that is wide enough for errors to cancel out, as they do in use."""
    options = dict(MODELS[request.param])
    torch.manual_seed(0)
    own = {name: options.pop(name) for name in ("variant", "pinv", "update_size") if name in options}
    attention = ns.AttentionConfig(embed_dim=72, num_heads=6, window=12, landmarks=4, **own)
    config = ns.ModelConfig(input_dim=20, output_dim=5, ff_dim=100, attention=attention, stack="deep", **options)
    made = ns.StreamModel(config).eval().requires_grad_(False)
    if config.linear is not None:
        torch.nn.init.normal_(made.linear.weight, std=0.1)
    for block in made.encoder.blocks:
        if block.attention.config.fixed:
            block.attention.set_landmarks(torch.randn(6, 4, 12), torch.randn(6, 4, 12))
    return made


def outputs(pool, x):
    """The outputs of one stream for tokens [T, r, input_dim]."""
    sid = pool.open()
    return np.stack([pool.push(sid, token) for token in x])


@pytest.fixture
def x(model, tokens):
    shape = (40, 20) if model.config.update_size == 1 else (40, model.config.update_size, 20)
    return tokens(*shape)


@pytest.mark.parametrize("weights", TOLERANCE)
def test_outputs_are_close_to_those_in_float32(model, x, weights):
    expected = outputs(ns.StreamPool(model), x)
    error = np.abs(outputs(ns.StreamPool(model, weights=weights), x) - expected).max() / np.abs(expected).max()
    assert 1e-5 < error < TOLERANCE[weights]


@pytest.mark.parametrize("weights", TOLERANCE)
def test_streams_together_give_the_bits_of_one(model, x, weights):
    pool = ns.StreamPool(model, weights=weights)
    alone, together = [pool.open() for _ in range(21)], [pool.open() for _ in range(21)]
    for time in range(15):
        tokens = np.stack([x[(time + 3 * stream) % len(x)] for stream in range(21)])
        rows = pool.push_many(together, tokens)
        for sid, token, row in zip(alone, tokens, rows, strict=True):
            np.testing.assert_array_equal(pool.push(sid, token), row)


@pytest.mark.parametrize("weights", TOLERANCE)
def test_streams_move_between_pools_with_other_weights(model, x, weights):
    usual, light = ns.StreamPool(model), ns.StreamPool(model, weights=weights)
    for source, target in ((usual, light), (light, usual), (light, ns.StreamPool(model, backend="torch"))):
        there, expected = source.open(), outputs(target, x)
        for token in x[:20]:
            source.push(there, token)
        here = target.restore(source.snapshot(there))
        assert target.time(here) == source.time(there)
        moved = np.stack([target.push(here, token) for token in x[20:]])
        assert np.abs(moved - expected[20:]).max() < TOLERANCE[weights] * np.abs(expected).max()


@pytest.mark.parametrize("part", ["encoder", "attention"])
@pytest.mark.parametrize("weights", TOLERANCE)
def test_parts_of_a_model(model, tokens, part, weights):
    if model.config.update_size > 1:
        pytest.skip("tokens come alone here")
    module = model.encoder if part == "encoder" else model.encoder.blocks[0].attention
    x = tokens(30, 72)
    expected = outputs(ns.StreamPool(module), x)
    error = np.abs(outputs(ns.StreamPool(module, weights=weights), x) - expected).max() / np.abs(expected).max()
    assert 1e-5 < error < TOLERANCE[weights]


@pytest.mark.parametrize("weights", TOLERANCE)
def test_extreme_tokens_overflow_where_they_do_in_float32(model, x, weights):
    tokens = [np.full_like(x[0], value) for value in (0, 1e-40, 1e15, 1e30, 3e38, 0)]
    usual, light = (
        np.isfinite(outputs(ns.StreamPool(model, weights=w), [*tokens, x[0]])) for w in ("float32", weights)
    )
    assert usual[:3].all()
    np.testing.assert_array_equal(light, usual)


def test_weights_are_shown_and_take_less_memory(build):
    pools = {weights: ns.StreamPool(build(), 4, weights=weights) for weights in ("float32", "bfloat16", "int8")}
    for weights, pool in pools.items():
        assert pool.weights == weights
        assert f"weights={weights!r}" in repr(pool)
        assert pool.bytes_per_stream == pools["float32"].bytes_per_stream
    assert ns.StreamPool(build(dtype=torch.float64), 1, "torch").weights == "float64"


def test_bytes_that_a_step_reads():
    """An attention alone: k, q and v or their folded form, and the output, all 64 wide, with their constants."""
    config = ns.AttentionConfig("co-full-single", embed_dim=64, num_heads=8, window=10)
    module = ns.MultiheadAttention(config).eval()
    sizes = {weights: ns.StreamPool(module, 1, weights=weights)._backend.weight_bytes for weights in (
        "float32", "bfloat16", "int8")}  # fmt: skip
    rest = sizes["float32"] - 4 * (4 * 64 * 64 + 4 * 64)
    assert sizes["bfloat16"] - rest == 2 * 4 * 64 * 64 + 4 * 4 * 64
    assert sizes["int8"] - rest == 2 * 2 * 64 * 64 + 2 * 64 * 64 + 4 * (2 * 64 + 3 * 2 * 64)


@pytest.mark.parametrize("value", ["float16", "int4", "", None, torch.int8, ["int8"], np.array(["int8", "int8"])])
@pytest.mark.parametrize(
    ("argument", "known"),
    [
        ("weights", "'float32', 'bfloat16', 'int8'"),
        ("ring_dtype", "'float32', 'bfloat16'"),
        ("backend", "'auto', 'numba', 'torch', 'triton'"),
    ],
)
def test_unknown_options_are_refused(build, argument, known, value):
    with pytest.raises(ValueError, match=f"{argument}=.* does not exist; it must be one of {known}$"):
        ns.StreamPool(build(), **{argument: value})


@pytest.mark.parametrize("weights", TOLERANCE)
def test_weights_that_need_the_compiled_backend_are_refused_without_it(build, weights):
    words = f"weights='{weights}' needs a compiled backend, but "
    with pytest.raises(ValueError, match=f"{words}backend='torch' was asked for; use backend='numba'"):
        ns.StreamPool(build(), backend="torch", weights=weights)
    recomputing = build("full", layers=2)
    for backend, why in (
        ("auto", "its kernels cannot run this model: it has a block of"),
        ("torch", "backend='torch'"),
    ):
        with pytest.raises(ValueError, match=f"{words}{why}.*; use weights='float32'"):
            ns.StreamPool(recomputing, backend=backend, weights=weights)


@pytest.mark.filterwarnings("ignore:a pool uses backend='torch', which is slower")
def test_the_advice_in_a_refusal_works(build):
    double, asked = build(dtype=torch.float64), {"weights": "int8", "ring_dtype": "bfloat16"}
    advice = "use weights='float32' and ring_dtype='float32'"
    for backend, also in (("numba", " and backend='torch'"), ("auto", ""), ("torch", "")):
        with pytest.raises(ValueError, match=f"^weights='int8' and ring_dtype='bfloat16' need .*; {advice}{also},"):
            ns.StreamPool(double, backend=backend, **asked)
        usable = ns.StreamPool(double, 1, backend="torch" if also else backend, weights="float32", ring_dtype="float32")
        assert usable.backend == "torch"


def test_work_is_counted_in_multiplications(build):
    """Whether a batch is divided among threads does not depend on how many numbers fit into a word."""
    counts = {ns.StreamPool(build(), 1, weights=weights)._backend._multiplications for weights in (
        "float32", "bfloat16", "int8")}  # fmt: skip
    assert len(counts) == 1
    config = ns.AttentionConfig("co-full-single", embed_dim=64, num_heads=8, window=10, update_size=2)
    pool = ns.StreamPool(ns.MultiheadAttention(config).eval(), 1, weights="int8")
    assert pool._backend._multiplications == 2 * 4 * 64 * 64
