"""The time of a step of each cell on this machine: whole models, one stream each, measured in turns.

Weights do not change the time of a step, so the models are not the trained ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import torch

import nystream.state as states
from nystream import provenance
from nystream.lab.bench.timing import TimedCall, Times, measure, threads
from nystream.lab.reproduce.cells import Cell
from nystream.lab.reproduce.problems import problem
from nystream.lab.reproduce.store import RecordDict
from nystream.lab.reproduce.train import model_config
from nystream.lab.rivals import RecurrentConfig, RecurrentModel
from nystream.lab.rivals.steppers import FORMS, OnnxStep, TorchStep
from nystream.models import StreamModel
from nystream.progress import track
from nystream.stream import StreamPool

K = TypeVar("K")

ROUNDS = 60
TOKENS = 64  # of a stream that is pushed repeatedly
SIZES = ("layers", "window", "embed_dim", "num_heads", "tokens")  # fields of a cell that its full attention shares
STEP = ("model", "landmarks", "stack", "decay", "windows", *SIZES)  # fields of a cell that change its step


def time_steps(records: Sequence[RecordDict], command: str, show: bool | None = None) -> list[RecordDict]:
    """The records of cells of one task, each with the time of a step on one thread, measured side by side.

    They are compared with full attention that recomputes its window, which is timed for every depth. Recurrent models
    are timed in ONNX Runtime and in torch.
    """
    cells = [Cell(**record["cell"]) for record in records]
    keys = [_with(cell, *STEP) for cell in cells]  # cells that differ only in their training have the same step
    full = [_with(cell, *SIZES) for cell in cells]
    width = records[0]["input_dim"]
    models = {key: random_model(key, width) for key in dict.fromkeys([*full, *keys])}
    transformers = {key: model for key, model in models.items() if isinstance(model, StreamModel)}
    pools = {key: _pool(model) for key, model in transformers.items()}
    rivals = {key: _contenders(model) for key, model in models.items() if isinstance(model, RecurrentModel)}
    calls = {(key, ""): _pushes(pool, transformers[key]) for key, pool in pools.items()}
    calls |= {(key, name): TimedCall(step.push, _tokens(width)) for key in rivals for name, step in rivals[key].items()}
    times = _measured(calls, ROUNDS, show)
    timed = []
    for record, key, full_key in zip(records, keys, full, strict=True):
        if key in pools:
            ours = times[key, ""]
            step = ours.to_dict() | {"backend": pools[key].backend, "bytes_per_stream": pools[key].bytes_per_stream}
        else:
            ours, step = _fastest({name: times[key, name] for name in rivals[key]})
            step |= {"bytes_per_stream": states.nbytes(models[key].init_state(1))}
        step |= {"relative": times[full_key, ""].median / ours.median, **provenance.header(command)}
        timed.append(record | {"step": step})
    return timed


def time_pushes(
    models: Mapping[K, StreamModel], rounds: int = ROUNDS, show: bool | None = None
) -> dict[K, tuple[Times, StreamPool]]:
    """The time of a push to one stream with a full window, on one thread, the models in turns; and their pools."""
    pools = {key: _pool(model) for key, model in models.items()}
    times = _measured({key: _pushes(pool, models[key]) for key, pool in pools.items()}, rounds, show)
    return {key: (times[key], pool) for key, pool in pools.items()}


def _measured(calls: Mapping[K, TimedCall], rounds: int, show: bool | None) -> dict[K, Times]:
    names = {str(i): key for i, key in enumerate(calls)}
    with threads(1), track("steps", rounds, show) as advance:
        times = measure({name: calls[key] for name, key in names.items()}, rounds, advance=advance)
    return {key: times[name] for name, key in names.items()}


def _pool(model: StreamModel) -> StreamPool:
    """A pool for one stream, in torch for models that recompute their window, such as paper stacks."""
    options: dict[str, Any] = {} if model.config.cascade else {"backend": "torch"}
    return StreamPool(model, capacity=1, **options)


def _pushes(pool: StreamPool, model: StreamModel) -> TimedCall:
    """Pushes to one stream of a pool of the model, whose windows are full."""
    sid, tokens = pool.open(), _tokens(model.config.input_dim)
    for place in range(max(block.window for block in model.config.blocks)):
        pool.push(sid, *tokens[place % TOKENS])
    return TimedCall(pool.push, [(sid, *token) for token in tokens])


def _tokens(width: int) -> list[tuple[Any]]:
    return [(x,) for x in torch.randn(TOKENS, width, generator=torch.Generator().manual_seed(0)).numpy()]


def _contenders(model: RecurrentModel) -> dict[str, TorchStep | OnnxStep]:
    """The ways to run a recurrent model."""
    return {"torch": TorchStep(model), **{form: OnnxStep(model, form) for form in FORMS}}


def _fastest(times: Mapping[str, Times]) -> tuple[Times, dict[str, Any]]:
    """The faster form of the ONNX graph, and the step of a record: its times, and those of torch."""
    form = min(FORMS, key=lambda form: times[form].median)
    version = provenance.installed("onnxruntime")
    torch_times = times["torch"].to_dict()
    return times[form], times[form].to_dict() | {
        "backend": "onnxruntime",
        "graph": form,
        "version": version,
        "torch": torch_times,
    }


def _with(cell: Cell, *fields: str) -> Cell:
    """The usual cell of the same task, with these fields of a cell."""
    return problem(cell.task).usual(**{field: getattr(cell, field) for field in fields})


def random_model(cell: Cell, input_dim: int) -> StreamModel | RecurrentModel:
    """A model of the cell, with random weights and landmarks."""
    torch.manual_seed(0)
    config = model_config(cell, input_dim)
    if isinstance(config, RecurrentConfig):
        return RecurrentModel(config).eval()
    model = StreamModel(config).eval()
    for block in model.encoder.blocks:
        cfg = block.attention.config
        if cfg.fixed:
            block.attention.set_landmarks(*torch.randn(2, cfg.num_heads, cfg.m, cfg.head_dim))
    return model
