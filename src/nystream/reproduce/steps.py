"""What a step of each cell costs on this machine: whole models, one stream each, in turns.

Weights do not change how long a step takes, so the models are not the trained ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from nystream.bench import record as origin
from nystream.bench.timing import Job, measure, threads
from nystream.models import StreamModel
from nystream.progress import track
from nystream.reproduce.cells import Cell
from nystream.reproduce.problems import problem
from nystream.reproduce.store import Record
from nystream.reproduce.train import shape
from nystream.stream import StreamPool

ROUNDS = 60
TOKENS = 64  # of the stream that is pushed again and again


def time_steps(records: Sequence[Record], command: str, show: bool | None = None) -> list[Record]:
    """The records of cells of one task, each with the time of a step, one thread, measured side by side.

    Full attention that recomputes its window is timed for every depth, whether it is among the cells or not: what they
    are compared with.
    """
    cells = [Cell(**record["cell"]) for record in records]
    # Cells that differ in what training does only have the same step.
    keys = [_key(cell) for cell in cells]
    wholes = [_key(_whole(cell)) for cell in cells]
    kinds = dict.fromkeys([*wholes, *keys])
    pools = {key: _pool(key, records[0]["input_dim"]) for key in kinds}
    jobs = {str(key): Job(pool.push, [(sid, x) for x in tokens]) for key, (pool, sid, tokens) in pools.items()}
    with threads(1), track("steps", ROUNDS, show) as advance:
        times = measure(jobs, ROUNDS, advance=advance)
    found = []
    for record, key, whole in zip(records, keys, wholes, strict=True):
        pool = pools[key][0]
        step = times[str(key)].to_dict() | {
            "backend": pool.backend,
            "bytes_per_stream": pool.bytes_per_stream,
            "relative": times[str(whole)].median / times[str(key)].median,
            **origin.header(command),
        }
        found.append(record | {"step": step})
    return found


def _whole(cell: Cell) -> Cell:
    """Full attention over the window, with all else the same."""
    return problem(cell.task).usual(
        layers=cell.layers, window=cell.window, embed_dim=cell.embed_dim, num_heads=cell.num_heads, tokens=cell.tokens
    )


def _key(cell: Cell) -> Cell:
    """What of a cell the time of its step depends on."""
    return problem(cell.task).usual(
        model=cell.model,
        layers=cell.layers,
        landmarks=cell.landmarks,
        window=cell.window,
        embed_dim=cell.embed_dim,
        num_heads=cell.num_heads,
        tokens=cell.tokens,
    )


def _pool(cell: Cell, input_dim: int) -> tuple[StreamPool, int, Any]:
    """A pool with one stream whose window is full, and tokens to push."""
    torch.manual_seed(0)
    model = StreamModel(shape(problem(cell.task), cell, input_dim)).eval()
    for block in model.encoder.blocks:
        cfg = block.attention.config
        if cfg.fixed:
            block.attention.set_landmarks(*torch.randn(2, cfg.num_heads, cfg.m, cfg.head_dim))
    pool = StreamPool(model, capacity=1)
    sid = pool.open()
    tokens = torch.randn(TOKENS, input_dim).numpy()
    for place in range(cell.window):
        pool.push(sid, tokens[place % TOKENS])
    return pool, sid, tokens
