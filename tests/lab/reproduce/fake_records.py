"""Records with made-up numbers, in the form that `nystream reproduce` writes them. No score here was measured."""

from __future__ import annotations

import json
import random
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

MODELS = ("full", "co-full-single", "nystrom", "nystrom-fixed", "co-cont-single", "co-fixed-single")
WIDTHS = {"gtzan": (120, 192, 16, 4), "thumos14": (64, 1024, 8, 16), "electricity": (64, 128, 8, 4)}
METRIC = {"gtzan": "accuracy", "thumos14": "map", "electricity": "mse"}
LEVEL = {"gtzan": 0.55, "thumos14": 0.33, "electricity": 0.077}
SPREAD = {"gtzan": 0.01, "thumos14": 0.004, "electricity": 0.002}
CONTINUAL = ("co-full-single", "co-cont-single", "co-fixed-single")
RIVALS = ("gru", "lstm")
OPERATIONS = dict(zip((*MODELS, *RIVALS), (9e6, 3e5, 4e5, 2e5, 2e4, 1e4, 6e5, 7e5), strict=True))
MICROSECONDS = dict(zip((*MODELS, *RIVALS), (1234.5, 43.2, 543.2, 432.1, 23.4, 12.3, 34.5, 45.6), strict=True))
HARDWARE = {"cpu": "Imaginary CPU", "cores": 2, "torch": "9.9.9", "python": "3.99.0"}
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def cell(
    task: str = "gtzan",
    model: str = "co-fixed-single",
    layers: int = 1,
    *,
    splits: int = 5,
    seeds: int = 5,
    timed: bool = True,
    shift: float = 0.0,
    suffix: str = "",
    epochs: int = 30,
    **changes: Any,
) -> dict[str, Any]:
    """One cell; `changes` are fields of "cell", `shift` is added to its scores, also to those on validation data."""
    n, d, heads, m = WIDTHS[task]
    of = {
        "task": task, "model": model, "layers": layers, "landmarks": m if model in MODELS[2:] else None, "window": n,
        "embed_dim": d, "num_heads": heads, "pinv": "newton", "pinv_ridge": 0.1, "method": "qk", "learned": False,
        "distilled": False, "protocol": "splits" if task == "gtzan" else "seeds", "tokens": "paper", "stack": "paper",
        **changes,
    }  # fmt: skip
    name = f"{task}-{layers}-{model.removesuffix('-single')}{suffix}"
    runs = [{"split": split, "seed": seed} for split in range(splits) for seed in range(seeds)]
    metric, noise = METRIC[task], random.Random(name)
    hard = {split: random.Random(f"{task} {split}").gauss(0, 4 * SPREAD[task]) for split in range(splits)}
    own = LEVEL[task] + shift + (0.005 if layers > 1 else 0) + noise.gauss(0, SPREAD[task])
    values = [own + hard[run["split"]] + noise.gauss(0, SPREAD[task]) for run in runs]
    metrics = {metric: scores(values), "loss": scores([1.0 for _ in values])}
    if task == "thumos14":
        metrics["cmap"] = scores([value + 0.5 for value in values])
    step = {
        "median_microseconds": layers * MICROSECONDS[model],
        "p99_microseconds": 2 * layers * MICROSECONDS[model],
        "backend": "numba",
        "bytes_per_stream": 155_554 * layers,
        "relative": MICROSECONDS["full"] / MICROSECONDS[model],
        "command": f"nystream reproduce {task} --time",
        "commit": COMMIT,
        "hardware": HARDWARE,
    }
    if of["stack"] == "paper" and layers > 1 and model in MODELS:
        step["median_microseconds"] *= 50
    count = layers * OPERATIONS[model]
    fewer = OPERATIONS["full"] / OPERATIONS[model]
    operations = {
        "paper": count, "corrected": 0.9 * count, "relative_paper": fewer, "relative_corrected": fewer / 0.9,
    }  # fmt: skip
    if model in RIVALS:
        operations = {"model": count}
        step |= {"backend": "onnxruntime", "torch": {"median_microseconds": 3 * layers * MICROSECONDS[model]}}
        del step["relative"], step["bytes_per_stream"]
    elif of["stack"] == "deep":
        operations["model"] = 5 * count
    return {
        "cell": of,
        "name": name,
        "metric": metric,
        "metrics": metrics,
        "valid": {metric: scores([value + 0.01 for value in values])},
        "runs": runs,
        "operations": operations,
        "bytes_per_stream": 77_777 * layers,
        "step": step if timed else None,
        "training": {"epochs": epochs, "phases": [], "parameters": 12345, "seconds": 1.0, "device": "Imaginary GPU"},
        "data": {"file": f"{task}_made_up.npz", "fingerprint": "ab" * 32},
        "command": f"nystream reproduce {task} --splits {splits} --seeds {seeds}",
        "commit": COMMIT,
        "hardware": HARDWARE,
    }  # fmt: skip


def baseline(task: str, name: str, value: float, *, splits: int = 1, protocol: str = "") -> dict[str, Any]:
    values = [value + 0.001 * split for split in range(splits)]
    protocol = protocol or ("splits" if task == "gtzan" else "seeds")
    return {
        "baseline": {"task": task, "name": name, "protocol": protocol},
        "name": f"{task}-baseline-{name.replace(' ', '-')}-{protocol}",
        "metric": METRIC[task],
        "metrics": {METRIC[task]: scores(values)},
        "runs": [{"split": split, "seed": None} for split in range(splits)],
        "chosen": {"alpha": 1.0},
        "data": {"file": f"{task}_made_up.npz", "fingerprint": "ab" * 32},
        "command": f"nystream reproduce {task}",
        "commit": COMMIT,
        "hardware": HARDWARE,
    }


def scores(values: list[float]) -> dict[str, Any]:
    return {"mean": fmean(values), "std": stdev(values) if len(values) > 1 else None, "values": values}


def everything() -> list[dict[str, Any]]:
    """All three tasks, sweeps, ablations, baselines, the filtered split, tokens with lags."""
    found = []
    for task, depths, runs in (("gtzan", (1, 2), (5, 5)), ("thumos14", (1, 2), (1, 3)), ("electricity", (1,), (1, 5))):
        splits, seeds = runs
        for layers in depths:
            found += [cell(task, model, layers, splits=splits, seeds=seeds) for model in MODELS]
            for model in MODELS[2:]:
                found += [
                    cell(task, model, layers, splits=splits, seeds=seeds, landmarks=m, suffix=f"-m{m}", timed=False)
                    for m in (2, 4, 8, 16, 32)
                    if m != WIDTHS[task][3]
                ]
            for suffix, changes in (
                ("-exact", {"pinv": "exact"}),
                ("-ridge0.01", {"pinv": "ridge", "pinv_ridge": 0.01}),
                ("-ridge0.1", {"pinv": "ridge"}),
                ("-noinverse-by-x", {"pinv": "none", "method": "x"}),
                ("-learned", {"learned": True}),
                ("-distilled", {"distilled": True, "shift": 4 * SPREAD[task]}),
            ):
                found.append(
                    cell(task, layers=layers, splits=splits, seeds=seeds, suffix=suffix, timed=False, **changes)
                )
    found += [
        cell(model=model, splits=1, seeds=5, protocol="filtered", suffix="-filtered", shift=-0.1)
        for model in ("full", "co-full-single", "co-fixed-single")
    ]
    found += [
        cell("electricity", model, splits=1, seeds=3, tokens="lags", suffix="-lags", shift=-0.06)
        for model in MODELS[1:]
    ]
    found.append(baseline("gtzan", "logistic regression on the mean token", 0.54, splits=5))
    found.append(baseline("gtzan", "logistic regression on the mean token", 0.44, protocol="filtered"))
    found += [
        baseline("electricity", name, value)
        for name, value in (("persistence", 0.333), ("a day ago", 0.444), ("a week ago", 0.222), ("ridge", 0.111))
    ]
    return found


def beyond_the_paper(task: str = "gtzan", *, timed: bool = True, **runs: Any) -> list[dict[str, Any]]:
    """Deep stacks and rivals of a task, some with settings that the paper does not have."""
    cells = [
        cell(task, model, layers, suffix="-deep", stack="deep", timed=timed, **runs)
        for model in CONTINUAL
        for layers in (2, 4, 6)
    ]
    cells += [cell(task, model, 2, suffix="-deep-decay", stack="deep", decay=True, **runs) for model in CONTINUAL]
    better = 4 * SPREAD[task] * (-1 if task == "electricity" else 1)
    windows = {"windows": [16, 32, 64, 256], "window": 256}
    cells += [
        cell(task, layers=4, suffix="-deep-n256", stack="deep", decay=True, shift=better, **windows, **runs),
        cell(task, layers=2, suffix="-deep-at-once", stack="deep", at_once=True, transferred=True, **runs),
        cell(task, suffix="-decay", decay=True, dropout=0.5, **runs),
        cell(task, "co-full-single", suffix="-distilled", distilled=True, **runs),
    ]
    cells += [cell(task, model, layers, timed=timed, **runs) for model in RIVALS for layers in (1, 2)]
    return [*cells, cell(task, "gru", suffix="-dropout0.5", dropout=0.5, timed=timed, **runs)]


def write(folder: Path, records: list[dict[str, Any]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for one in records:
        (folder / f"{one['name']}.json").write_text(json.dumps(one))
    return folder
