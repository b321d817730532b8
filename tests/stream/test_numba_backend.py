"""The compiled backend: errors, and memory."""

import numpy as np
import pytest

import nystream as ns
from nystream.stream.backends import numba as backend

COUNT = 3 * backend.STREAMS_PER_CHUNK


@pytest.fixture
def crowd(build):
    """A pool and its streams, enough for three chunks."""
    streams = ns.StreamPool(build(), COUNT, "numba")
    return streams, [streams.open() for _ in range(COUNT)]


def fails_at(streams, calls, error):
    """Let the kernel raise an error at one call of a batch."""
    kernel, made = streams._backend._with_rooms(1)[0], []

    def push(*args):
        made.append(args)
        if len(made) == calls:
            raise error
        return kernel(*args)

    streams._backend._workers[0] = push


@pytest.mark.parametrize("calls", [1, 2, 3])
def test_streams_of_a_batch_that_was_broken_off_are_set_aside(crowd, tokens, calls):
    streams, sids = crowd
    bystander = streams.open()
    fails_at(streams, calls, KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        streams.push_many(sids, tokens(COUNT, 5))
    for sid in (sids[0], sids[-1]):
        with pytest.raises(RuntimeError, match=rf"stream {sid} cannot be used.*reset\({sid}\)"):
            streams.push(sid, tokens(5))
    streams.push(bystander, tokens(5))
    for sid in sids:
        streams.reset(sid)
    streams.push_many(sids, tokens(COUNT, 5))
    assert {streams.time(sid) for sid in sids} == {1}


def test_tokens_that_are_spoiled_while_they_are_pushed(crowd, tokens):
    """If another thread writes to X, the result is an error, not a wrong output."""
    streams, sids = crowd
    x = tokens(COUNT, 5)
    kernel = streams._backend._with_rooms(1)[0]

    def push(*args):
        x[-1] = np.nan
        return kernel(*args)

    streams._backend._workers[0] = push
    with pytest.raises(ValueError, match="X was changed while it was being pushed"):
        streams.push_many(sids, x)


def test_no_room_for_a_batch_leaves_it_alone(crowd, tokens, monkeypatch):
    streams, sids = crowd

    def fail(streams):
        raise MemoryError("no room")

    monkeypatch.setattr(streams._backend, "_with_room", fail)
    with pytest.raises(MemoryError, match="no room"):
        streams.push_many(sids, tokens(COUNT, 5))
    monkeypatch.undo()
    streams.push_many(sids, tokens(COUNT, 5))
    assert {streams.time(sid) for sid in sids} == {1}


def test_memory_comes_with_streams_not_with_capacity(build):
    streams = ns.StreamPool(build(), 10**9, "numba")
    assert streams.push(streams.open(), np.zeros(5)).shape == (3,)
    assert len(streams._backend._blocks) == 1


def test_the_formula_of_its_memory(build):
    cfg = build().config.blocks[0]
    expected = ns.costs.pool_bytes(cfg.variant, cfg.window, cfg.embed_dim, cfg.m, cfg.num_heads)
    assert ns.StreamPool(build(), backend="numba").bytes_per_stream == expected
