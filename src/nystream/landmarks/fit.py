"""Fit the fixed landmarks of one block to training data.

    Q̃, K̃ = the centres of m-means of the Q-tokens and of the K-tokens, for each head          (method "qk")
    Q̃ = X̃ W_Q, K̃ = X̃ W_K with the centres X̃ of m-means of the attention's inputs             (method "x")

In self-attention, Q and K are projections of the same X, so only X is sampled. "qk" is the paper's method; "x" clusters
once and gives pairs (q̃ᵢ, k̃ᵢ), but all heads share its m centres.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.random import SeedSequence
from numpy.typing import NDArray
from torch import Tensor, nn

from nystream.config import AttentionConfig
from nystream.config.checks import one_of, positive_int
from nystream.landmarks import kmeans
from nystream.landmarks.collect import collect
from nystream.layers.attention import MultiheadAttention
from nystream.layers.encoder import StreamEncoder
from nystream.models.stream_model import StreamModel
from nystream.ops.precision import accumulator
from nystream.progress import track

Method = Literal["qk", "x"]
Centres = tuple[NDArray[Any], float]  # [m, D], and the inertia of their clusters


class LandmarkReport(NamedTuple):
    """The result of `fit_landmarks`.

    Attributes:
        layer: The block.
        method: The method of fitting.
        tokens_seen: Number of tokens in the batches.
        tokens_used: Number of tokens that were clustered.
        q_inertia: [H] the fraction of the variance of each head's queries that is left within the clusters; 0 if every
            token is a landmark.
        k_inertia: [H] the same for its keys.
    """

    layer: int
    method: str
    tokens_seen: int
    tokens_used: int
    q_inertia: tuple[float, ...]
    k_inertia: tuple[float, ...]


class Heads(NamedTuple):
    """The weights of a projection, split by head."""

    weight: NDArray[Any]  # [H, D, E]
    bias: NDArray[Any]  # [H, D]

    def project(self, x: NDArray[Any], head: int) -> NDArray[Any]:
        rows: NDArray[Any] = x @ self.weight[head].T  # [N, D]
        rows += self.bias[head]
        return rows


def fit_landmarks(
    model: StreamModel | StreamEncoder,
    batches: Iterable[Any],
    tokens: int = 50_000,
    layer: int = 0,
    seed: int = 0,
    *,
    method: Method = "qk",
    offset: int | None = None,
    n_init: int = 1,
    progress: bool | None = None,
) -> LandmarkReport:
    """Set the fixed landmarks of one block to cluster centres of its tokens, and compute Γ†.

    The batches are read once. A uniform sample of their tokens is kept, so memory does not grow with the data. The same
    seed, batches and weights give the same landmarks. If there is an error, the model is not changed.

    Args:
        model: A model whose block `layer` has fixed landmarks. In a stack, fit the blocks in order, from 0.
        batches: Training data: an iterable of x or of (x, y, ...), x [B, any T, input_dim] in floating point, tensors
            or numpy arrays, on any device; or `WindowData` or `StreamData`. For a StreamEncoder, x [B, any T, E].
        tokens: Size of the sample that is clustered.
        layer: The block, from 0.
        seed: Seed of the sample, the offsets and the clustering.
        method: "qk" clusters the queries and the keys of every head separately; "x" clusters the attention's inputs
            once and projects the centres, which gives pairs, as `pinv="none"` needs.
        offset: Position of the first token of every sequence. By default, random, because the windows of a stream have
            every rotation of the circular positions; 0 if every sequence is the start of a stream.
        n_init: Number of times each clustering is started; the best result is used.
        progress: True for a progress bar, False for none, None for one on a terminal.

    Returns:
        The numbers of tokens seen and used, and how well the landmarks represent each head.

    Example:
        >>> import torch, nystream as ns
        >>> attention = ns.AttentionConfig(
        ...     "co-fixed-single", embed_dim=8, num_heads=2, window=6, landmarks=3
        ... )
        >>> model = ns.StreamModel(ns.ModelConfig(input_dim=5, output_dim=1, attention=attention))
        >>> report = ns.fit_landmarks(model, [torch.randn(4, 50, 5), torch.randn(4, 50, 5)])
        >>> report.tokens_seen, len(report.q_inertia)
        (400, 2)
        >>> y, state = model.step(torch.randn(1, 5), model.init_state(1))  # now it can stream
    """
    return fit_landmarks_together(
        [model], [batches], tokens, layer, [seed], method=method, offset=offset, n_init=n_init, progress=progress
    )[0]


def fit_landmarks_together(
    models: Sequence[StreamModel | StreamEncoder],
    batches: Sequence[Iterable[Any]],
    tokens: int,
    layer: int,
    seeds: Sequence[int],
    *,
    method: Method = "qk",
    offset: int | None = None,
    n_init: int = 1,
    progress: bool | None = None,
) -> list[LandmarkReport]:
    """`fit_landmarks` for several models of one config, with their clusterings side by side."""
    # A clustering uses one thread, and "x" has one for each model, so it takes several models to use all cores.
    size = torch.get_num_threads() if method == "x" else 1
    reports = []
    for at in range(0, len(models), size):
        group = slice(at, at + size)
        fits = [
            _Fit(model, data, tokens, layer, seed, method, offset, n_init, progress)
            for model, data, seed in zip(models[group], batches[group], seeds[group], strict=True)
        ]
        calls = [call for fit in fits for call in fit.calls]
        what = "queries and keys" if method == "qk" else "inputs"
        with track(f"clustering {what}, block {layer}", len(calls), progress) as advance:
            results = iter(kmeans.in_parallel(calls, advance))
        centres = [fit.centres([next(results) for _ in fit.calls]) for fit in fits]
        reports += [fit.finish(*found) for fit, found in zip(fits, centres, strict=True)]
    return reports


class _Fit:
    """The landmarks of one model's block: its sample of tokens, and the clusterings to be made."""

    def __init__(
        self,
        model: StreamModel | StreamEncoder,
        batches: Iterable[Any],
        tokens: int,
        layer: int,
        seed: int,
        method: Method,
        offset: int | None,
        n_init: int,
        progress: bool | None,
    ) -> None:
        _check_numbers(tokens, layer, seed, n_init, offset)
        if hasattr(batches, "batches") and hasattr(model, "config"):
            batches = batches.batches(update_size=model.config.update_size)
        one_of("method", method, ("qk", "x"))
        self.attention = _attention(model, batches, layer, offset)
        cfg = self.attention.config
        if tokens < cfg.m:
            raise ValueError(
                f"tokens={tokens} is less than the m={cfg.m} landmarks of block {layer}; sample at least {cfg.m}"
            )
        if cfg.pinv == "none" and method == "qk":
            raise ValueError(
                f"block {layer} has pinv='none', which needs landmarks in pairs (q̃ᵢ, k̃ᵢ), but method='qk' clusters "
                f"queries and keys apart; use method='x', or another pinv"
            )
        kmeans.require()
        for_tokens, for_means = SeedSequence(seed).spawn(2)
        self.sample = collect(model, batches, layer, tokens, offset, for_tokens, progress)
        if self.sample.seen < cfg.m:
            count = f"{self.sample.seen} tokens" if self.sample.seen else "no tokens"
            raise ValueError(
                f"batches have {count}, but the m={cfg.m} landmarks of block {layer} need at least {cfg.m}"
            )
        self.layer, self.method, self.n_init = layer, method, n_init
        projections = [(*both, head) for both in _both(self.attention) for head in range(cfg.num_heads)]
        states = for_means.generate_state(len(projections)).tolist()
        self.calls: list[Callable[[], list[Centres]]]
        if method == "qk":
            self.calls = [partial(self._of_head, *job, state) for job, state in zip(projections, states, strict=True)]
        else:
            self.calls = [partial(self._of_inputs, projections, states[0])]

    def _of_head(self, heads: Heads, letter: str, head: int, state: int) -> list[Centres]:
        """Centres of the queries or keys of a head."""
        # Projected here, in the worker, so that only the heads that are being clustered are in memory.
        clusters = self._m_means(heads.project(self.sample.rows, head), state, f"head {head}, {letter}")
        return [(clusters.centres, clusters.inertia)]

    def _of_inputs(self, projections: Sequence[tuple[Heads, str, int]], state: int) -> list[Centres]:
        """Centres of the inputs, projected to the queries and keys of every head."""
        clusters, results = self._m_means(self.sample.rows, state, "X"), []
        for heads, _, head in projections:
            centres, rows = heads.project(clusters.centres, head), heads.project(self.sample.rows, head)
            scatter = kmeans.scatter(rows)
            rows -= centres[clusters.labels]
            left = np.einsum("nd,nd->", rows, rows, dtype=np.float64)
            results.append((centres, kmeans.fraction(left, scatter)))
        return results

    def _m_means(self, rows: NDArray[Any], state: int, name: str) -> kmeans.Clusters:
        return kmeans.m_means(rows, self.attention.config.m, state, self.n_init, f"block {self.layer}, {name}")

    def centres(self, results: Sequence[list[Centres]]) -> tuple[Tensor, Tensor, list[float]]:
        """q̃ and k̃ [H, m, D] from the results of the calls, and the inertia of the clusters in each head."""
        cfg, weight = self.attention.config, self.attention.q_proj.weight
        parts = [part for result in results for part in result]
        both = np.stack([centres for centres, _ in parts]).reshape(2, cfg.num_heads, cfg.m, cfg.head_dim)
        # Both are converted before anything is set, so that an overflow of the model's dtype changes nothing.
        q_tilde, k_tilde = (torch.from_numpy(c).to(weight.device, weight.dtype) for c in both)
        return q_tilde, k_tilde, [inertia for _, inertia in parts]

    def finish(self, q_tilde: Tensor, k_tilde: Tensor, inertia: list[float]) -> LandmarkReport:
        self.attention.set_landmarks(q_tilde, k_tilde)
        heads, sample = self.attention.config.num_heads, self.sample
        queries, keys = tuple(inertia[:heads]), tuple(inertia[heads:])
        return LandmarkReport(self.layer, self.method, sample.seen, len(sample.rows), queries, keys)


def _both(attention: MultiheadAttention) -> list[tuple[Heads, str]]:
    return [(_heads(attention.q_proj, attention.config), "Q"), (_heads(attention.k_proj, attention.config), "K")]


def _heads(layer: nn.Linear, cfg: AttentionConfig) -> Heads:
    bias: Tensor | None = layer.bias
    weight = _array(layer.weight).reshape(cfg.num_heads, cfg.head_dim, cfg.embed_dim)
    if bias is None:
        return Heads(weight, np.zeros_like(weight, shape=(cfg.num_heads, cfg.head_dim)))
    return Heads(weight, _array(bias).reshape(cfg.num_heads, cfg.head_dim))


def _array(x: Tensor) -> NDArray[Any]:
    return x.detach().to("cpu", accumulator(x.dtype)).numpy()


def _attention(
    model: StreamModel | StreamEncoder, batches: Iterable[Any], layer: int, offset: int | None
) -> MultiheadAttention:
    """The attention whose landmarks are to be fitted; raise if that is not possible."""
    if not isinstance(model, StreamModel | StreamEncoder):
        raise TypeError(f"model is a {type(model).__name__}, but must be a StreamModel or a StreamEncoder")
    if isinstance(batches, Tensor | np.ndarray) or not isinstance(batches, Iterable):
        raise TypeError(
            f"batches is a {type(batches).__name__}, but must be an iterable of batches, each x or (x, y, ...); "
            f"for a single one, give a list: [x]"
        )
    if offset is not None and not isinstance(model, StreamModel):
        raise ValueError(f"offset={offset}, but a StreamEncoder has no positions; leave it out, or give a StreamModel")
    blocks = (model.encoder if isinstance(model, StreamModel) else model).blocks
    if not 0 <= layer < len(blocks):
        raise ValueError(f"layer={layer} is not one of the {len(blocks)} blocks, 0 to {len(blocks) - 1}")
    attention = blocks[layer].attention
    if not attention.config.fixed:
        also = "" if attention.config.landmarks else ", landmarks=..."
        raise ValueError(
            f"layer={layer} is of variant {attention.config.variant!r}, which has no fixed landmarks to fit; "
            f"make a model that has: model.convert(variant='co-fixed-single'{also})"
        )
    for before, block in enumerate(blocks[:layer]):
        earlier = block.attention
        if earlier.config.fixed and not all(bool(x.isfinite().all()) for x in (earlier.q_tilde, earlier.k_tilde)):
            raise RuntimeError(
                f"layer={layer} reads the output of block {before}, which has no landmarks yet; fit the blocks in "
                f"order: fit_landmarks(model, batches, layer={before}) first"
            )
    return attention


def _check_numbers(tokens: int, layer: int, seed: int, n_init: int, offset: int | None) -> None:
    positive_int("tokens", tokens)
    positive_int("n_init", n_init)
    for name, value in (("layer", layer), ("seed", seed), ("offset", 0 if offset is None else offset)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name}={value!r} must be an integer, got {type(value).__name__}")
    if seed < 0:
        raise ValueError(f"seed={seed} must be at least 0")
