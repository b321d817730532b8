"""Records by the table they belong to, and how each differs from the table's own setting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from nystream.costs.tables import SIZES
from nystream.lab.reproduce import paper
from nystream.lab.reproduce.report.records import Group, Record

# The table's own setting; other values are sweeps or ablations.
OWN: Mapping[str, Any] = {
    "pinv": "newton", "method": "qk", "learned": False, "distilled": False, "transferred": False, "stack": "paper",
    "at_once": False, "decay": False, "dropout": None, "windows": None, "one_scale": False,
}  # fmt: skip
OF_ATTENTION = ("stack", "num_heads")  # fields that say nothing about a rival
LETTERS = {"landmarks": "m", "window": "n", "embed_dim": "d"}
WORDS = {
    ("pinv", "exact"): "exact inverse",
    ("pinv", "none"): "no inverse",
    ("pinv", "newton"): "Newton–Schulz",
    ("method", "x"): "centres of the inputs, projected",
    ("learned", True): "learned landmarks",
    ("distilled", True): "distilled from full attention",
    ("transferred", True): "attention transfer",
    ("at_once", True): "landmarks of all blocks at once",
    ("decay", True): "with decay",
    ("one_scale", True): "one scale for all inputs",
}
# The recipe of `nystream train`, which has a name.
EARLY = {"pinv": "none", "method": "x", "learned": True, "at_once": True}
OWN_WORDS = "the table's own"
STACKS = ("one", "deep", "paper", "rival")  # one block, a deep stack, the paper's stack, a recurrent network

Setting = Mapping[str, Any]  # the fields of a cell that differ from the table's own setting


class Build(NamedTuple):
    """What a model is built of: a stack, its model, and the number of its blocks or recurrent layers."""

    stack: str  # one of STACKS
    model: str
    layers: int

    @property
    def label(self) -> str:
        """CoNy-Fix, 1 block; CoNy-Fix, deep stack of 4; CoNy-Fix, paper stack of 2; GRU, 1 layer."""
        if self.stack == "rival":
            return f"{paper.RIVALS[self.model]}, {self.layers} layer{'s' * (self.layers > 1)}"
        name = paper.MODELS[self.model]
        if self.stack == "one":
            return f"{name}, 1 block"
        return f"{name}, {self.stack} stack of {self.layers}"


@dataclass(frozen=True)
class GroupTable:
    """The records of one group: the table's own cells, cells with other settings, rivals and baselines."""

    group: Group
    cells: Mapping[tuple[str, int], Record]  # by (model, layers)
    others: tuple[tuple[Record, Setting], ...]  # with the fields that differ; also deep stacks
    rivals: tuple[tuple[Record, Setting], ...]
    baselines: tuple[Record, ...]  # the best first

    @property
    def metric(self) -> paper.Metric:
        return paper.METRICS[self.group.metric]

    @property
    def depths(self) -> list[int]:
        return sorted({layers for _, layers in self.cells})

    @cached_property
    def builds(self) -> dict[Build, list[tuple[Record, Setting]]]:
        """All cells by what they are built of, with the fields in which they differ otherwise; the own setting first.

        In the order of STACKS, then by the number of blocks, then by model.
        """
        builds: dict[Build, list[tuple[Record, Setting]]] = {}
        for record, differs in (*((record, {}) for record in self.cells.values()), *self.others, *self.rivals):
            rest = {name: value for name, value in differs.items() if name != "stack"}
            builds.setdefault(build(record), []).append((record, rest))
        models = [*paper.MODELS, *paper.RIVALS]

        def place(key: Build) -> tuple[int, int, int]:
            of = models.index(key.model)
            return STACKS.index(key.stack), *((of, key.layers) if key.stack == "rival" else (key.layers, of))

        return {key: sorted(builds[key], key=lambda pair: bool(pair[1])) for key in sorted(builds, key=place)}

    def own(self, key: Build, setting: Setting | None = None) -> Record | None:
        """The record of a build in the table's own setting, or in that setting but for some fields."""
        for record, differs in self.builds.get(key, ()):
            if differs == (setting or {}):
                return record
        return None

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

    def trained(self) -> list[tuple[str, int]]:
        """The (model, layers) of all cells of the paper's models, in the order of the paper."""
        return ordered({*self.cells, *((record.model, record.layers) for record, _ in self.others)})

    def records(self) -> list[Record]:
        pairs = (*self.others, *self.rivals)
        return [*self.cells.values(), *(record for record, _ in pairs), *self.baselines]


def build(record: Record) -> Build:
    """What the model of a cell is built of."""
    if record.rival:
        return Build("rival", record.model, record.layers)
    return Build("one" if record.layers == 1 else record.cell["stack"], record.model, record.layers)


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


def widths(records: Sequence[Record]) -> tuple[int, int]:
    """The embed_dim and num_heads of a table's own setting: the paper does not give all, so those of most cells."""
    attention = [record for record in records if not record.rival] or records
    return Counter((record.cell["embed_dim"], record.cell.get("num_heads", 0)) for record in attention).most_common(1)[
        0
    ][0]


def setting(record: Record, widths: tuple[int, int]) -> dict[str, Any]:
    """The fields that differ from the table's own setting, whose embed_dim and num_heads are `widths`."""
    cell, sizes = record.cell, SIZES[record.group.task]
    own = {**OWN, "window": sizes.n, "embed_dim": widths[0], "num_heads": widths[1]}
    if record.landmarks is not None:
        own["landmarks"] = sizes.m
    differs = {name: cell[name] for name, value in own.items() if cell.get(name) is not None and cell[name] != value}
    if differs.get("pinv") == "ridge":
        differs["pinv_ridge"] = cell["pinv_ridge"]
    if "windows" in differs:  # the window is the largest of them
        differs.pop("window", None)
    return {name: value for name, value in differs.items() if not (record.rival and name in OF_ATTENTION)}


def describe(differs: Setting) -> str:
    """The difference from the table's own setting, in words."""
    words = []
    if EARLY.items() <= differs.items():
        words.append("landmarks fixed early")
        differs = {name: value for name, value in differs.items() if name not in EARLY}
    for name, value in differs.items():
        if name in LETTERS:
            words.append(f"{LETTERS[name]} = {value}")
        elif (name, value) == ("pinv", "ridge"):
            words.append(f"ridge, λ = {differs['pinv_ridge']:g}")
        elif name in ("num_heads", "stack"):
            words.append(f"{value} {name.removeprefix('num_')}")
        elif name == "windows":
            words.append(f"windows {'/'.join(map(str, value))}")
        elif name == "dropout":
            words.append(f"dropout {value:g}")
        elif name != "pinv_ridge":
            words.append(WORDS.get((name, value), f"{name} {value}"))
    return ", ".join(words) or OWN_WORDS


def _table(group: Group, records: Sequence[Record]) -> GroupTable:
    cells: dict[tuple[str, int], Record] = {}
    others: list[tuple[Record, Setting]] = []
    rivals: list[tuple[Record, Setting]] = []
    seen: dict[str, str] = {}
    trained = [record for record in records if "cell" in record.raw]
    for record in trained:
        differs = setting(record, widths(trained))
        key = f"{record.model} {record.layers} {sorted(differs.items())}"
        if key in seen:
            raise ValueError(f"{record.name} and {seen[key]} are records of the same cell; remove one of them")
        seen[key] = record.name
        if record.rival:
            rivals.append((record, differs))
        elif differs:
            others.append((record, differs))
        else:
            cells[record.model, record.layers] = record
    models = list(paper.MODELS)
    others.sort(key=lambda pair: (models.index(pair[0].model), pair[0].layers, pair[0].landmarks or 0, pair[0].name))
    rivals.sort(key=lambda pair: (pair[0].model, pair[0].layers, pair[0].name))
    baselines = [record for record in records if "baseline" in record.raw]
    baselines.sort(key=lambda record: record.score.mean, reverse=paper.METRICS[group.metric].higher)
    own = {key: cells[key] for key in ordered({*cells})}
    return GroupTable(group, own, tuple(others), tuple(rivals), tuple(baselines))
