"""A pool with the triton backend: slots, padding, bad tokens, snapshots, and what it says when it cannot run."""

import subprocess
import sys

import numpy as np
import pytest
import torch

import nystream as ns
from nystream import extras, testing
from nystream.stream import UnknownStreamError
from nystream.stream.gpu.launch import Call

VARIANTS = ("co-fixed-single", "co-cont-single", "co-full-single")
SMALL = {"window": 4, "landmarks": 2, "num_heads": 1, "embed_dim": 4}


@pytest.fixture
def pool(shaped):
    return ns.StreamPool(shaped(**SMALL), capacity=4, backend="triton")


@pytest.mark.filterwarnings("ignore:All-NaN slice", "ignore:invalid value", "ignore:overflow")  # in the interpreter
@pytest.mark.parametrize("variant", ["co-fixed-single", "co-full-single"])
def test_the_contract(variant, shaped):
    options = SMALL | {"window": 2, "landmarks": 1}
    testing.check_stream_pool(shaped(variant, **options), "triton", 1e-5, tokens=6)


def test_padding_is_skipped(pool, shaped, tokens):
    plain = ns.StreamPool(shaped(**SMALL), backend="torch")
    a, b = pool.open(), pool.open()
    others = [plain.open(), plain.open()]
    for x in tokens(7, 4, 5):
        x[0] = np.nan  # whatever is in the rows that are skipped
        y = pool.push_many([-1, b, -1, a], x)
        np.testing.assert_array_equal(y[[0, 2]], 0.0)
        np.testing.assert_allclose(y[[1, 3]], plain.push_many(others[::-1], x[[1, 3]]), atol=1e-5)
    np.testing.assert_array_equal(pool.push_many([-1], tokens(1, 5)), np.zeros((1, 3)))
    assert [pool.time(sid) for sid in (a, b)] == [7, 7]


def test_other_backends_have_no_padding(shaped, tokens):
    with pytest.raises(UnknownStreamError, match="stream -1 was never opened"):
        ns.StreamPool(shaped(), backend="torch").push_many([-1], tokens(1, 5))


@pytest.mark.parametrize("linear", [None, ns.LinearConfig(segments=2)])
@pytest.mark.parametrize("variant", VARIANTS)
def test_one_bad_row_stops_all(variant, linear, shaped, tokens):
    pool = ns.StreamPool(shaped(variant, **SMALL, linear=linear), backend="triton")
    a, b = pool.open(), pool.open()
    for x in tokens(3, 2, 5):
        pool.push_many([a, b], x)
    before = [pool.snapshot(sid) for sid in (a, b)]
    for value in (np.nan, np.inf):
        x = tokens(2, 5)
        x[1, 4] = value
        with pytest.raises(ValueError, match=f"X has 1 value that is NaN or Inf, for stream {b}; no state was changed"):
            pool.push_many([a, b], x)
        with pytest.raises(ValueError, match="no state was changed"):
            pool.push(b, x[1])
    assert [pool.snapshot(sid) for sid in (a, b)] == before


def test_slots_are_used_again(pool, shaped, in_float64, tokens):
    x, model = tokens(6, 5), shaped(**SMALL)
    fresh = pool.snapshot(pool.open())
    first = pool.open()
    for _ in range(2):
        np.testing.assert_allclose([pool.push(first, token) for token in x], in_float64(model, x), atol=1e-5)
        pool.reset(first)
        assert pool.snapshot(first) == fresh
    pool.push(first, x[0])
    pool.close(first)
    again = pool.open()
    assert pool.snapshot(again) == fresh
    np.testing.assert_allclose([pool.push(again, token) for token in x], in_float64(model, x), atol=1e-5)


def test_growth(shaped, in_float64, tokens):
    model, x = shaped(**SMALL, linear=ns.LinearConfig(segments=2)), tokens(7, 5)
    pool = ns.StreamPool(model, capacity=1, backend="triton")
    sid, out = pool.open(), []
    for token in x:
        out.append(pool.push(sid, token))
        new = pool.open()
    assert pool.capacity == 8
    np.testing.assert_allclose(out, in_float64(model, x), atol=1e-5)
    np.testing.assert_allclose([pool.push(new, token) for token in x], in_float64(model, x), atol=1e-5)


# A window with totals and a partly filled one, in a slot whose ring is rotated.
@pytest.mark.parametrize("other", ["numba", "torch"])
@pytest.mark.parametrize(
    ("variant", "options", "times"),
    [
        ("co-fixed-single", {"window": 24, "landmarks": 1, "num_heads": 1, "embed_dim": 4, "decay": True}, (3, 31)),
        ("co-cont-single", {"window": 5, "landmarks": 2, "num_heads": 1, "decay": True}, (3, 8)),
        ("co-full-single", {"window": 4, "update_size": 2}, (1, 5)),
        ("co-fixed-single", {**SMALL, "layers": 2, "linear": ns.LinearConfig(segments=3)}, (2, 5)),
    ],
)
def test_snapshots_move_between_backends(variant, options, times, other, shaped, in_float64, tokens):
    if other == "numba":
        pytest.importorskip("numba")
    model = shaped(variant, **options)
    ours, theirs = (ns.StreamPool(model, 2, backend=name) for name in ("triton", other))
    r = model.config.update_size
    ours.open()  # the next slot is rotated
    for time in times:
        x = tokens(time + 4, *([r] if r > 1 else []), 5)
        expected = in_float64(model, x)
        for source, target in ((ours, theirs), (theirs, ours)):
            sid = source.open()
            for token in x[:time]:
                source.push(sid, token)
            moved, again = target.restore(source.snapshot(sid)), source.restore(source.snapshot(sid))
            for pool, stream in ((target, moved), (source, again)):
                out = [pool.push(stream, token) for token in x[time:]]
                np.testing.assert_allclose(out, expected[time:], atol=2e-5)
                assert pool.time(stream) == r * (time + 4)


def test_streams_from_their_last_tokens(pool, shaped, in_float64, tokens):
    model, x = shaped(**SMALL), tokens(11, 5)
    sid = pool.restore_from_tokens(x[3:9], 9)
    np.testing.assert_allclose([pool.push(sid, token) for token in x[9:]], in_float64(model, x)[9:], atol=1e-5)


def test_tensors_stay_on_the_device(pool, tokens):
    """What `push_many` does with a tensor on a GPU, here on the CPU."""
    a, b = pool.open(), pool.open()
    x = tokens(2, 2, 5)
    expected = pool.push_many([a, b], x[0])
    pool.reset(a)
    pool.reset(b)
    y = pool._push_tensor(np.array([a, b]), torch.from_numpy(x[0]))
    assert isinstance(y, torch.Tensor)
    np.testing.assert_array_equal(y, expected)
    kept = y.clone()
    pool._push_tensor(np.array([b, -1]), torch.from_numpy(x[1]))
    assert torch.equal(y, kept)
    assert pool._push_tensor(np.empty(0, np.int64), torch.empty(0, 5)).shape == (0, 3)
    with pytest.raises(ValueError, match=r"X is \[2, 4\], but push_many needs \[S, 5\]"):
        pool._push_tensor(np.array([a, b]), torch.zeros(2, 4))
    with pytest.raises(TypeError, match=r"X has dtype torch\.bool, but must be real numbers"):
        pool._push_tensor(np.array([a, b]), torch.zeros(2, 5, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"X is on meta, but the model of the pool is on cpu: use X\.to\('cpu'\)"):
        pool._push_tensor(np.array([a, b]), torch.zeros(2, 5, device="meta"))
    with pytest.raises(ValueError, match="1 value that is NaN or Inf, for stream 1"):
        pool._push_tensor(np.array([a, b]), torch.tensor([[0.0] * 5, [torch.nan] + [0.0] * 4]))
    assert [pool.time(a), pool.time(b)] == [1, 2]


def test_integers_are_numbers(pool, tokens):
    a, b = pool.open(), pool.open()
    x = torch.arange(10).reshape(2, 5)
    y = pool._push_tensor(np.array([a, b]), x)
    pool.reset(a)
    pool.reset(b)
    assert torch.equal(y, pool._push_tensor(np.array([a, b]), x.float()))


def test_no_push_while_a_graph_is_captured(pool, tokens, monkeypatch):
    a = pool.open()
    with monkeypatch.context() as patch:
        patch.setattr(torch.cuda, "is_initialized", lambda: True)
        patch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
        with pytest.raises(RuntimeError, match="a pool cannot be pushed while a CUDA graph is captured"):
            pool.push(a, tokens(5))
    pool.push(a, tokens(5))
    assert pool.time(a) == 1


def test_a_reset_that_fails_half_way_sets_its_stream_aside(shaped, monkeypatch, tokens):
    pool = ns.StreamPool(shaped(window=4, landmarks=2, num_heads=1, embed_dim=4, layers=2), 4, backend="triton")
    a, b = pool.open(), pool.open()
    pool.push_many([a, b], tokens(2, 5))

    def fails(slot):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    with monkeypatch.context() as patch:
        patch.setattr(pool._backend._streams.attentions[1], "clear", fails)
        with pytest.raises(MemoryError, match="not enough memory for the state of a new stream: CUDA out of memory"):
            pool.reset(a)
    with pytest.raises(RuntimeError, match=rf"stream {a} cannot be used.*reset\({a}\)"):
        pool.push(a, tokens(5))
    pool.reset(a)
    assert (pool.time(a), pool.time(b)) == (0, 1)


def test_streams_of_one_age_enter_their_blocks_at_different_times(shaped):
    """So that no call of a pool has much more to do than another."""
    pool = ns.StreamPool(shaped(window=24, landmarks=2), capacity=48, backend="triton")
    streams = pool._backend._streams
    attention, slots = streams.attentions[0], torch.arange(48)
    assert attention.cut.edges > 1
    for time in range(24):
        streams.time.fill_(time)
        plan = attention.plan(Call(slots, streams.time, torch.tensor(0)), advance=False)
        assert int(plan.counts[0]) == 48 // attention.cut.edges
        listed = sorted(plan.entering[: plan.counts[0]].tolist())
        assert listed == [s for s in range(48) if (time + s) % 24 % attention.cut.edges == 0]


def test_a_failed_step_sets_its_streams_aside(pool, monkeypatch, tokens):
    a, b = pool.open(), pool.open()
    pool.push_many([a, b], tokens(2, 5))

    def fails(*_):
        raise RuntimeError("the device is lost")

    with monkeypatch.context() as patch:
        patch.setattr(pool._backend._streams, "step", fails)
        with pytest.raises(RuntimeError, match="the device is lost"):
            pool.push_many([a, -1], tokens(2, 5))
    with pytest.raises(RuntimeError, match=f"stream {a} cannot be used"):
        pool.push(a, tokens(5))
    assert pool.push(b, tokens(5)).shape == (3,)
    pool.reset(a)
    assert pool.push(a, tokens(5)).shape == (3,)


def test_what_the_kernels_cannot_run(shaped, monkeypatch):
    full = ns.StreamModel(
        ns.ModelConfig(
            input_dim=5, output_dim=3, attention=ns.AttentionConfig("full", embed_dim=8, num_heads=2, window=4)
        )
    )
    for model, words in (
        (full, "whose step computes all rows"),
        (shaped(window=130, landmarks=129), "has 129 landmarks, but the kernels take at most 128"),
        (shaped().double(), "is float64, but the kernels take float32 and bfloat16"),
        (shaped("co-cont-single", pinv="exact"), "pinv='exact' has no kernel for continual landmarks"),
        (shaped(sums="subtract"), "sums='subtract'"),
    ):
        with pytest.raises(ValueError, match=words) as caught:
            ns.StreamPool(model, backend="triton")
        assert "use backend='torch', which runs every model" in str(caught.value)
    with pytest.raises(ValueError, match=r"weights='int8' needs backend='numba'.*use weights='float32'"):
        ns.StreamPool(shaped(), backend="triton", weights="int8")
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    with pytest.raises(ValueError, match=r"is on cpu, but the kernels run on a GPU: .*; use backend='torch'"):
        ns.StreamPool(shaped(), backend="triton")


@pytest.mark.parametrize("capacity", [10**12, 10**18])
def test_too_many_streams(shaped, capacity):
    with pytest.raises(MemoryError, match=rf"capacity={capacity}: not enough memory .* a smaller capacity is enough"):
        ns.StreamPool(shaped(**SMALL), capacity, backend="triton")


def test_without_triton(shaped, monkeypatch):
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    words = r"cannot be used\. Triton is not installed: pip install -c constraints.txt '\.\[gpu\]', or use backend="
    with pytest.raises(ImportError, match=words):
        ns.StreamPool(shaped(), backend="triton")


def test_the_backend_needs_no_numba():
    source = "import sys, nystream.stream.backends.triton; print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "False"
