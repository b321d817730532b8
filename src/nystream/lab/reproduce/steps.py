"""What a step of each cell costs on this machine: whole models, one stream each, in turns.

Weights do not change how long a step takes, so the models are not the trained ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import torch

from nystream import provenance
from nystream.lab.bench.timing import TimedCall, Times, measure, threads
from nystream.lab.reproduce.cells import Cell
from nystream.lab.reproduce.problems import problem
from nystream.lab.reproduce.store import RecordDict
from nystream.lab.reproduce.train import model_config
from nystream.models import StreamModel
from nystream.progress import track
from nystream.stream import StreamPool

K = TypeVar("K")

ROUNDS = 60
TOKENS = 64  # of the stream that is pushed again and again


def time_steps(records: Sequence[RecordDict], command: str, show: bool | None = None) -> list[RecordDict]:
    """The records of cells of one task, each with the time of a step, one thread, measured side by side.

    Full attention that recomputes its window is timed for every depth, whether it is among the cells or not: what they
    are compared with.
    """
    cells = [Cell(**record["cell"]) for record in records]
    # Cells that differ in what training does only have the same step.
    keys = [_key(cell) for cell in cells]
    wholes = [_key(_whole(cell)) for cell in cells]
    kinds = dict.fromkeys([*wholes, *keys])
    pushes = time_pushes({key: _model(key, records[0]["input_dim"]) for key in kinds}, ROUNDS, show)
    found = []
    for record, key, whole in zip(records, keys, wholes, strict=True):
        times, pool = pushes[key]
        step = times.to_dict() | {
            "backend": pool.backend,
            "bytes_per_stream": pool.bytes_per_stream,
            "relative": pushes[whole][0].median / times.median,
            **provenance.header(command),
        }
        found.append(record | {"step": step})
    return found


def time_pushes(
    models: Mapping[K, StreamModel], rounds: int = ROUNDS, show: bool | None = None
) -> dict[K, tuple[Times, StreamPool]]:
    """The time of a push of one stream whose window is full, one thread, the models in turns; and their pools."""
    pools = {key: StreamPool(model, capacity=1) for key, model in models.items()}
    jobs = {}
    for key, pool in pools.items():
        sid, config = pool.open(), models[key].config
        tokens = torch.randn(TOKENS, config.input_dim, generator=torch.Generator().manual_seed(0)).numpy()
        for place in range(config.window):
            pool.push(sid, tokens[place % TOKENS])
        jobs[str(key)] = TimedCall(pool.push, [(sid, x) for x in tokens])
    with threads(1), track("steps", rounds, show) as advance:
        times = measure(jobs, rounds, advance=advance)
    return {key: (times[str(key)], pool) for key, pool in pools.items()}


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
        stack=cell.stack,
    )


def _model(cell: Cell, input_dim: int) -> StreamModel:
    """A model of the cell's shape."""
    torch.manual_seed(0)
    model = StreamModel(model_config(cell, input_dim)).eval()
    for block in model.encoder.blocks:
        cfg = block.attention.config
        if cfg.fixed:
            block.attention.set_landmarks(*torch.randn(2, cfg.num_heads, cfg.m, cfg.head_dim))
    return model
