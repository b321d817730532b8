"""Any sequence of operations on a pool, compared with a dictionary of states that `model.step` advances."""

import numpy as np
import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import nystream as ns

WIDTH = 3


def small(variant, dtype=torch.float64, **options):
    torch.manual_seed(0)
    cfg = ns.AttentionConfig(variant, embed_dim=4, num_heads=2, window=4, landmarks=2, **options)
    model = ns.StreamModel(ns.ModelConfig(input_dim=WIDTH, output_dim=2, attention=cfg, ff_dim=4), dtype=dtype)
    if cfg.fixed:
        model.encoder.blocks[0].attention.set_landmarks(torch.randn(2, 2, 2), torch.randn(2, 2, 2))
    return model.eval()


class Streams(RuleBasedStateMachine):
    """The pool and its expected contents."""

    model = small("co-fixed-single", sums="partials")
    backend, tolerance = "torch", 1e-9

    def __init__(self):
        super().__init__()
        self.pool = ns.StreamPool(self.model, 1, self.backend)
        self.states, self.blobs, self.closed = {}, [], []
        self.count = 0

    @property
    def dtype(self):
        return np.float64 if self.backend == "torch" else np.float32

    def token(self):
        self.count += 1
        return np.random.default_rng(self.count).standard_normal(WIDTH).astype(self.dtype)

    def expected(self, sid, token):
        with torch.no_grad():
            y, self.states[sid] = self.model.step(torch.from_numpy(token)[None], self.states[sid])
        return y[0].numpy()

    def one(self, data):
        return data.draw(st.sampled_from(sorted(self.states)), "sid")

    def some(self, data, least=0):
        return data.draw(st.lists(st.sampled_from(sorted(self.states)), unique=True, min_size=least), "sids")

    @rule()
    def open(self):
        sid = self.pool.open()
        assert sid not in (*self.states, *self.closed)
        self.states[sid] = self.model.init_state(1)

    @precondition(lambda self: self.states)
    @rule(data=st.data())
    def push(self, data):
        sid, token = self.one(data), self.token()
        np.testing.assert_allclose(self.pool.push(sid, token), self.expected(sid, token), atol=self.tolerance)

    @precondition(lambda self: self.states)
    @rule(data=st.data())
    def push_many(self, data):
        sids = self.some(data)
        rows = [self.token() for _ in sids]
        outs = self.pool.push_many(sids, rows)
        assert outs.shape == (len(sids), 2)
        for sid, row, y in zip(sids, rows, outs, strict=True):
            np.testing.assert_allclose(y, self.expected(sid, row), atol=self.tolerance)

    @precondition(lambda self: self.states)
    @rule(data=st.data(), bad=st.sampled_from([np.nan, np.inf]))
    def push_what_is_refused(self, data, bad):
        sids = self.some(data, least=1)
        rows = np.zeros((len(sids), WIDTH))
        rows[-1, 1] = bad
        with pytest.raises(ValueError, match=f"for stream {sids[-1]};"):
            self.pool.push_many(sids, rows)

    @precondition(lambda self: self.states)
    @rule(data=st.data())
    def reset(self, data):
        sid = self.one(data)
        self.pool.reset(sid)
        self.states[sid] = self.model.init_state(1)

    @precondition(lambda self: self.states)
    @rule(data=st.data())
    def close(self, data):
        sid = self.one(data)
        self.pool.close(sid)
        self.states.pop(sid)
        self.closed.append(sid)

    @precondition(lambda self: self.closed)
    @rule(data=st.data())
    def push_what_is_closed(self, data):
        sid = data.draw(st.sampled_from(self.closed), "closed")
        with pytest.raises(KeyError, match=f"stream {sid} is closed"):
            self.pool.push_many([*self.states, sid], np.zeros((len(self.states) + 1, WIDTH)))

    @precondition(lambda self: self.states)
    @rule(data=st.data())
    def snapshot(self, data):
        sid = self.one(data)
        self.blobs.append((self.pool.snapshot(sid), self.states[sid]))

    @precondition(lambda self: self.blobs)
    @rule(data=st.data())
    def restore(self, data):
        blob, state = self.blobs[data.draw(st.integers(0, len(self.blobs) - 1), "blob")]
        sid = self.pool.restore(blob)
        assert sid not in (*self.states, *self.closed)
        self.states[sid] = state

    @precondition(lambda self: self.states)
    @rule()
    def move_to_another_pool(self):
        old, self.pool = self.pool, ns.StreamPool(self.model, 2, self.backend)
        self.states = {self.pool.restore(old.snapshot(sid)): self.states[sid] for sid in old.ids}
        self.closed = []

    @invariant()
    def it_says_what_is_so(self):
        assert self.pool.ids == tuple(sorted(self.states))
        assert len(self.pool) == len(self.states)
        assert all(self.pool.time(sid) == int(state.time) for sid, state in self.states.items())


class RenewedLandmarks(Streams):
    model = small("co-cont-single")


class Compiled(Streams):
    model = small("co-fixed-single", torch.float32)
    backend, tolerance = "numba", 1e-5


class CompiledRenewedLandmarks(Compiled):
    model = small("co-cont-single", torch.float32)


class TestFixedLandmarks(Streams.TestCase):
    settings = settings(max_examples=15, stateful_step_count=30, deadline=None)


class TestRenewedLandmarks(RenewedLandmarks.TestCase):
    settings = settings(max_examples=15, stateful_step_count=30, deadline=None)


class TestCompiled(Compiled.TestCase):
    settings = settings(max_examples=15, stateful_step_count=30, deadline=None)


class TestCompiledRenewedLandmarks(CompiledRenewedLandmarks.TestCase):
    settings = settings(max_examples=15, stateful_step_count=30, deadline=None)
