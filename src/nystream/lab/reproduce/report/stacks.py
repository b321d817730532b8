"""One block, deep stacks, the paper's stack and rivals side by side: what is shown, and which model is chosen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nystream.lab.reproduce import paper
from nystream.lab.reproduce.cells import FULL, TWINS
from nystream.lab.reproduce.report.choice import best
from nystream.lab.reproduce.report.grouping import STACKS, Build, GroupTable, Setting, build, describe
from nystream.lab.reproduce.report.records import Record

CHOSEN, ONE = "chosen", "one block"
DECAY = {"decay": True}
CONTINUAL = tuple(TWINS.values())  # a plain model has the scores of its continual twin, at a higher cost
LOW_RANK = tuple(model for model in CONTINUAL if model not in FULL)
FULL_RANK = tuple(model for model in CONTINUAL if model in FULL)
STREAMING = ("one", "deep")  # stacks in which every block streams

Entry = tuple[Record, Setting]


def entries(table: GroupTable) -> dict[Build, list[Entry]]:
    """The records that are compared: continual models and rivals, by what they are built of."""
    return {key: pairs for key, pairs in table.builds.items() if key.model in CONTINUAL or key.stack == "rival"}


def several(table: GroupTable) -> bool:
    """Whether there is something to compare: several kinds of stacks, or rivals."""
    return len({key.stack for key in entries(table)}) > 1


def title(table: GroupTable) -> str:
    return "stacks and rivals" if table.rivals else "stacks"


def shown(pairs: Sequence[Entry], higher: bool) -> list[Entry]:
    """Of the records of one build: the table's own setting, the same with decay, and the one with the best validation
    score."""
    first = best([record for record, _ in pairs], higher)
    return [pair for pair in pairs if pair[1] in ({}, DECAY) or pair[0] is first]


def best_of(
    table: GroupTable, stacks: Sequence[str] = STACKS, models: Sequence[str] = (*CONTINUAL, *paper.RIVALS)
) -> Record | None:
    """The record of these stacks and models with the best validation score; by default, of all."""
    found = [
        record
        for key, pairs in entries(table).items()
        if key.stack in stacks and key.model in models
        for record, _ in pairs
    ]
    return best(found, table.metric.higher) if found else None


def chosen(table: GroupTable) -> Record | None:
    """The low-rank model with the best validation score among those in which every block streams."""
    return best_of(table, STREAMING, LOW_RANK)


def pairs(table: GroupTable) -> Iterator[tuple[str, str, Record, Record]]:
    """The chosen model and the best of each other kind, as (kind, label, first, second); the kind names the model.

    If the chosen model is a stack, the best one block, whose step is the fastest, is compared with the others too.
    """
    first, one = chosen(table), best_of(table, ("one",), LOW_RANK)
    if first is None or not several(table):
        return
    rivals = [best_of(table, ("rival",), (rival,)) for rival in ("gru", "lstm")]
    full = [best_of(table, (stack,), FULL_RANK) for stack in ("one", "deep", "paper")]
    baseline = table.baselines[:1]  # the best by test score, which favours the baseline
    others = {CHOSEN: (first, [*rivals, one, best_of(table, ("paper",), LOW_RANK), *full, *baseline])}
    if one is not None and one is not first:
        others[ONE] = one, [*rivals, *full]
    for short, (ours, seconds) in others.items():
        for second in seconds:
            if second is not None and second is not ours:
                yield f"{short}: {name(table, ours)}", f"{short} − {name(table, second)}", ours, second


def name(table: GroupTable, record: Record) -> str:
    """What a model is built of, and its setting unless it is the table's own."""
    if "baseline" in record.raw:
        return record.label
    key = build(record)
    differs = next(differs for other, differs in table.builds[key] if other is record)
    return f"{key.label}, {describe(differs)}" if differs else key.label


def beyond_paper(record: Record) -> bool:
    """Whether the paper has no such model: deep stacks and rivals."""
    return "cell" in record.raw and build(record).stack in ("deep", "rival")
