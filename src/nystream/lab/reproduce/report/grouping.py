"""Records by the table they belong to, and what sets each apart from the table's own setting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nystream.costs.tables import SIZES
from nystream.lab.reproduce import paper
from nystream.lab.reproduce.report.records import Group, Record

# What the table's own setting has; another value makes a sweep or an ablation.
OWN = {"pinv": "newton", "method": "qk", "learned": False, "distilled": False, "stack": "paper"}
LETTERS = {"landmarks": "m", "window": "n", "embed_dim": "d"}
PINV = {"exact": "exact inverse", "ridge": "ridge", "none": "no inverse", "newton": "Newton–Schulz"}


@dataclass(frozen=True)
class GroupTable:
    """The records of one group, told apart: the table's own cells, sweeps over m, ablations, baselines."""

    group: Group
    cells: Mapping[tuple[str, int], Record]  # by (model, layers)
    others: tuple[tuple[Record, Mapping[str, Any]], ...]  # with what differs
    baselines: tuple[Record, ...]  # the best first

    @property
    def metric(self) -> paper.Metric:
        return paper.METRICS[self.group.metric]

    def sweep(self, model: str, layers: int) -> dict[int, Record]:
        """By m, the table's own among them."""
        found = {
            one.landmarks: one
            for one, differs in self.others
            if (one.model, one.layers) == (model, layers) and set(differs) == {"landmarks"}
        }
        own = self.cells.get((model, layers))
        if own is not None:
            found[own.landmarks] = own
        return {m: found[m] for m in sorted(m for m in found if m is not None)}

    def distilled(self, model: str, layers: int) -> Record | None:
        """The cell that learned from full attention and is the table's own in all else."""
        same = (one for one in self.others if (one[0].model, one[0].layers) == (model, layers))
        return next((one for one, differs in same if differs == {"distilled": True}), None)

    def ablations(self) -> list[tuple[Record, Mapping[str, Any]]]:
        return [(one, differs) for one, differs in self.others if set(differs) != {"landmarks"}]

    def swept(self) -> list[tuple[Record, Mapping[str, Any]]]:
        return [(one, differs) for one, differs in self.others if set(differs) == {"landmarks"}]

    def records(self) -> list[Record]:
        return [*self.cells.values(), *(one for one, _ in self.others), *self.baselines]


def tables(records: Sequence[Record]) -> list[GroupTable]:
    """The records by group: the paper's three tables first, in its order, each followed by its further ones."""
    order = list(paper.TASKS)
    groups = {one.group for one in records if "cell" in one.raw} or {one.group for one in records}
    return [
        _table(group, [one for one in records if one.group == group or _serves(one, group)])
        for group in sorted(groups, key=lambda group: (order.index(group.task), bool(group.extra), group.extra))
    ]


def _serves(record: Record, group: Group) -> bool:
    """A baseline that names no tokens stands beneath every table of its task and splits."""
    return "tokens" not in record.raw.get("baseline", {"tokens": ""}) and record.group[:2] == group[:2]


def setting(record: Record, widths: tuple[int, int]) -> dict[str, Any]:
    """What differs from the table's own setting, whose embed_dim and num_heads are `widths`."""
    cell, sizes = record.cell, SIZES[record.group.task]
    own = {**OWN, "window": sizes.n, "embed_dim": widths[0], "num_heads": widths[1]}
    if record.landmarks is not None:
        own["landmarks"] = sizes.m
    found = {name: cell[name] for name, value in own.items() if cell[name] != value}
    if found.get("pinv") == "ridge":
        found["pinv_ridge"] = cell["pinv_ridge"]
    return found


def say(differs: Mapping[str, Any]) -> str:
    """What differs from the table's own setting, in words."""
    words = []
    for name, value in differs.items():
        if name == "pinv":
            ridge = differs.get("pinv_ridge")
            words.append(f"ridge, λ = {ridge:g}" if ridge is not None else PINV.get(value, f"pinv {value}"))
        elif name == "method":
            words.append("centres of the inputs, projected" if value == "x" else f"method {value}")
        elif name in LETTERS:
            words.append(f"{LETTERS[name]} = {value}")
        elif name == "num_heads":
            words.append(f"{value} heads")
        elif name == "stack":
            words.append(f"{value} stack")
        elif name in ("learned", "distilled"):
            words.append({"learned": "learned landmarks", "distilled": "distilled from full attention"}[name])
    return ", ".join(words) or "the table's own"


def _table(group: Group, records: Sequence[Record]) -> GroupTable:
    cells: dict[tuple[str, int], Record] = {}
    others: list[tuple[Record, Mapping[str, Any]]] = []
    seen: dict[str, str] = {}
    trained = [one for one in records if "cell" in one.raw]
    # The paper does not give every width, so the table's own is the one that most of its cells have.
    widths = Counter((one.cell["embed_dim"], one.cell["num_heads"]) for one in trained)
    for one in trained:
        differs = setting(one, widths.most_common(1)[0][0])
        key = f"{one.model} {one.layers} {sorted(differs.items())}"
        if key in seen:
            raise ValueError(f"{one.name} and {seen[key]} are records of the same cell; remove one of them")
        seen[key] = one.name
        if differs:
            others.append((one, differs))
        else:
            cells[one.model, one.layers] = one
    models = list(paper.MODELS)
    others.sort(key=lambda pair: (models.index(pair[0].model), pair[0].layers, pair[0].landmarks or 0, pair[0].name))
    ordered = {key: cells[key] for key in sorted(cells, key=lambda key: (models.index(key[0]), key[1]))}
    baselines = [one for one in records if "baseline" in one.raw]
    baselines.sort(key=lambda one: one.score.mean, reverse=paper.METRICS[group.metric].higher)
    return GroupTable(group, ordered, tuple(others), tuple(baselines))
