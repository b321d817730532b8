"""Graphs of a step, emulated on the CPU: which batches share one, what a replay changes, and what a failed capture does
not."""

import runpy
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

import nystream as ns
from nystream.stream.gpu.model import Streams

emulator = runpy.run_path(str(Path(__file__).with_name("graphs_on_cpu.py")))

SMALL = {"window": 4, "landmarks": 2, "num_heads": 1, "embed_dim": 4}
LINEAR = ns.LinearConfig(segments=2)

CASES = {
    "fixed": ("co-fixed-single", {}),
    "fixed, totals": ("co-fixed-single", {"window": 11, "landmarks": 1}),
    "fixed, groups": ("co-fixed-single", {"window": 6, "update_size": 2}),
    "continual": ("co-cont-single", {}),
    "continual, groups": ("co-cont-single", {"window": 6, "update_size": 2}),
    "full": ("co-full-single", {}),
    "full, groups": ("co-full-single", {"window": 6, "update_size": 2}),
    "two blocks": ("co-fixed-single", {"layers": 2}),
    "a linear path": ("co-fixed-single", {"linear": LINEAR}),
    "two blocks of continual landmarks, a linear path": ("co-cont-single", {"layers": 2, "linear": LINEAR}),
}


@pytest.fixture(autouse=True)
def captured(monkeypatch):
    """All graphs that are captured."""
    return emulator["install"](monkeypatch)


@pytest.fixture
def pool(shaped):
    return ns.StreamPool(shaped(**SMALL), capacity=8, backend="triton")


@pytest.mark.parametrize(("variant", "options"), CASES.values(), ids=CASES)
def test_replays(variant, options, shaped, agree, tokens, captured):
    model = shaped(variant, **SMALL | options)
    r, n = model.config.update_size, model.config.window
    x = tokens(3, n // r * 7 // 4, *([r] if r > 1 else []), 5)
    agree(ns.StreamPool(model, 4, backend="triton"), model, x, (0, 1, 3))
    assert len(captured) == 3  # of 1, 2 and 4 rows


def test_batches_share_graphs(pool, shaped, in_float64, tokens, captured):
    """Those of one power of two. Rows beyond the batch are skipped, whichever streams they had before."""
    x, outs = tokens(7, 9, 5), [[] for _ in range(7)]
    sids = [pool.open() for _ in outs]
    for first, last in ((0, 4), (0, 3), (3, 4), (1, 7), (2, 7), (0, 7), (4, 5), (5, 7), (6, 7)):
        rows = range(first, last)
        batch = np.stack([x[row, len(outs[row])] for row in rows])
        for row, y in zip(rows, pool.push_many(sids[first:last], batch), strict=True):
            outs[row].append(y)
        assert [pool.time(sid) for sid in sids] == [len(out) for out in outs]
    for row, out in enumerate(outs):
        np.testing.assert_allclose(out, in_float64(shaped(**SMALL), x[row])[: len(out)], atol=1e-5)
    assert sorted(pool._backend._graphs._graphs) == [1, 2, 4, 8]
    assert len(captured) == 4
    assert all(graph.memory is captured[0].memory for graph in captured)


def test_padding(pool, shaped, in_float64, tokens):
    sid, x = pool.open(), tokens(6, 3, 5)
    y = np.stack([pool.push_many([-1, sid, -1], batch) for batch in x])
    np.testing.assert_array_equal(y[:, [0, 2]], 0.0)
    np.testing.assert_allclose(y[:, 1], in_float64(shaped(**SMALL), x[:, 1]), atol=1e-5)
    np.testing.assert_array_equal(pool.push_many([-1, -1], x[0, :2]), 0.0)
    assert pool.time(sid) == 6


@pytest.mark.parametrize("linear", [None, LINEAR])
def test_growth(linear, shaped, agree, tokens, captured):
    """The states are new tensors then, which the graphs so far do not know."""
    model = shaped(**SMALL, linear=linear)
    pool = ns.StreamPool(model, capacity=1, backend="triton")
    agree(pool, model, tokens(3, 8, 5), (0, 2, 4))
    assert pool.capacity == 4
    # One row; two rows after the first growth; after the second, four rows, then two and one again.
    assert len(captured) == 5


@pytest.mark.parametrize("variant", ["co-fixed-single", "co-cont-single", "co-full-single"])
def test_a_rejected_batch_changes_nothing(variant, shaped, in_float64, tokens):
    model = shaped(variant, **SMALL, linear=LINEAR)
    pool, x = ns.StreamPool(model, 4, backend="triton"), tokens(3, 7, 5)
    sids = [pool.open() for _ in x]
    outs = [pool.push_many(sids, batch) for batch in x[:, :5].swapaxes(0, 1)]
    before = [pool.snapshot(sid) for sid in sids]
    bad = x[:, 5].copy()
    bad[2, 3] = np.nan
    with pytest.raises(ValueError, match=f"for stream {sids[2]}; no state was changed"):
        pool.push_many(sids, bad)
    assert [pool.snapshot(sid) for sid in sids] == before
    assert not pool._backend.spoiled
    outs += [pool.push_many(sids, batch) for batch in x[:, 5:].swapaxes(0, 1)]
    for row, out in enumerate(np.stack(outs, 1)):
        np.testing.assert_allclose(out, in_float64(model, x[row]), atol=1e-5)


def test_what_a_skipped_row_has_does_not_matter(pool, tokens):
    """A NaN of an earlier batch is still in the graph, in a row that the next batch does not have."""
    sids = [pool.open() for _ in range(4)]
    bad = tokens(4, 5)
    bad[3] = np.nan
    with pytest.raises(ValueError, match="no state was changed"):
        pool.push_many(sids, bad)
    assert np.isfinite(pool.push_many(sids[:3], bad[:3])).all()
    assert [pool.time(sid) for sid in sids] == [1, 1, 1, 0]


def test_outputs_are_kept(pool, tokens):
    """Neither a graph nor another one, which uses the same memory, overwrites what was returned."""
    sids, x = [pool.open() for _ in range(4)], torch.from_numpy(tokens(5, 4, 5))
    kept = []
    for batch, count in zip(x, (4, 4, 3, 2, 1), strict=True):
        y = pool._push_tensor(np.array(sids[:count]), batch[:count])
        kept.append((y, y.clone()))
    for y, copy in kept:
        assert torch.equal(y, copy)
        assert y.isfinite().all()


def test_slots_are_copied_only_if_they_are_others(pool, shaped, in_float64, tokens):
    sids, x, outs = [pool.open() for _ in range(4)], tokens(4, 8, 5), [[] for _ in range(4)]
    writes = []
    for rows in ([0, 1, 2], [0, 1, 2], [0, 1, 2, 3], [3, 2, 1, 0], [3, 2, 1, 0], [1], [3, 2, 1, 0], [2, 1, 0]):
        batch = np.stack([x[row, len(outs[row])] for row in rows])
        for row, y in zip(rows, pool.push_many([sids[row] for row in rows], batch), strict=True):
            outs[row].append(y)
        writes.append(pool._backend._graphs._graphs[4].slots._version)
    for row, out in enumerate(outs):
        np.testing.assert_allclose(out, in_float64(shaped(**SMALL), x[row])[: len(out)], atol=1e-5)
    same = [later == earlier for earlier, later in pairwise(writes)]
    assert same == [True, False, False, True, True, False, False]


MODES = {
    "none": nullcontext,
    "inference mode": torch.inference_mode,
    "no gradients": torch.no_grad,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
}


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_modes_do_not_matter(mode, shaped, in_float64, tokens):
    """Those of the thread that makes the pool, captures a graph or replays it."""
    with mode():
        pool = ns.StreamPool(shaped(**SMALL), 4, backend="triton")
        sid = pool.open()
    x, outs = torch.from_numpy(tokens(8, 5)), []
    for turn, token in enumerate(x):
        token.requires_grad_(turn % 3 == 0)
        with mode() if turn % 2 else nullcontext():
            outs.append(pool._push_tensor(np.array([sid, -1]), torch.stack([token, token])))
            assert torch.is_inference_mode_enabled() == (turn % 2 and mode is torch.inference_mode)
    assert torch.is_grad_enabled()
    assert not any(y.is_inference() or y.requires_grad for y in outs)
    expected = in_float64(shaped(**SMALL), x.detach().numpy())
    np.testing.assert_allclose(torch.stack(outs)[:, 0], expected, atol=1e-5)


@pytest.mark.parametrize("fails", [0, 1], ids=["warming up", "capturing"])
def test_a_capture_that_runs_out_of_memory(fails, pool, shaped, in_float64, tokens, monkeypatch):
    sids, x, calls = [pool.open(), pool.open(), pool.open()], tokens(7, 3, 5), []
    stream, step = torch.cuda.current_stream(), Streams.step

    def runs_out(self, slots, x):
        calls.append(len(slots))
        if len(calls) > fails:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return step(self, slots, x)

    outs = [pool.push_many(sids[:2], batch[:2]) for batch in x[:5]]
    before = [pool.snapshot(sid) for sid in sids]
    with monkeypatch.context() as patch:
        patch.setattr(Streams, "step", runs_out)
        with pytest.raises(MemoryError, match=r"not enough memory for a step of 3 streams: CUDA out of memory"):
            pool.push_many(sids, x[5])
        assert calls == [4] * (fails + 1)
        assert torch.cuda.current_stream() is stream
        outs.append(pool.push_many(sids[:2], x[5, :2]))  # the graph that there is can be used
    assert [pool.time(sid) for sid in sids] == [6, 6, 0]
    assert pool.snapshot(sids[2]) == before[2]
    outs.append(pool.push_many(sids, x[6])[:2])
    for row, out in enumerate(np.stack(outs, 1)):
        np.testing.assert_allclose(out, in_float64(shaped(**SMALL), x[:, row]), atol=1e-5)


def test_a_failed_replay_sets_its_streams_aside(pool, tokens, monkeypatch):
    a, b = pool.open(), pool.open()
    pool.push_many([a, b], tokens(2, 5))
    graph = pool._backend._graphs._graphs[2].graph

    def fails():
        raise RuntimeError("the device is lost")

    monkeypatch.setattr(graph, "replay", fails)
    with pytest.raises(RuntimeError, match="the device is lost"):
        pool.push_many([a, -1], tokens(2, 5))
    with pytest.raises(RuntimeError, match=f"stream {a} cannot be used"):
        pool.push(a, tokens(5))
    assert pool.push(b, tokens(5)).shape == (3,)


def test_growth_that_is_interrupted_leaves_no_graph(pool, shaped, in_float64, tokens, monkeypatch):
    """A graph would step the tensors that there were before."""
    x, sid, grow = tokens(6, 5), pool.open(), Streams.grow
    outs = [pool.push(sid, token) for token in x[:3]]

    def interrupted(self, capacity):
        grow(self, capacity)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Streams, "grow", interrupted)
        for _ in range(7):
            pool.open()
        with pytest.raises(KeyboardInterrupt):
            pool.open()
    outs += [pool.push(sid, token) for token in x[3:]]
    assert pool.time(sid) == 6
    np.testing.assert_allclose(np.stack(outs), in_float64(shaped(**SMALL), x), atol=1e-5)
