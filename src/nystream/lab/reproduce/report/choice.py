"""Choices by validation score, which are fair to records with different numbers of runs.

Splits differ in how hard they are, so a score is compared over whole splits: the seeds of each are averaged, and a
record that lacks some of the splits is not compared with those that have them all. With one split, the same holds for
its seeds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from nystream.lab.reproduce.report.records import Record, RunKey


def independent(runs: Sequence[RunKey], values: Sequence[float]) -> tuple[str, list[float]]:
    """The values that do not share a split, and what they are over: "splits", or "seeds" if there is one split."""
    by_split: dict[int | None, list[float]] = {}
    for run, value in zip(runs, values, strict=True):
        by_split.setdefault(run.split, []).append(value)
    if len(by_split) > 1:
        return "splits", [fmean(of_split) for of_split in by_split.values()]
    return "seeds", list(values)


def best(records: Sequence[Record], higher: bool) -> Record:
    """The record with the best validation score among those with the most splits; the first of several."""
    sign = 1 if higher else -1
    return max(_comparable(records), key=lambda record: sign * valid_mean(record))


def valid_mean(record: Record) -> float:
    """The validation score, with the same weight for every split."""
    return fmean(independent(record.runs, record.valid[record.metric].values)[1])


def _comparable(records: Sequence[Record]) -> Iterator[Record]:
    several = any(len({run.split for run in record.runs}) > 1 for record in records)
    units = [{run.split if several else run.seed for run in record.runs} for record in records]
    most = max(units, key=len)
    return (record for record, own in zip(records, units, strict=True) if own >= most)
