"""Read and check the records of a folder: rows of tables, sweeps and ablations, and baselines."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

from nystream.lab.reproduce import paper
from nystream.lab.reproduce.report.schema import PROTOCOLS, TOKENS, check, check_baseline, check_cell


class RunKey(NamedTuple):
    """The split and seed of a run; None if the protocol has none."""

    split: int | None
    seed: int | None


class ScoreSummary(NamedTuple):
    mean: float
    std: float | None  # None for one run
    values: tuple[float, ...]


class Group(NamedTuple):
    """The records of one table: one task, one way to split it, one kind of tokens."""

    task: str
    protocol: str
    tokens: str

    @property
    def extra(self) -> str:
        """How it differs from the paper's own table; empty for that one."""
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
    """A cell or a baseline, with the whole content of its file in `raw`."""

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
        return self.cell.get("landmarks")

    @property
    def rival(self) -> bool:
        """Whether it is a recurrent network."""
        return "cell" in self.raw and self.model in paper.RIVALS

    @property
    def label(self) -> str:
        """The paper's name of the model, or the name of the rival or the baseline."""
        if "baseline" in self.raw:
            return self.raw["baseline"]["name"]
        return paper.RIVALS[self.model] if self.rival else paper.MODELS[self.model]

    @property
    def microseconds(self) -> float | None:
        """The median time of a step; None if it was not timed."""
        step = self.raw.get("step")
        return step["median_microseconds"] if step else None

    @property
    def score(self) -> ScoreSummary:
        return self.metrics[self.metric]

    @property
    def epochs(self) -> int | None:
        return self.raw["training"]["epochs"] if "training" in self.raw else None

    @property
    def updates(self) -> tuple[int | None, int | None]:
        """The number of updates in all phases, and the batch size; None if unknown."""
        phases: list[Mapping[str, Any]] = self.raw.get("training", {}).get("phases") or [{}]
        if not all(phase.get("steps_per_epoch") and phase.get("epochs") for phase in phases):
            return None, None
        return sum(phase["epochs"] * phase["steps_per_epoch"] for phase in phases), phases[0].get("batch_size")


def read(folder: Path) -> list[Record]:
    """Every cell and baseline in `folder`; other JSON files are ignored."""
    if folder.is_file():
        raise NotADirectoryError(f"folder={folder} is a file, but must be the folder of the records")
    if not folder.is_dir():
        raise FileNotFoundError(f"folder={folder} does not exist; nystream reproduce writes the records of a report")
    records = []
    for path in sorted(folder.glob("*.json")):
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path} is not JSON: {error}") from error
        if isinstance(raw, dict) and ("cell" in raw or "baseline" in raw):
            records.append(parse(raw, str(path)))
    if not records:
        raise ValueError(f"folder={folder} has no results yet; nystream reproduce writes them")
    return records


def parse(raw: Mapping[str, Any], where: str) -> Record:
    """A record from the content of its file, checked; `where` names the file in errors."""
    kind = "cell" if "cell" in raw else "baseline"
    (check_cell if kind == "cell" else check_baseline)(raw, where)
    fields = raw[kind]
    runs = []
    for run in raw["runs"]:
        check(run, {"split": (int, None), "seed": (int, None)}, f"{where}: runs")
        runs.append(RunKey(run["split"], run["seed"]))
    if not runs:
        raise ValueError(f"{where}: runs is empty")
    if len(set(runs)) < len(runs):
        raise ValueError(f"{where}: runs has a split and seed twice")
    group = Group(fields["task"], fields["protocol"], fields.get("tokens", "paper"))
    if raw["metric"] != group.metric:
        raise ValueError(f"{where}: metric must be {group.metric!r} for {group.task}, got {raw['metric']!r}")
    metrics, valid = (_scores(raw.get(part, {}), len(runs), f"{where}: {part}") for part in ("metrics", "valid"))
    for part, scores in (("metrics", metrics), ("valid", valid)):
        if raw["metric"] not in scores and not (part == "valid" and kind == "baseline"):
            raise ValueError(f"{where}: {part} has no {raw['metric']!r}")
    return Record(raw["name"], group, raw["metric"], metrics, valid, tuple(runs), raw)


def _scores(part: Mapping[str, Any], count: int, where: str) -> dict[str, ScoreSummary]:
    scores = {}
    for name, summary in part.items():
        check({name: summary}, {name: dict}, where)
        check(summary, {"mean": float, "std": (float, None), "values": list}, f"{where}: {name}")
        values = summary["values"]
        if len(values) != count:
            raise ValueError(f"{where}: {name} has {len(values)} values for {count} runs")
        for value in values:
            check({"values": value}, {"values": float}, f"{where}: {name}")
        std = summary["std"] if count > 1 else None
        _same(f"{where}: {name}: mean", summary["mean"], fmean(values))
        if std is not None:
            _same(f"{where}: {name}: std", std, stdev(values))
        scores[name] = ScoreSummary(summary["mean"], std, tuple(values))
    return scores


def _same(where: str, written: float, computed: float) -> None:
    """Raise unless a statistic in a record follows from its values."""
    if not math.isclose(written, computed, rel_tol=1e-6, abs_tol=1e-9):
        raise ValueError(f"{where} is {written!r}, but that of its values is {computed!r}")
