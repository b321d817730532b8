"""The torch backend: streams stepped in place or gathered, modes of torch, and errors during a step."""

import numpy as np
import pytest
import torch

import nystream as ns
from nystream.stream.backends import torch as backend

VARIANTS = ("co-fixed-single", "co-cont-single", "co-full-retro", "nystrom")


@pytest.fixture(params=["in place", "gathered"])
def either_way(request, monkeypatch):
    """Runs of adjacent slots are stepped one by one, or all slots are gathered."""
    monkeypatch.setattr(backend, "BYTES_PER_CALL", 0 if request.param == "in place" else 10**12)
    return request.param


@pytest.mark.parametrize("variant", VARIANTS)
def test_any_choice_of_streams(build, alone, tokens, either_way, variant):
    model = build(variant, window=4)
    streams, x, rng = ns.StreamPool(model, 8, "torch"), tokens(8, 12, 5), np.random.default_rng(0)
    sids = [streams.open() for _ in range(8)]
    outs = [[] for _ in sids]
    for _ in range(24):
        some = rng.permutation(8)[: rng.integers(1, 9)]
        some = [sid for sid in some.tolist() if len(outs[sid]) < 12]
        rows = [x[sid, len(outs[sid])] for sid in some]
        for sid, y in zip(some, streams.push_many(some, rows), strict=True):
            outs[sid].append(y)
    for sid, out in enumerate(outs):
        np.testing.assert_allclose(out, alone(model, x[sid, : len(out)]), atol=1e-5)


def test_neighbours_are_stepped_where_they_lie(build, tokens, monkeypatch):
    streams = ns.StreamPool(build(), 8, "torch")
    sids = [streams.open() for _ in range(8)]
    monkeypatch.setattr(streams._backend, "_gathered", None)
    places = [leaf.data_ptr() for _, leaf in ns.state.named_leaves(streams._backend._state)]
    for some in (sids, sids[2:5], sids[::-1], [3, 1, 2]):
        streams.push_many(some, tokens(len(some), 5))
    assert [leaf.data_ptr() for _, leaf in ns.state.named_leaves(streams._backend._state)] == places
    with pytest.raises(TypeError, match="not callable"):
        streams.push_many(sids[::2], tokens(4, 5))


def test_large_states_are_not_gathered(build, tokens, monkeypatch):
    streams = ns.StreamPool(build(window=9000), 4, "torch")
    sids = [streams.open() for _ in range(4)]
    monkeypatch.setattr(streams._backend, "_gathered", None)
    monkeypatch.setattr(backend, "BYTES_PER_CALL", streams.bytes_per_stream)
    assert streams.push_many(sids[::2], tokens(2, 5)).shape == (2, 3)


@pytest.mark.parametrize("variant", VARIANTS)
def test_modes_of_torch_make_no_difference(build, alone, tokens, variant):
    model, x = build(variant), tokens(14, 5)
    expected = alone(model, x)
    modes = (torch.inference_mode, torch.no_grad, torch.enable_grad, lambda: torch.autocast("cpu", torch.bfloat16))
    for made in modes:
        with made():
            streams = ns.StreamPool(model, 1, "torch")
            sid = streams.open()
        outs = []
        for place, token in enumerate(x):
            with modes[place % 4]():
                y = streams.push(sid, token) if place % 3 else streams.push_many([sid], token[None])[0]
                if place == 6:
                    sid = streams.restore(streams.snapshot(sid))
                if place == 8:
                    [streams.open() for _ in range(3)]
            outs.append(y)
        np.testing.assert_allclose(outs, expected, atol=1e-6)


def test_a_pool_that_was_made_in_inference_mode_can_be_used_outside(build, tokens):
    with torch.inference_mode():
        streams = ns.StreamPool(build("co-cont-single"), 4, "torch")
        sid = streams.open()
        streams.push(sid, tokens(5))
    blob = streams.snapshot(sid)
    streams.reset(sid)
    assert streams.time(streams.restore(blob)) == 1
    assert streams.push(sid, tokens(5)).shape == (3,)


def test_a_model_that_was_made_in_inference_mode(build, alone, tokens):
    with torch.inference_mode():
        model = build()
        x = tokens(8, 5)
        expected = alone(model, x)
    streams = ns.StreamPool(model, 1, "torch")
    sid = streams.open()
    np.testing.assert_allclose([streams.push(sid, token) for token in x], expected, atol=1e-6)


def test_slots_that_were_never_used_are_never_read(build, tokens):
    """Memory is not initialized until a stream is opened, and its previous contents have no effect."""
    streams = ns.StreamPool(build(), 4, "torch")
    for _, leaf in ns.state.named_leaves(streams._backend._state):
        leaf.fill_(77)
    fresh = ns.StreamPool(build(), 4, "torch")
    a, b = streams.open(), fresh.open()
    assert streams.snapshot(a) == fresh.snapshot(b)
    np.testing.assert_array_equal(streams.push(a, tokens(5)), fresh.push(b, tokens(5)))


def test_growth_that_fails_leaves_the_pool_as_it_was(build, tokens, monkeypatch):
    streams = ns.StreamPool(build(), 1, "torch")
    sid = streams.open()
    streams.push(sid, tokens(5))
    before = streams.snapshot(sid)

    def full(*_):
        raise MemoryError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(backend, "_room", full)
        for call in (streams.open, lambda: streams.restore(before)):
            with pytest.raises(MemoryError, match="no room"):
                call()
    assert (streams.ids, streams.capacity, streams.snapshot(sid)) == ((sid,), 1, before)
    assert streams.open() == sid + 1
    assert streams.capacity == 2


class TestFailures:
    """A step that fails halfway."""

    @pytest.fixture
    def streams(self, build, tokens):
        streams = ns.StreamPool(build(), 8, "torch")
        for sid in [streams.open() for _ in range(6)]:
            streams.push(sid, tokens(5))
        return streams

    @pytest.fixture
    def failing(self, streams, monkeypatch):
        """The head fails after the states have changed."""

        def fail(*_):
            raise RuntimeError("out of memory")

        patch = pytest.MonkeyPatch()
        patch.setattr(streams._model.head, "forward", fail)
        yield patch
        patch.undo()

    def test_one_that_may_be_spoiled_is_set_aside(self, streams, failing, tokens):
        others = [streams.snapshot(sid) for sid in streams.ids if sid != 2]
        with pytest.raises(RuntimeError, match="out of memory"):
            streams.push(2, tokens(5))
        failing.undo()
        for call in (
            lambda: streams.push(2, tokens(5)),
            lambda: streams.push_many([1, 2], tokens(2, 5)),
            lambda: streams.snapshot(2),
            lambda: streams.time(2),
        ):
            with pytest.raises(
                RuntimeError, match=r"stream 2 cannot be used: an error during a push or a reset.*reset\(2\)"
            ):
                call()
        assert 2 in streams
        assert (len(streams), streams.ids) == (6, (0, 1, 2, 3, 4, 5))
        assert [streams.snapshot(sid) for sid in streams.ids if sid != 2] == others
        streams.reset(2)
        assert streams.time(2) == 0
        streams.push_many([1, 2, 3], tokens(3, 5))
        assert [streams.time(sid) for sid in (1, 2, 3)] == [2, 1, 2]

    def test_one_that_was_reset_is_whole_again(self, streams, failing, tokens):
        for sid in (2, 4):
            with pytest.raises(RuntimeError, match="out of memory"):
                streams.push(sid, tokens(5))
            if sid == 2:
                streams.reset(2)
        assert streams.time(2) == 0

    def test_it_can_be_closed_and_its_slot_used_again(self, streams, failing, tokens):
        with pytest.raises(RuntimeError, match="out of memory"):
            streams.push_many([3, 1, 2], tokens(3, 5))
        failing.undo()
        for sid in (1, 2, 3):
            streams.close(sid)
        assert streams.ids == (0, 4, 5)
        fresh = streams.open()
        streams.push(fresh, tokens(5))
        assert streams.time(fresh) == 1

    def test_those_that_were_gathered_are_as_they_were(self, streams, failing, tokens):
        before = [streams.snapshot(sid) for sid in streams.ids]
        with pytest.raises(RuntimeError, match="out of memory"):
            streams.push_many([0, 2, 4], tokens(3, 5))
        failing.undo()
        assert [streams.snapshot(sid) for sid in streams.ids] == before
        streams.push_many([0, 2, 4], tokens(3, 5))

    def test_those_that_moved_on_without_an_answer_are_set_aside_too(self, streams, failing, tokens, monkeypatch):
        monkeypatch.setattr(backend, "BYTES_PER_CALL", 0)
        failing.undo()
        forward, calls = streams._model.head.forward, []

        def fail_later(x):
            calls.append(x)
            if len(calls) == 2:
                raise KeyboardInterrupt
            return forward(x)

        monkeypatch.setattr(streams._model.head, "forward", fail_later)
        with pytest.raises(KeyboardInterrupt):
            streams.push_many([4, 2, 0], tokens(3, 5))
        for sid in (0, 2):
            with pytest.raises(RuntimeError, match=f"stream {sid} cannot be used"):
                streams.time(sid)
        assert [streams.time(sid) for sid in (1, 3, 4, 5)] == [1, 1, 1, 1]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu(build, alone, tokens):
    model, x = build("co-cont-single"), tokens(14, 5)
    streams = ns.StreamPool(model.to("cuda"), 1)
    assert streams.backend == "torch"
    sid = streams.open()
    outs = [streams.push(sid, torch.from_numpy(token).cuda()) for token in x[:7]]
    blob = streams.snapshot(sid)
    cpu = ns.StreamPool(model.cpu(), 1, "torch")
    moved = cpu.restore(blob)
    outs += [cpu.push(moved, token) for token in x[7:]]
    np.testing.assert_allclose(outs, alone(model, x), atol=1e-4)
    np.testing.assert_allclose([streams.push(sid, token) for token in x[7:]], outs[7:], atol=1e-4)
