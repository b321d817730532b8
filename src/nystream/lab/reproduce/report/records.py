"""Read the records of a folder, checked: a row of a table, of a sweep or of an ablation, or a baseline."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

from nystream.lab.reproduce import paper

PROTOCOLS = {"splits": "", "seeds": "", "filtered": "fault-filtered split"}
TOKENS = {"paper": "", "lags": "tokens with lags"}
CELL: Mapping[str, Any] = {
    "task": tuple(paper.TASKS),
    "model": tuple(paper.MODELS),
    "layers": int,
    "landmarks": (int, None),
    "window": int,
    "embed_dim": int,
    "num_heads": int,
    "pinv": str,
    "pinv_ridge": float,
    "method": str,
    "learned": bool,
    "distilled": bool,
    "protocol": tuple(PROTOCOLS),
    "tokens": tuple(TOKENS),
    "stack": ("paper", "deep"),
}
OPERATIONS: Mapping[str, Any] = dict.fromkeys(("paper", "corrected", "relative_paper", "relative_corrected"), float)
STEP: Mapping[str, Any] = {
    "median_microseconds": float,
    "relative": (float, None),
    "bytes_per_stream": int,
    "backend": str,
    "command": str,
    "commit": str,
    "hardware": dict,
}
COMMON: Mapping[str, Any] = {
    "name": str,
    "metric": tuple(paper.METRICS),
    "metrics": dict,
    "runs": list,
    "data": dict,
    "command": str,
    "commit": str,
    "hardware": dict,
}


class RunKey(NamedTuple):
    """What a value was trained on and drawn with; None where a protocol has no such thing."""

    split: int | None
    seed: int | None


class ScoreSummary(NamedTuple):
    mean: float
    std: float | None  # None for one run
    values: tuple[float, ...]


class Group(NamedTuple):
    """What shares a table: one task, one way to split it, one kind of token."""

    task: str
    protocol: str
    tokens: str

    @property
    def extra(self) -> str:
        """What tells it from the paper's own table; empty for that one."""
        return ", ".join(word for word in (PROTOCOLS[self.protocol], TOKENS[self.tokens]) if word)

    @property
    def slug(self) -> str:
        parts = (self.task, "filtered" * (self.protocol == "filtered"), "lags" * (self.tokens == "lags"))
        return "-".join(part for part in parts if part)

    @property
    def title(self) -> str:
        title = paper.TASKS[self.task].title
        return f"{title}: {self.extra}" if self.extra else title

    @property
    def metric(self) -> str:
        return paper.TASKS[self.task].metric


@dataclass(frozen=True)
class Record:
    """A cell or a baseline, with everything that its file says in `raw`."""

    name: str
    group: Group
    metric: str
    metrics: Mapping[str, ScoreSummary]
    valid: Mapping[str, ScoreSummary]
    runs: tuple[RunKey, ...]
    raw: Mapping[str, Any] = field(repr=False, compare=False)

    @property
    def cell(self) -> Mapping[str, Any]:
        return self.raw["cell"]

    @property
    def model(self) -> str:
        return self.cell["model"]

    @property
    def layers(self) -> int:
        return self.cell["layers"]

    @property
    def landmarks(self) -> int | None:
        return self.cell["landmarks"]

    @property
    def label(self) -> str:
        """The paper's name of the model, or the baseline's own."""
        return self.raw["baseline"]["name"] if "baseline" in self.raw else paper.MODELS[self.model]

    @property
    def score(self) -> ScoreSummary:
        return self.metrics[self.metric]

    @property
    def epochs(self) -> int | None:
        return self.raw["training"]["epochs"] if "training" in self.raw else None

    @property
    def updates(self) -> tuple[int | None, int | None]:
        """Of all phases together, and how many windows or pieces of streams each takes; None where it is not said."""
        phases: list[Mapping[str, Any]] = self.raw.get("training", {}).get("phases") or [{}]
        if not all(phase.get("steps_per_epoch") and phase.get("epochs") for phase in phases):
            return None, None
        return sum(phase["epochs"] * phase["steps_per_epoch"] for phase in phases), phases[0].get("batch_size")


def read(folder: Path) -> list[Record]:
    """Every cell and baseline in `folder`; JSON files that hold something else are none of ours."""
    if folder.is_file():
        raise NotADirectoryError(f"folder={folder} is a file, but must be the folder of the records")
    if not folder.is_dir():
        raise FileNotFoundError(f"folder={folder} is not there; nystream reproduce writes the records of a report")
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path} is not JSON: {error}") from error
        if isinstance(raw, dict) and ("cell" in raw or "baseline" in raw):
            found.append(parse(raw, str(path)))
    if not found:
        raise ValueError(f"folder={folder} has no results yet; nystream reproduce writes them")
    return found


def parse(raw: Mapping[str, Any], where: str) -> Record:
    """A record from what its file holds; `where` names it in errors."""
    kind = "cell" if "cell" in raw else "baseline"
    if kind == "cell":
        _check(raw, {"cell": dict, **COMMON, "valid": dict, "operations": dict, "training": dict}, where)
        _check(raw, {"bytes_per_stream": (int, None), "step": (dict, None)}, where)
        _check(raw["cell"], CELL, f"{where}: cell")
        _check(raw["operations"], OPERATIONS, f"{where}: operations")
        _check(raw["training"], {"epochs": int, "phases": list}, f"{where}: training")
        for phase in raw["training"]["phases"]:
            _check(phase, {}, f"{where}: training: a phase")
        if raw["step"] is not None:
            _check(raw["step"], STEP, f"{where}: step")
    else:
        _check(raw, {"baseline": dict, **COMMON}, where)
        _check(
            raw["baseline"],
            {"task": tuple(paper.TASKS), "name": str, "protocol": tuple(PROTOCOLS)},
            f"{where}: baseline",
        )
    of = raw[kind]
    runs = []
    for run in raw["runs"]:
        _check(run, {"split": (int, None), "seed": (int, None)}, f"{where}: runs")
        runs.append(RunKey(run["split"], run["seed"]))
    if not runs:
        raise ValueError(f"{where}: runs is empty")
    if len(set(runs)) < len(runs):
        raise ValueError(f"{where}: runs has a split and seed twice")
    group = Group(of["task"], of["protocol"], of.get("tokens", "paper"))
    if raw["metric"] != group.metric:
        raise ValueError(f"{where}: metric must be {group.metric!r} for {group.task}, got {raw['metric']!r}")
    metrics, valid = (_scores(raw.get(part, {}), len(runs), f"{where}: {part}") for part in ("metrics", "valid"))
    for part, scores in (("metrics", metrics), ("valid", valid)):
        if raw["metric"] not in scores and not (part == "valid" and kind == "baseline"):
            raise ValueError(f"{where}: {part} has no {raw['metric']!r}")
    return Record(raw["name"], group, raw["metric"], metrics, valid, tuple(runs), raw)


def _scores(found: Mapping[str, Any], count: int, where: str) -> dict[str, ScoreSummary]:
    scores = {}
    for name, of in found.items():
        _check({name: of}, {name: dict}, where)
        _check(of, {"mean": float, "std": (float, None), "values": list}, f"{where}: {name}")
        values = of["values"]
        if len(values) != count:
            raise ValueError(f"{where}: {name} has {len(values)} values for {count} runs")
        for value in values:
            _check({"values": value}, {"values": float}, f"{where}: {name}")
        std = of["std"] if count > 1 else None
        _same(f"{where}: {name}: mean", of["mean"], fmean(values))
        if std is not None:
            _same(f"{where}: {name}: std", std, stdev(values))
        scores[name] = ScoreSummary(of["mean"], std, tuple(values))
    return scores


def _same(where: str, said: float, found: float) -> None:
    """What a record says of its values must follow from them."""
    if not math.isclose(said, found, rel_tol=1e-6, abs_tol=1e-9):
        raise ValueError(f"{where} is {said!r}, but that of its values is {found!r}")


def _check(found: Any, wanted: Mapping[str, Any], where: str) -> None:
    """Every field is there and of its kind: a type, some types, or one of some words."""
    if not isinstance(found, dict):
        raise ValueError(f"{where} must be an object, got {found!r}")
    for name, kind in wanted.items():
        if name not in found:
            raise ValueError(f"{where} has no {name!r}")
        value = found[name]
        if isinstance(kind, tuple) and isinstance(kind[0], str):
            if value not in kind:
                raise ValueError(f"{where}: {name} must be one of {', '.join(kind)}, got {value!r}")
            continue
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if value is None and None in kinds:
            continue
        if not any(_is(value, one) for one in kinds if one is not None):
            names = " or ".join("null" if one is None else one.__name__ for one in kinds)
            raise ValueError(f"{where}: {name} must be {names}, got {value!r}")


def _is(value: Any, kind: type) -> bool:
    if isinstance(value, bool):
        return kind is bool
    if kind is float:
        return isinstance(value, int | float) and math.isfinite(value)
    return isinstance(value, kind)
