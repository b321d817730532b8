"""Invalid calls of a pool: every message says what is wrong, and no stream changes."""

import copy
import pickle
import sys

import numpy as np
import pytest
import torch

import nystream as ns
from nystream import extras
from nystream.stream import UnknownStreamError, backends


@pytest.mark.parametrize("x", [[1.0] * 4, [1.0] * 6, 1.0, [], [[1.0] * 5], [[1.0] * 5] * 2])
def test_a_wrong_shape_is_refused(streams, x, refused):
    sid = streams.open()
    words = (f"x is {list(np.shape(x))}", "push needs [5] (input_dim=5)")
    refused(streams, lambda: streams.push(sid, x), ValueError, *words)


@pytest.mark.parametrize("x", [[1.0] * 5, [[1.0] * 4] * 2, [[[1.0] * 5]] * 2])
def test_a_wrong_shape_of_many_is_refused(streams, x, refused):
    sids = [streams.open(), streams.open()]
    words = (f"X is {list(np.shape(x))}", "push_many needs [S, 5] (S streams, input_dim=5)")
    refused(streams, lambda: streams.push_many(sids, x), ValueError, *words)


def test_several_tokens_for_one_stream_are_told_of_push_many(streams, tokens, refused):
    sid = streams.open()
    refused(streams, lambda: streams.push(sid, tokens(2, 5)), ValueError, "push_many takes several streams")


@pytest.mark.parametrize(
    ("x", "words"),
    [
        ([1j] * 5, "complex128"),
        (["a"] * 5, "<U1"),
        ([True] * 5, "bool"),
        ([None] * 5, "object"),
        ([[1.0], [2.0, 3.0]], "list"),
        (np.array(["2020"] * 5, "M8[Y]"), "datetime64"),
        (np.ma.masked_array(np.ones(5), [True] * 5), "masked"),
        (torch.ones(5, dtype=torch.complex64), "complex64"),
        (torch.ones(5).to_sparse(), "Tensor"),
        ([10**400] * 5, "object"),
        (None, "object"),
        ({"a": 1}, "object"),
    ],
)
def test_what_is_no_array_of_numbers_is_refused(streams, x, words, refused):
    sid = streams.open()
    refused(streams, lambda: streams.push(sid, x), TypeError, "x ", "real numbers" * ("mask" not in words), words)
    if isinstance(x, list) and len(x) == 5:
        refused(streams, lambda: streams.push_many([sid], [x]), TypeError, "X ", words)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({1: np.nan}, "x has 1 value that is NaN or Inf, for stream 0"),
        ({1: np.nan, 4: np.inf}, "x has 2 values that are NaN or Inf, for stream 0"),
        ({0: 1e39}, "x has 1 value that is too large for float32, for stream 0"),
        ({0: -1e300, 3: np.nan}, "x has 2 values that are NaN or Inf, or too large for float32, for stream 0"),
    ],
)
def test_what_is_not_finite_is_refused(streams, tokens, values, words, refused):
    sid = streams.open()
    x = tokens(5, dtype=np.float64)
    for place, value in values.items():
        x[place] = value
    refused(streams, lambda: streams.push(sid, x), ValueError, words, "no state was changed")
    streams.push(sid, tokens(5))
    assert streams.time(sid) == 1


def test_the_streams_whose_tokens_are_not_finite_are_named(streams, tokens, refused):
    sids, x = [streams.open() for _ in range(8)], tokens(8, 5)
    x[2, 1] = np.nan
    words = "X has 1 value that is NaN or Inf, for stream 2; no state was changed"
    refused(streams, lambda: streams.push_many(sids, x), ValueError, words)
    x[:7, 0] = np.inf
    words = "X has 8 values that are NaN or Inf, for streams 0, 1, 2, 3, 4 and 2 more"
    refused(streams, lambda: streams.push_many(sids, x), ValueError, words)


@pytest.mark.parametrize(("dtype", "large"), [(torch.float16, 7e4), (torch.bfloat16, 3.4e38), (torch.float64, np.inf)])
def test_too_large_depends_on_the_models_dtype(build, dtype, large, refused):
    streams = ns.StreamPool(build(dtype=dtype, pinv="ridge"), 2, "torch")
    sid = streams.open()
    refused(streams, lambda: streams.push(sid, [large, 0, 0, 0, 0]), ValueError, "x has 1 value that is")


def methods(streams, sid):
    x = np.ones(5, np.float32)
    return {
        "push": lambda: streams.push(sid, x),
        "push_many": lambda: streams.push_many([streams.ids[0], sid], [x, x]),
        "reset": lambda: streams.reset(sid),
        "close": lambda: streams.close(sid),
        "snapshot": lambda: streams.snapshot(sid),
        "time": lambda: streams.time(sid),
    }


METHODS = ("push", "push_many", "reset", "close", "snapshot", "time")


@pytest.mark.parametrize("method", METHODS)
def test_an_id_that_no_stream_has_is_refused(streams, method, refused):
    with pytest.raises(UnknownStreamError, match=r"^stream 0 was never opened in this pool: open\(\) has not been"):
        streams.time(0)
    streams.open()
    closed = streams.open()
    streams.close(closed)
    words = (f"stream {closed} is closed; open() starts a new one",)
    refused(streams, methods(streams, closed)[method], UnknownStreamError, *words)
    for sid in (2, -1):
        words = (f"stream {sid} was never opened in this pool: open() has returned the ids 0 to 1",)
        refused(streams, methods(streams, sid)[method], UnknownStreamError, *words)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sid", ["0", 0.0, True, None, [0], np.float32(0), np.bool_(False)])
def test_an_id_is_an_integer(streams, method, sid, refused):
    streams.open()
    words = ("sid is", type(sid).__name__, "must be an integer returned by open()")
    refused(streams, methods(streams, sid)[method], TypeError, *words)


def test_an_unknown_stream_is_a_key_error_and_a_value_error(streams):
    for kind in (KeyError, ValueError, LookupError):
        with pytest.raises(kind):
            streams.time(3)


@pytest.mark.parametrize("sids", ["01", {0, 1}, 0, None, np.array([0.0, 1.0]), np.array([[0, 1]]), np.array([True])])
def test_ids_of_another_kind_are_refused(streams, tokens, sids, refused):
    streams.open(), streams.open()
    refused(streams, lambda: streams.push_many(sids, tokens(2, 5)), TypeError, "sids is", "integers")


@pytest.mark.parametrize("sid", [2**63, 2**64 - 1, 2**70, -(2**70), np.uint64(2**64 - 1)])
def test_an_id_beyond_64_bits_is_unknown(streams, tokens, sid, refused):
    streams.open()
    calls = [lambda: streams.push(sid, tokens(5)), lambda: streams.push_many([0, sid], tokens(2, 5))]
    if 0 < sid < 2**64:
        calls.append(lambda: streams.push_many(np.array([0, sid], np.uint64), tokens(2, 5)))
    for call in calls:
        refused(streams, call, UnknownStreamError, f"stream {sid} was never opened")


def test_a_stream_is_pushed_once_at_a_time(streams, tokens, refused):
    a, b = streams.open(), streams.open()
    words = f"sids has stream {b} more than once"
    refused(streams, lambda: streams.push_many([a, b, b], tokens(3, 5)), ValueError, words)


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_every_stream_needs_a_row(streams, tokens, rows, refused):
    sids = [streams.open(), streams.open()]
    words = f"sids has 2 ids, but X has {rows} rows"
    refused(streams, lambda: streams.push_many(sids, tokens(rows, 5)), ValueError, words)


def test_ids_that_were_good_before_are_looked_up_again_after_a_close(streams, tokens, refused):
    sids = [streams.open() for _ in range(3)]
    streams.push_many(sids, tokens(3, 5))
    streams.close(sids[1])
    fresh = streams.open()  # in the same slot
    refused(streams, lambda: streams.push_many(sids, tokens(3, 5)), UnknownStreamError, "stream 1 is closed")
    assert streams.time(fresh) == 0


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"capacity": 0}, ValueError, ("capacity=0", "at least 1")),
        ({"capacity": -3}, ValueError, ("capacity=-3", "at least 1")),
        ({"capacity": 2.0}, TypeError, ("capacity=2.0", "integer")),
        ({"capacity": True}, TypeError, ("capacity=True", "integer")),
        ({"capacity": 10**15, "backend": "torch"}, MemoryError, ("capacity=1000000000000000", "a smaller capacity")),
        ({"capacity": 10**18, "backend": "torch"}, MemoryError, ("more than a process can address", "smaller")),
        ({"capacity": 10**30}, ValueError, ("capacity=1000", "at most")),
        ({"backend": "cuda"}, ValueError, ("backend='cuda'", "'auto', 'numba', 'torch', 'triton'")),
        ({"backend": None}, ValueError, ("backend=None", "'torch'")),
    ],
)
def test_arguments_are_checked(build, options, error, words):
    with pytest.raises(error) as caught:
        ns.StreamPool(build(), **options)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("model", [torch.nn.Linear(2, 2), None, ns.StreamModel, "model"])
def test_a_model_of_another_kind_is_refused(model):
    with pytest.raises(TypeError, match=r"model is a \w+, but must be a StreamModel, a StreamEncoder or a Multihead"):
        ns.StreamPool(model)


@pytest.mark.parametrize("variant", ["full", "co-fixed-retro"])
def test_an_attention_that_returns_all_rows_is_refused(variant):
    cfg = ns.AttentionConfig(variant, embed_dim=4, num_heads=2, window=4, landmarks=2)
    modules = [ns.MultiheadAttention(cfg)]
    if variant == "full":
        modules.append(ns.StreamEncoder(ns.EncoderConfig(attention=cfg)))
    for module in modules:
        with pytest.raises(ValueError, match=f"variant '{variant}', which returns all 4 rows .*-single, or a StreamM"):
            ns.StreamPool(module)


def test_missing_landmarks_and_weights_without_values_are_refused(build):
    cfg = build().config
    with pytest.raises(RuntimeError, match="'co-fixed-single' has no landmarks yet"):
        ns.StreamPool(ns.StreamModel(cfg))
    with pytest.raises(ValueError, match="weights on the meta device"):
        ns.StreamPool(ns.StreamModel(cfg, device="meta"))


def test_landmarks_that_were_written_in_place_count(build, tokens):
    model, other = build(seed=1), build(seed=1)
    blank = ns.StreamModel(model.config)
    blank.load_state_dict({k: v for k, v in model.state_dict().items() if "tilde" not in k}, strict=False)
    with torch.no_grad():
        blank.encoder.blocks[0].attention.q_tilde.copy_(model.encoder.blocks[0].attention.q_tilde)
        blank.encoder.blocks[0].attention.k_tilde.copy_(model.encoder.blocks[0].attention.k_tilde)
    ours, theirs = (ns.StreamPool(one, 1, "torch") for one in (blank, other))
    np.testing.assert_array_equal(ours.push(ours.open(), tokens(5)), theirs.push(theirs.open(), tokens(5)))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_copies_are_refused_with_the_way_out(streams, copied):
    with pytest.raises(TypeError, match=r"cannot be copied or pickled.*restore\(pool\.snapshot\(sid\)\)"):
        copied(streams)


def test_numba_is_not_needed_until_it_is_asked_for(build, monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    kernels = [name for name in sys.modules if name.startswith(("nystream.stream.cpu", f"{backends.__name__}.numba"))]
    for name in kernels:
        package, _, attribute = name.rpartition(".")
        monkeypatch.setattr(sys.modules[package], attribute, sys.modules[name])  # a failed import replaces it
    for name in kernels:
        monkeypatch.delitem(sys.modules, name)
    assert ns.StreamPool(build(), 1, "torch").backend == "torch"
    for name in ("auto", "numba"):
        with pytest.raises(ImportError, match=r"`pip install numba`, or use backend='torch'"):
            ns.StreamPool(build(), 1, name)


def test_a_backend_that_cannot_run_the_model_says_why(build):
    with pytest.raises(ValueError, match=r"backend='numba' cannot run this model: .+; use backend='torch'"):
        ns.StreamPool(build(layers=2), 1, "numba")


def test_a_pool_that_falls_back_to_torch_says_so_once(build):
    model = build(layers=2)
    extras.warn_if_slower.cache_clear()
    with pytest.warns(
        UserWarning, match=r"^a pool uses backend='torch', .* computes all rows .*stack='deep'.*='torch'`$"
    ):
        assert ns.StreamPool(model, 1).backend == "torch"
    assert ns.StreamPool(model, 1).backend == "torch"  # warned once
    extras.warn_if_slower.cache_clear()
    assert ns.StreamPool(model, 1, "torch").backend == "torch"  # as asked for
    assert ns.StreamPool(build(layers=2, stack="auto"), 1).backend == "numba"


def test_a_stream_that_finds_no_memory_is_named(build, backend, monkeypatch):
    """torch raises a RuntimeError, NumPy a MemoryError; neither says what the memory was for."""

    def full(*_):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 64 bytes")

    model = build()
    with monkeypatch.context() as patch:
        patch.setattr(ns.StreamModel, "init_state", full)
        with pytest.raises(MemoryError, match=r"not enough memory for a stream with window=6.* allocate 64 bytes"):
            ns.StreamPool(model, backend=backend)
    with monkeypatch.context() as patch:
        patch.setattr(copy, "deepcopy", full)
        with pytest.raises(MemoryError, match="not enough memory for the pool's copy of the model"):
            ns.StreamPool(model, backend=backend)


def test_other_errors_of_a_backend_stay_what_they_are(build, backend, monkeypatch):
    def fail(*_):
        raise RuntimeError("the device is gone")

    monkeypatch.setattr(ns.StreamModel, "init_state", fail)
    with pytest.raises(RuntimeError, match="the device is gone"):
        ns.StreamPool(build(), backend=backend)
