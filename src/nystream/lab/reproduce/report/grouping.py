"""Records by the table they belong to, and how each differs from the table's own setting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nystream.costs.tables import SIZES
from nystream.lab.reproduce import paper
from nystream.lab.reproduce.report.records import Group, Record

# The table's own setting; other values are sweeps or ablations.
OWN = {"pinv": "newton", "method": "qk", "learned": False, "distilled": False, "stack": "paper"}
LETTERS = {"landmarks": "m", "window": "n", "embed_dim": "d"}
WORDS = {
    ("pinv", "exact"): "exact inverse",
    ("pinv", "none"): "no inverse",
    ("pinv", "newton"): "Newton–Schulz",
    ("method", "x"): "centres of the inputs, projected",
    ("learned", True): "learned landmarks",
    ("distilled", True): "distilled from full attention",
}


@dataclass(frozen=True)
class GroupTable:
    """The records of one group: the table's own cells, cells with other settings, and baselines."""

    group: Group
    cells: Mapping[tuple[str, int], Record]  # by (model, layers)
    others: tuple[tuple[Record, Mapping[str, Any]], ...]  # with the fields that differ
    baselines: tuple[Record, ...]  # the best first

    @property
    def metric(self) -> paper.Metric:
        return paper.METRICS[self.group.metric]

    @property
    def depths(self) -> list[int]:
        return sorted({layers for _, layers in self.cells})

    def sweep(self, model: str, layers: int) -> dict[int, Record]:
        """The records of a model by m, including the table's own."""
        key = (model, layers)
        by_landmarks = {
            record.landmarks: record
            for record, differs in self.others
            if (record.model, record.layers) == key and set(differs) == {"landmarks"}
        }
        if key in self.cells:
            by_landmarks[self.cells[key].landmarks] = self.cells[key]
        return {m: by_landmarks[m] for m in sorted(m for m in by_landmarks if m is not None)}

    def distilled(self, model: str, layers: int) -> Record | None:
        """The cell that was distilled from full attention, and is otherwise in the table's own setting."""
        for record, differs in self.others:
            if (record.model, record.layers) == (model, layers) and differs == {"distilled": True}:
                return record
        return None

    def ablations(self) -> list[tuple[Record, Mapping[str, Any]]]:
        """The cells with other settings than m, with the fields that differ."""
        return [(record, differs) for record, differs in self.others if set(differs) != {"landmarks"}]

    def trained(self) -> list[tuple[str, int]]:
        """The (model, layers) of all cells, in the order of the paper."""
        return ordered({*self.cells, *((record.model, record.layers) for record, _ in self.others)})

    def records(self) -> list[Record]:
        return [*self.cells.values(), *(record for record, _ in self.others), *self.baselines]


def ordered(keys: set[tuple[str, int]]) -> list[tuple[str, int]]:
    """(model, layers) in the order of the paper's tables."""
    models = list(paper.MODELS)
    return sorted(keys, key=lambda key: (models.index(key[0]), key[1]))


def tables(records: Sequence[Record]) -> list[GroupTable]:
    """The records by group, in the order of the paper's tables, each followed by further groups of its task."""
    tasks = list(paper.TASKS)
    groups = {record.group for record in records if "cell" in record.raw} or {record.group for record in records}
    return [
        _table(group, [record for record in records if record.group == group or _serves(record, group)])
        for group in sorted(groups, key=lambda group: (tasks.index(group.task), bool(group.extra), group.extra))
    ]


def _serves(record: Record, group: Group) -> bool:
    """Whether a baseline without tokens belongs to a group: it does to every group of its task and splits."""
    return "tokens" not in record.raw.get("baseline", {"tokens": ""}) and record.group[:2] == group[:2]


def setting(record: Record, widths: tuple[int, int]) -> dict[str, Any]:
    """The fields that differ from the table's own setting, whose embed_dim and num_heads are `widths`."""
    cell, sizes = record.cell, SIZES[record.group.task]
    own = {**OWN, "window": sizes.n, "embed_dim": widths[0], "num_heads": widths[1]}
    if record.landmarks is not None:
        own["landmarks"] = sizes.m
    differs = {name: cell[name] for name, value in own.items() if cell[name] != value}
    if differs.get("pinv") == "ridge":
        differs["pinv_ridge"] = cell["pinv_ridge"]
    return differs


def describe(differs: Mapping[str, Any]) -> str:
    """The difference from the table's own setting, in words."""
    words = []
    for name, value in differs.items():
        if name in LETTERS:
            words.append(f"{LETTERS[name]} = {value}")
        elif (name, value) == ("pinv", "ridge"):
            words.append(f"ridge, λ = {differs['pinv_ridge']:g}")
        elif name in ("num_heads", "stack"):
            words.append(f"{value} {name.removeprefix('num_')}")
        elif name != "pinv_ridge":
            words.append(WORDS.get((name, value), f"{name} {value}"))
    return ", ".join(words) or "the table's own"


def _table(group: Group, records: Sequence[Record]) -> GroupTable:
    cells: dict[tuple[str, int], Record] = {}
    others: list[tuple[Record, Mapping[str, Any]]] = []
    seen: dict[str, str] = {}
    trained = [record for record in records if "cell" in record.raw]
    # The paper does not give every width, so the table's own is the one that most cells have.
    widths = Counter((record.cell["embed_dim"], record.cell["num_heads"]) for record in trained)
    for record in trained:
        differs = setting(record, widths.most_common(1)[0][0])
        key = f"{record.model} {record.layers} {sorted(differs.items())}"
        if key in seen:
            raise ValueError(f"{record.name} and {seen[key]} are records of the same cell; remove one of them")
        seen[key] = record.name
        if differs:
            others.append((record, differs))
        else:
            cells[record.model, record.layers] = record
    models = list(paper.MODELS)
    others.sort(key=lambda pair: (models.index(pair[0].model), pair[0].layers, pair[0].landmarks or 0, pair[0].name))
    baselines = [record for record in records if "baseline" in record.raw]
    baselines.sort(key=lambda record: record.score.mean, reverse=paper.METRICS[group.metric].higher)
    return GroupTable(group, {key: cells[key] for key in ordered({*cells})}, tuple(others), tuple(baselines))
