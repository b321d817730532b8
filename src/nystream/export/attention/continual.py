"""Continual landmarks: means over segments of the stream, each renewed when its segment is complete.

    Att = softmax(q K̃ᵀ / √d) Γ† · softmax(L) V,   L = Q̃ Kᵀ / √d in a ring

A renewal computes a new row of L, over all keys of the ring, and a new Γ†: for the streams that have one at this step,
and only if any has. Until the window is full there are no landmarks, and attention is exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nystream.export.attention.common import heads_first, hidden, lowered, rates, rows, tokens_last
from nystream.export.attention.full import projections
from nystream.export.attention.inverse import inverse
from nystream.export.clock import Clock, scattered
from nystream.export.dense import Layers
from nystream.export.graph import Graph
from nystream.export.states import State
from nystream.ops.landmarks import schedule


class Continual:
    """The attention of one block, one token at a time."""

    def __init__(self, module: Any, name: str, leaf: str) -> None:
        self.module, self.cfg, self.name, self.leaf = module, module.config, name, leaf
        self.decay = rates(module)
        plan = schedule(self.cfg.window, self.cfg.m, 1, device=module.q_proj.weight.device)
        self.landmark = plan.slot[:, 0].cpu().numpy()  # [n] the landmark of the token in every slot
        self.done = plan.done.any(1).cpu().numpy()  # [n] whether that token completes it
        self.size = plan.size.cpu().numpy().astype(np.float32)  # [m] tokens of every landmark

    @property
    def states(self) -> list[State]:
        n, m, heads, dim = self.cfg.window, self.cfg.m, self.cfg.num_heads, self.cfg.head_dim

        def state(name: str, shape: tuple[int, ...], leaf: str, axes: tuple[int, ...], initial: float = 0.0) -> State:
            return State(f"{self.name}_{name}", shape, "float32", initial, f"{self.leaf}.{leaf}", axes)

        return [
            state("logit", (heads, m, n), "ring_logit", (2, 0, 1), float("-inf")),
            state("key", (heads, dim, n), "ring_key", (2, 0, 1)),
            state("value", (heads, n, dim), "ring_value", (1, 0, 2)),
            state("landmarks", (2, heads, m, dim), "landmarks", (2, 0, 1, 3)),
            state("pending", (2, heads, dim), "pending", (0, 1, 2)),
            state("inverse", (heads, m, m), "gamma_pinv", (0, 1, 2)),
        ]

    def project(self, layers: Layers, x: str) -> list[str]:
        """Query, key and value. The query is not scaled, because the landmarks are means of it."""
        return projections(self.module, layers, x, 1.0)

    def attend(self, g: Graph, clock: Clock, projected: list[str], before: list[str], after: list[str]) -> str:
        """Put a token into the window; `before` and `after` are the names of the states."""
        cfg, n, m = self.cfg, self.cfg.window, self.cfg.m
        heads, dim = cfg.num_heads, cfg.head_dim
        logit, key, value, landmarks, pending, gamma_pinv = before
        query = heads_first(g, projected[0], cfg, dim)  # [B, H, 1, D]
        new_key = tokens_last(g, projected[1], cfg, dim)  # [B, H, D, 1]
        key = scattered(g, key, clock.slots(n, 4, 3), new_key, (heads, dim, 1), 3, after[1])
        new_value = heads_first(g, projected[2], cfg, dim)
        value = scattered(g, value, clock.slots(n, 4, 2), new_value, (heads, 1, dim), 2, after[2])

        done = g.Gather(self.done, clock.slot(n))  # [B]
        token = [g.Reshape(x, [-1, 1, heads, dim]) for x in projected[:2]]
        total = g.Add(pending, g.Concat(*token, axis=1))  # [B, 2, H, D]
        g.Where(g.Reshape(done, [-1, 1, 1, 1]), np.float32(0), total, name=after[4])
        place, new_row, new_landmarks, new_inverse = self._renewed(g, clock, done, total, landmarks, key)
        landmarks = g.ScatterND(landmarks, place, new_landmarks, name=after[3])
        gamma_pinv = g.ScatterND(gamma_pinv, place, new_inverse, name=after[5])
        q_tilde, k_tilde = (g.Squeeze(x, [1]) for x in g.Split(landmarks, [1, 1], axis=1, outputs=2))  # [B, H, m, D]
        scale = np.float32(cfg.scale)
        new_logit = g.Mul(g.MatMul(q_tilde, new_key), scale)  # [B, H, m, 1]
        logit = scattered(g, logit, clock.slots(n, 4, 3), new_logit, (heads, m, 1), 3, None)
        at = g.Gather(self.landmark, g.GatherND(clock.slot(n), place))  # [R] the landmarks renewed
        logit = g.ScatterND(logit, self._address(g, place, at), new_row, name=after[0])

        beta = g.Softmax(g.Mul(g.MatMul(query, g.Transpose(k_tilde, perm=[0, 1, 3, 2])), scale), axis=-1)
        row = beta if cfg.pinv == "none" else g.MatMul(beta, gamma_pinv)  # [B, H, 1, m]
        delta = g.Softmax(lowered(g, logit, self.decay, clock.age(n) if self.decay is not None else ""), axis=-1)
        out = g.MatMul(g.MatMul(row, delta), value)
        return rows(g, self._exact_at_first(g, clock, out, query, key, value), cfg)

    def _address(self, g: Graph, place: str, landmark: str) -> str:
        """[R, H, 3]: indices (stream, head, landmark) of rows of L."""
        heads = self.cfg.num_heads
        zeros = np.zeros((1, heads, 1), np.int64)
        stream, own = (g.Add(g.Reshape(x, [-1, 1, 1]), zeros) for x in (place, landmark))
        head = g.Add(g.Mul(stream, 0), np.arange(heads)[None, :, None])
        return g.Concat(stream, head, own, axis=2)

    def _renewed(
        self, g: Graph, clock: Clock, done: str, total: str, landmarks: str, key: str
    ) -> tuple[str, str, str, str]:
        """What a renewal changes, for the R streams that have one.

        Their indices [R, 1], the new rows of L [R, H, n], landmarks [R, 2, H, m, D] and inverses [R, H, m, m].
        """
        cfg, n, m = self.cfg, self.cfg.window, self.cfg.m
        heads, dim = cfg.num_heads, cfg.head_dim
        slot = clock.slot(n)
        valid = clock.valid(n)

        def renew(body: Graph) -> list[str]:
            place = body.Transpose(body.NonZero(done), perm=[1, 0])  # [R, 1]
            index = body.Gather(self.landmark, body.GatherND(slot, place))  # [R]
            size = body.Reshape(body.Gather(self.size, index), [-1, 1, 1, 1])
            mean = body.Div(body.GatherND(total, place), size)  # [R, 2, H, D]
            at = body.Add(body.Reshape(index, [-1, 1, 1, 1, 1]), np.zeros((1, 2, heads, 1, dim), np.int64))
            own = body.GatherND(landmarks, place)
            own = body.ScatterElements(own, at, body.Unsqueeze(mean, [3]), axis=3)
            q_tilde, k_tilde = (body.Squeeze(x, [1]) for x in body.Split(own, [1, 1], axis=1, outputs=2))
            newest = body.Gather(mean, np.array([0]), axis=1)  # [R, 1, H, D]
            newest = body.Transpose(newest, perm=[0, 2, 1, 3])
            row = body.Mul(body.MatMul(newest, body.GatherND(key, place)), np.float32(cfg.scale))  # [R, H, 1, n]
            row = body.Where(body.GatherND(valid, place), row, np.float32(-np.inf))
            return [place, body.Squeeze(row, [2]), own, inverse(body, q_tilde, k_tilde, cfg)]

        def nothing(body: Graph) -> list[str]:
            shapes = ((0, 1), (0, heads, n), (0, 2, heads, m, dim), (0, heads, m, m))
            dtypes = (np.int64, np.float32, np.float32, np.float32)
            return [body.empty(*each) for each in zip(shapes, dtypes, strict=True)]

        place, row, own, inverses = g.branches(g.any(done), renew, nothing, ["int64", "float32", "float32", "float32"])
        return place, row, own, inverses

    def _exact_at_first(self, g: Graph, clock: Clock, out: str, query: str, key: str, value: str) -> str:
        """Exact attention for streams whose window is not full."""
        n, scale = self.cfg.window, np.float32(self.cfg.scale)
        filling, bias = clock.filling(n), hidden(g, clock, n, self.decay)

        def exact(body: Graph) -> list[str]:
            logit = body.Add(body.Mul(body.MatMul(query, key), scale), bias)
            early = body.MatMul(body.Softmax(logit, axis=-1), value)
            return [body.Where(body.Reshape(filling, [-1, 1, 1, 1]), early, out)]

        (result,) = g.branches(g.any(filling), exact, lambda body: [body.Identity(out)], ["float32"])
        return result
