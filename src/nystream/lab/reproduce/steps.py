"""The time of a step of each cell on this machine: whole models, one stream each, measured in turns.

Weights do not change the time of a step, so the models are not the trained ones.
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
TOKENS = 64  # of a stream that is pushed repeatedly
SIZES = ("layers", "window", "embed_dim", "num_heads", "tokens")  # fields of a cell that its full attention shares


def time_steps(records: Sequence[RecordDict], command: str, show: bool | None = None) -> list[RecordDict]:
    """The records of cells of one task, each with the time of a step on one thread, measured side by side.

    They are compared with full attention that recomputes its window, which is timed for every depth.
    """
    cells = [Cell(**record["cell"]) for record in records]
    # Cells that differ only in their training have the same step.
    keys = [_with(cell, "model", "landmarks", "stack", *SIZES) for cell in cells]
    full = [_with(cell, *SIZES) for cell in cells]
    models = {key: _model(key, records[0]["input_dim"]) for key in dict.fromkeys([*full, *keys])}
    pushes = time_pushes(models, ROUNDS, show)
    timed = []
    for record, key, full_key in zip(records, keys, full, strict=True):
        times, pool = pushes[key]
        step = times.to_dict() | {
            "backend": pool.backend,
            "bytes_per_stream": pool.bytes_per_stream,
            "relative": pushes[full_key][0].median / times.median,
            **provenance.header(command),
        }
        timed.append(record | {"step": step})
    return timed


def time_pushes(
    models: Mapping[K, StreamModel], rounds: int = ROUNDS, show: bool | None = None
) -> dict[K, tuple[Times, StreamPool]]:
    """The time of a push to one stream with a full window, on one thread, the models in turns; and their pools."""
    pools = {key: StreamPool(model, capacity=1) for key, model in models.items()}
    calls = {}
    for key, pool in pools.items():
        sid, config = pool.open(), models[key].config
        tokens = torch.randn(TOKENS, config.input_dim, generator=torch.Generator().manual_seed(0)).numpy()
        for place in range(config.window):
            pool.push(sid, tokens[place % TOKENS])
        calls[str(key)] = TimedCall(pool.push, [(sid, x) for x in tokens])
    with threads(1), track("steps", rounds, show) as advance:
        times = measure(calls, rounds, advance=advance)
    return {key: (times[str(key)], pool) for key, pool in pools.items()}


def _with(cell: Cell, *fields: str) -> Cell:
    """The usual cell of the same task, with these fields of a cell."""
    return problem(cell.task).usual(**{field: getattr(cell, field) for field in fields})


def _model(cell: Cell, input_dim: int) -> StreamModel:
    """A model of the cell, with random weights and landmarks."""
    torch.manual_seed(0)
    model = StreamModel(model_config(cell, input_dim)).eval()
    for block in model.encoder.blocks:
        cfg = block.attention.config
        if cfg.fixed:
            block.attention.set_landmarks(*torch.randn(2, cfg.num_heads, cfg.m, cfg.head_dim))
    return model
