"""What lighter weights and rings cost in scores: the recommended models on the test data of the three tasks.

    NYSTREAM_DATA=data python benchmarks/narrow.py            # trains first: about half an hour on one core
    NYSTREAM_DATA=data python benchmarks/narrow.py gtzan      # one of the tasks; writes nothing

The models are those that docs/results.md recommends, trained as `nystream reproduce` trains them, one seed of one
split. Trained models are kept in the folder `runs` and taken from there if they exist; `--work` names another folder.

Every test stream is pushed through a pool from its first token to its last, all streams of a task together, and then
through the model as `export_onnx` writes it. A pool with float32 weights and rings, and an exported model with float32
weights, must give what `steps` gives. The others are compared with the pool on the same streams: the difference of the
scores, with a 95 % interval over resampled test items (tracks, videos, weeks), and how much the outputs change. Written
to results/narrow.json.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from _common import write_results
from torch import Tensor

import nystream as ns
from nystream.lab.bench.timing import TimedCall, measure
from nystream.lab.reproduce.job import Job
from nystream.lab.reproduce.problems import TASKS, problem
from nystream.lab.reproduce.train import train
from nystream.train import WindowData, predict
from nystream.train.data import Data
from nystream.train.predict import scored
from nystream.train.tasks import Task

POOLS = (
    ("float32", "float32"),
    ("bfloat16", "float32"),
    ("int8", "float32"),
    ("float32", "bfloat16"),
    ("int8", "bfloat16"),
)  # weights, rings
OPTIONS = ("weights", "ring_dtype")  # of a pool
FIXED_EARLY = {"model": "co-fixed-single", "pinv": "none", "method": "x", "learned": True, "at_once": True}
MODELS: dict[str, dict[str, Any]] = {
    "gtzan": {"layers": 2, "stack": "deep", "protocol": "filtered"},  # the split with the most test tracks
    "thumos14": {"layers": 1, "window": 256, "decay": True, "one_scale": True},
    "electricity": {"layers": 2, "stack": "deep", "decay": True, "tokens": "lags"},
}
METRICS = {"gtzan": "accuracy", "thumos14": "map", "electricity": "mse"}
WEEK = 168  # hours, the test items of electricity
RESAMPLES = 200
TOLERANCE = 1e-4  # of the pool's float32 outputs against those of `steps`, relative to the largest


class Outputs(NamedTuple):
    """What a pool gives for the test data."""

    output: Tensor  # [N, output_dim]
    y: Tensor  # [N, ...]
    items: list[Tensor]  # the places of every test item in `output` and `y`


def pushed(pool: ns.StreamPool, tokens: Sequence[Tensor], output_dim: int) -> list[Tensor]:
    """The outputs [T, output_dim] of every stream; at any time, all streams that have not ended are pushed together."""
    longest_first = sorted(range(len(tokens)), key=lambda i: -len(tokens[i]))
    outputs = [torch.empty(len(x), output_dim) for x in tokens]
    ids, alive = [pool.open() for _ in tokens], len(tokens)
    for t in range(len(tokens[longest_first[0]])):
        while len(tokens[longest_first[alive - 1]]) <= t:
            alive -= 1
        rows = pool.push_many(ids[:alive], torch.stack([tokens[i][t] for i in longest_first[:alive]]))
        for i, row in zip(longest_first, torch.from_numpy(rows), strict=False):
            outputs[i][t] = row
    return outputs


def extended(stream: ns.OnnxStream, tokens: Sequence[Tensor]) -> list[Tensor]:
    """The outputs [T, output_dim] of every stream, one after another."""
    outputs = []
    for x in tokens:
        stream.reset()
        outputs.append(torch.from_numpy(stream.extend(x.numpy())))
    return outputs


def streamed(run: Callable[[Sequence[Tensor]], list[Tensor]], test: Data, skip: int) -> Outputs:
    """The scored outputs of all test streams, in the order of `predict`."""
    if isinstance(test, WindowData):
        tokens, targets, kept = list(test.x), test.y, slice(-1, None)
    else:
        pairs, kept = [test.stream(i) for i in range(len(test))], slice(skip, None)
        tokens, targets = [x for x, _ in pairs], torch.cat([y[kept] for _, y in pairs])
    outputs = [y[kept] for y in run(tokens)]
    lengths = [len(y) for y in outputs] if len(outputs) > 1 else WEEK
    return Outputs(torch.cat(outputs), targets, list(torch.arange(len(targets)).split(lengths)))


def largest_error(outputs: Outputs, wanted: Tensor) -> float:
    """The largest error in float32, relative to the largest output of `steps`."""
    error = float((outputs.output - wanted).abs().max() / wanted.abs().max())
    if not error <= TOLERANCE:
        raise AssertionError(f"outputs in float32 differ from those of steps by {error:.1e}")
    return error


def interval(score: Callable[[Tensor, Tensor], float], light: Outputs, usual: Outputs) -> list[float]:
    """The 95 % interval of the difference of two scores, over test items that are drawn again."""
    random, differences = np.random.default_rng(0), []
    for _ in range(RESAMPLES):
        drawn = random.integers(0, len(usual.items), len(usual.items))
        places = torch.cat([usual.items[i] for i in drawn])
        y = usual.y[places]
        differences.append(score(light.output[places], y) - score(usual.output[places], y))
    return [float(edge) for edge in np.quantile(differences, [0.025, 0.975])]


def changes(task: Task, light: Outputs, usual: Outputs) -> dict[str, float]:
    """How much the outputs differ from those of float32."""
    if task.scaled:
        change, error = light.output - usual.output, usual.output - usual.y
        return {"rms_over_rms_error": float((change.square().mean() / error.square().mean()).sqrt())}
    other = light.output.argmax(-1) != usual.output.argmax(-1)
    moved = (light.output.softmax(-1) - usual.output.softmax(-1)).abs()
    return {
        "other_class": float(other.double().mean()),
        "mean_of_probabilities": float(moved.mean()),
        "largest_of_probabilities": float(moved.max()),
    }


def compare(name: str, data: Path, work: Path) -> dict[str, Any]:
    of, metric = problem(name), METRICS[name]
    cell = of.usual(landmarks=of.landmarks, **FIXED_EARLY, **MODELS[name])
    job = Job(cell, 1, 1, data, work, "cpu", "")
    runs, loaded, task, skip = job.runs(), job.load(), of.task(cell), of.skip(cell)
    trained = train(job, runs)
    model, test = trained.models[0], runs[0].test

    def score(output: Tensor, y: Tensor) -> float:
        return loaded.scores(scored(model, task, output, y))[metric]

    rows: list[dict[str, Any]] = []
    for values in POOLS:
        options = dict(zip(OPTIONS, values, strict=True))
        began = time.monotonic()
        pool = ns.StreamPool(model, len(test), "numba", **options)
        outputs = streamed(lambda tokens, pool=pool: pushed(pool, tokens, of.output_dim), test, skip)  # type: ignore[misc]
        backend = vars(pool)["_backend"]
        row: dict[str, Any] = options | {"score": score(outputs.output, outputs.y)}
        row |= {"weight_bytes": backend.weight_bytes, "bytes_per_stream": pool.bytes_per_stream}
        if not rows:
            usual, wanted = outputs, predict(model, test, skip=skip)[0]
            error = largest_error(outputs, wanted)
        else:
            row |= {"difference": row["score"] - rows[0]["score"], "interval": interval(score, outputs, usual)}
            row |= {"changes": changes(task, outputs, usual)}
        rows.append(row)
        print(f"{name}, {row['weights']} weights, {row['ring_dtype']} rings: {metric} {row['score']:.6g}", end="")
        if len(rows) > 1:
            low, high = row["interval"]
            print(f" ({row['difference']:+.2g}, {low:+.2g} to {high:+.2g}), {row['changes']}", end="")
        print(f", {time.monotonic() - began:.0f} s", flush=True)
    return {
        "task": name,
        "cell": job.name,
        "model": cell.to_dict(),
        "metric": metric,
        "items": len(usual.items),
        "outputs": len(usual.y),
        "error_against_steps": error,
        "training_seconds": trained.seconds,
        "pools": rows,
        "exported": exported(model, test, skip, wanted, usual, score, task),
    }


def exported(
    model: ns.StreamModel,
    test: Data,
    skip: int,
    wanted: Tensor,
    usual: Outputs,
    score: Callable[[Tensor, Tensor], float],
    task: Task,
) -> list[dict[str, Any]]:
    """The same for the exported model, with its size and the time of a step."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        paths = {w: ns.export_onnx(model, Path(folder) / f"{w}.onnx", weights=w) for w in ("float32", "int8")}
        streams = {weights: ns.OnnxStream(path) for weights, path in paths.items()}
        for weights, stream in streams.items():
            outputs = streamed(lambda tokens, stream=stream: extended(stream, tokens), test, skip)  # type: ignore[misc]
            row: dict[str, Any] = {"weights": weights, "score": score(outputs.output, outputs.y)}
            row["file_bytes"] = paths[weights].stat().st_size
            if weights == "float32":
                row["error_against_steps"] = largest_error(outputs, wanted)
            row |= {"difference": row["score"] - score(usual.output, usual.y)}
            row |= {"interval": interval(score, outputs, usual), "changes": changes(task, outputs, usual)}
            print(
                f"exported, {weights} weights: {row['score']:.6g} ({row['difference']:+.2g}), {row['changes']}",
                flush=True,
            )
            rows.append(row)
    x = np.random.default_rng(0).normal(size=(64, model.config.input_dim)).astype(np.float32)
    jobs = {weights: TimedCall(stream.push, [(token,) for token in x]) for weights, stream in streams.items()}
    for row, times in zip(rows, measure(jobs, 100, lambda: None).values(), strict=True):
        row["median_microseconds"] = times.median * 1e6
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", nargs="?", choices=TASKS, help="all of them unless told")
    parser.add_argument("--data", type=Path, default=os.environ.get("NYSTREAM_DATA"))
    parser.add_argument("--work", type=Path, default=Path("runs"), help="folder of trained models")
    args = parser.parse_args()
    if args.data is None:
        parser.error("say where the data sets are: --data FOLDER, or NYSTREAM_DATA")
    torch.set_num_threads(1)
    rows = [compare(name, Path(args.data), args.work) for name in ([args.task] if args.task else TASKS)]
    if not args.task:
        print(f"written to {write_results('narrow', {'resamples': RESAMPLES, 'tasks': rows}).name}")


if __name__ == "__main__":
    main()
