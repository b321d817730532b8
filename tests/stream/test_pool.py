"""The interface of a pool: inputs, outputs and properties."""

import numpy as np
import pytest
import torch

import nystream as ns


def test_it_streams_as_the_model_does(build, alone, tokens):
    model, x = build(), tokens(15, 5)
    streams = ns.StreamPool(model, backend="torch")
    sid = streams.open()
    np.testing.assert_allclose([streams.push(sid, token) for token in x], alone(model, x), atol=1e-6)


@pytest.mark.parametrize(
    "given",
    [
        lambda x: x,
        lambda x: x.tolist(),
        lambda x: tuple(x.tolist()),
        lambda x: x.astype(np.float64),
        lambda x: x.astype(">f4"),
        lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
        lambda x: np.asfortranarray(x),
        lambda x: np.frombuffer(x.tobytes(), np.float32).reshape(x.shape),  # read-only
        lambda x: np.frombuffer(b"." + x.tobytes(), np.float32, offset=1).reshape(x.shape),  # not aligned
        lambda x: torch.from_numpy(x),
        lambda x: torch.from_numpy(x).double().requires_grad_(),
        lambda x: torch.from_numpy(x)[..., None].expand(*x.shape, 2)[..., 0],
        lambda x: [torch.tensor(row) for row in x] if x.ndim == 1 else [list(row) for row in x],
    ],
)
def test_anything_that_holds_numbers_can_be_pushed(streams, tokens, given):
    a, b, c, d = (streams.open() for _ in range(4))
    x = tokens(2, 5)
    expected = np.stack([streams.push(a, x[0]), streams.push(b, x[1])])
    y = streams.push(c, given(x[0]))
    assert type(y) is np.ndarray
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, expected[0], atol=1e-6)
    streams.reset(c)
    np.testing.assert_allclose(streams.push_many([c, d], given(x)), expected, atol=1e-6)


def test_whole_numbers_and_half_types_too(streams, tokens):
    a, b, c = (streams.open() for _ in range(3))
    np.testing.assert_array_equal(streams.push(a, [1, 2, 3, 4, 5]), streams.push(b, np.arange(1.0, 6)))
    half = torch.tensor([1.5, 2, 3, 4, 5], dtype=torch.bfloat16)
    np.testing.assert_array_equal(streams.push(a, half), streams.push(b, half.double()))
    assert streams.push(c, np.arange(5, dtype=np.uint8)).shape == (3,)


@pytest.mark.parametrize(
    ("dtype", "out"),
    [
        (torch.float64, np.float64),
        (torch.float32, np.float32),
        (torch.float16, np.float16),
        (torch.bfloat16, np.float32),
    ],
)
def test_outputs_have_the_models_dtype(build, tokens, dtype, out):
    streams = ns.StreamPool(build(dtype=dtype, pinv="ridge"), 2, "torch")
    sid = streams.open()
    assert streams.push(sid, tokens(5)).dtype == out
    assert streams.push_many([sid], tokens(1, 5)).dtype == out


def test_an_output_is_nobody_elses(streams, tokens):
    sid = streams.open()
    first = streams.push(sid, tokens(5))
    kept = first.copy()
    streams.push(sid, tokens(5, seed=1))
    np.testing.assert_array_equal(first, kept)
    assert first.base is None
    assert first.flags.writeable


def test_tokens_that_arrive_together(build, tokens, refused):
    model = build(update_size=2)
    streams, x = ns.StreamPool(model, 2, "torch"), tokens(3, 2, 5)
    a, b, c = (streams.open() for _ in range(3))
    one = streams.push(a, x[0])
    assert one.shape == (2, 3)
    many = streams.push_many([b, c], x[:2])
    assert many.shape == (2, 2, 3)
    np.testing.assert_allclose(many[0], one, atol=1e-6)
    assert streams.time(a) == 2
    assert streams.push_many([], []).shape == (0, 2, 3)
    refused(streams, lambda: streams.push(a, x[0, 0]), ValueError, "x is [5]", "[2, 5] (update_size=2, input_dim=5)")
    refused(streams, lambda: streams.push_many([a], x[0]), ValueError, "X is [2, 5]", "[S, 2, 5]")


@pytest.mark.parametrize("r", [1, 2])
def test_many_of_one_is_a_push(build, backend, tokens, refused, monkeypatch, r):
    """`push_many` of one stream gives the outputs and errors of `push`, and takes its fast path."""
    streams = ns.StreamPool(build(update_size=r), 2, backend)
    a, b = streams.open(), streams.open()
    monkeypatch.setattr(streams._backend, "push_many", None)
    x = tokens(8, 5) if r == 1 else tokens(8, r, 5)
    for token in x:
        y = streams.push_many([b], token[None])
        np.testing.assert_array_equal(y, streams.push(a, token)[None])
        assert y.base is None
    assert streams.snapshot(a) == streams.snapshot(b)
    refused(streams, lambda: streams.push_many([9], x[:1]), ns.stream.UnknownStreamError, "stream 9 was never opened")
    x[0] = np.nan
    refused(streams, lambda: streams.push_many([b], x[:1]), ValueError, f"X has {5 * r} values that are NaN or Inf")


@pytest.mark.parametrize("sids", [[], (), np.empty(0, np.int64), range(0), torch.empty(0, dtype=torch.int64)])
@pytest.mark.parametrize("x", [[], np.empty((0, 5)), torch.empty(0, 5)])
def test_no_streams_give_no_outputs(streams, sids, x):
    y = streams.push_many(sids, x)
    assert y.shape == (0, 3)
    assert y.dtype == np.float32


@pytest.mark.parametrize(
    "kind", [list, tuple, np.array, torch.tensor, lambda ids: np.array(ids, np.uint8), lambda ids: list(np.array(ids))]
)
def test_ids_come_as_a_list_a_tuple_or_an_array(streams, tokens, kind):
    sids = [streams.open() for _ in range(3)]
    assert streams.push_many(kind(sids), tokens(3, 5)).shape == (3, 3)
    assert [streams.time(sid) for sid in kind(sids)[:2]] == [1, 1] if kind is not torch.tensor else True


def test_what_a_pool_says_about_itself(build, tokens):
    model = build()
    streams = ns.StreamPool(model, capacity=2, backend="torch")
    assert (len(streams), streams.ids, streams.capacity, streams.backend) == (0, (), 2, "torch")
    assert bool(streams.config == model.config)
    assert streams.bytes_per_stream == ns.state.nbytes(model.init_state(1))
    sids = [streams.open() for _ in range(3)]
    assert (len(streams), streams.ids, streams.capacity) == (3, tuple(sids), 4)
    streams.push(sids[1], tokens(5))
    assert [streams.time(sid) for sid in sids] == [0, 1, 0]
    assert sids[0] in streams
    assert np.int64(sids[0]) in streams
    assert all(other not in streams for other in (99, -1, True, 0.0, "0", None, []))
    streams.close(sids[0])
    assert sids[0] not in streams
    assert streams.ids == tuple(sids[1:])
    for word in ("StreamPool", "StreamModel", "co-fixed-single", "2 of 4", "backend='torch'", "bytes"):
        assert word in repr(streams)


def test_ids_are_never_given_out_twice(streams):
    seen = set()
    for _ in range(50):
        sid = streams.open()
        assert sid not in seen
        seen.add(sid)
        streams.close(sid)
    assert streams.capacity == 4


def test_the_model_can_be_trained_on_without_the_pool_noticing(build, alone, tokens):
    model, x = build(), tokens(8, 5)
    expected = alone(model, x)
    streams = ns.StreamPool(model.train(), 2, "torch")
    assert model.training
    assert all(weight.requires_grad for weight in model.parameters())
    with torch.no_grad():
        for weight in (*model.parameters(), *model.buffers()):
            weight.zero_()
    sid = streams.open()
    np.testing.assert_allclose([streams.push(sid, token) for token in x], expected, atol=1e-6)


def test_dropout_is_off(build, tokens):
    streams = ns.StreamPool(build(dropout=0.5).train(), 2, "torch")
    a, b = streams.open(), streams.open()
    np.testing.assert_array_equal(streams.push(a, tokens(5)), streams.push(b, tokens(5)))


def test_gradients_are_not_copied(build):
    model = build()
    model(torch.randn(1, 6, 5)).sum().backward()
    streams = ns.StreamPool(model, 2, "torch")
    assert all(weight.grad is None and not weight.requires_grad for weight in streams._model.parameters())
    assert model.head.weight.grad is not None
