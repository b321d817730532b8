"""Paired differences and their intervals."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from nystream.lab.reproduce.report.compare import comparisons, difference, headline
from nystream.lab.reproduce.report.grouping import tables
from nystream.lab.reproduce.report.numbers import over
from nystream.lab.reproduce.report.records import parse
from nystream.lab.reproduce.report.tables import further

fake = runpy.run_path(str(Path(__file__).with_name("fake_records.py")))


def record(values, runs, task="gtzan", **changes):
    raw = fake["cell"](task, **changes)
    scores = fake["scores"](list(values))
    metric = raw["metric"]
    raw |= {"metrics": {metric: scores}, "valid": {metric: scores}, "runs": [{"split": a, "seed": b} for a, b in runs]}
    return parse(raw, raw["name"])


GRID = [(split, seed) for split in range(3) for seed in range(2)]


@given(st.lists(st.floats(-1, 1), min_size=6, max_size=6), st.lists(st.floats(-1, 1), min_size=6, max_size=6))
def test_over_splits_after_averaging_seeds(one, other):
    found = difference(record(one, GRID), record(other, GRID))
    means = (np.array(one) - np.array(other)).reshape(3, 2).mean(1)
    assert (found.number, found.over, found.runs) == (3, "splits", 6)
    assert found.mean == pytest.approx(means.mean(), abs=1e-12)
    if means.std() > 1e-6:
        plain = stats.t.interval(0.95, 2, means.mean(), stats.sem(means))
        assert (found.mean - found.plain, found.mean + found.plain) == pytest.approx(plain, abs=1e-9)


@pytest.mark.parametrize(
    ("task", "part", "ratio"),
    [
        ("gtzan", "metrics", 100 / 720),
        ("gtzan", "valid", 180 / 720),
        ("thumos14", "metrics", 28 / 160),  # the 200 test videos are in all splits
        ("thumos14", "valid", 28 / 160),
    ],
)
def test_intervals_over_splits_that_share_training_data_are_corrected(task, part, ratio):
    values = np.random.default_rng(0).normal(size=6)
    found = difference(record(values, GRID, task), record([0.0] * 6, GRID, task), part=part)
    means = values.reshape(3, 2).mean(1)
    half = stats.t.ppf(0.975, 2) * means.std(ddof=1) * (1 / 3 + ratio) ** 0.5
    assert (found.low, found.high) == pytest.approx((means.mean() - half, means.mean() + half))
    assert found.plain < half
    assert over(found, task) == ("3 splits, one test set" if task == "thumos14" else "3 splits")


def test_the_verdict_is_that_of_the_corrected_interval():
    runs = [(split, 0) for split in range(5)]
    values = [1.0, 1.4, 0.2, 1.1, 0.1]
    found = difference(record(values, runs), record([0.0] * 5, runs))
    assert found.plain < found.mean
    assert found.low < 0
    assert found.verdict(True) == "no difference found"


def test_with_one_split_over_seeds():
    runs = [(0, seed) for seed in range(4)]
    found = difference(record([1, 2, 3, 4], runs), record([0, 0, 0, 0], runs))
    assert (found.mean, found.number, found.over) == (2.5, 4, "seeds")
    assert (found.low, found.high) == pytest.approx(stats.ttest_1samp([1, 2, 3, 4], 0).confidence_interval(0.95))
    assert found.plain == pytest.approx(found.high - found.mean)  # nothing to correct


def test_only_runs_that_both_have_count():
    found = difference(record([1, 5, 9], [(0, 0), (0, 1), (0, 2)]), record([8, 4], [(0, 2), (0, 1)]))
    assert (found.mean, found.number) == (1.0, 2)
    assert difference(record([1], [(0, 0)]), record([1], [(1, 0)])) is None


def test_a_baseline_stands_for_all_seeds_of_its_split():
    other = record([0.5, 1.0], [(0, None), (1, None)])
    found = difference(record([1, 2, 3, 4], [(0, 0), (0, 1), (1, 0), (1, 1)]), other)
    assert (found.mean, found.number, found.over) == (1.75, 2, "splits")


@pytest.mark.parametrize(
    ("values", "higher", "verdict"),
    [
        ([1.0, 1.1, 0.9], True, "better"),
        ([1.0, 1.1, 0.9], False, "worse"),
        ([-1.0, -1.1, -0.9], True, "worse"),
        ([-1.0, -1.1, -0.9], False, "better"),
        ([1.0, -1.0, 0.2], True, "no difference found"),
        ([0.0, 0.0, 0.0], True, "the same"),
        ([0.5, 0.5, 0.5], True, "better"),
        ([1.0], True, "one seed only"),
    ],
)
def test_verdicts(values, higher, verdict):
    runs = [(0, seed) for seed in range(len(values))]
    found = difference(record(values, runs), record([0.0] * len(values), runs))
    assert found.verdict(higher) == verdict
    assert (found.low is None) == (len(values) == 1)


def test_rounding_is_no_difference():
    runs = [(0, seed) for seed in range(3)]
    other = record([0.6, 0.5, 0.4], runs)
    assert difference(record([0.6 + 2e-7, 0.5 + 3e-7, 0.4 + 2.5e-7], runs), other).verdict(True) == "the same"
    assert difference(record([0.6 + 2e-4, 0.5 + 3e-4, 0.4 + 2.5e-4], runs), other).verdict(True) == "better"


def test_every_question_is_asked():
    gtzan, *_ = tables([parse(one, one["name"]) for one in fake["everything"]()])
    found = comparisons(gtzan)
    labels = {(one.part, one.label) for one in found}
    assert {
        ("models", "CoNy-Fix − Co, 1 block"), ("models", "CoNy-Cont − Co, 2 blocks"), ("models", "Ny − Att, 1 block"),
        ("models", "Ny-Fix − Att, 2 blocks"), ("models", "Co − Att, 1 block"), ("models", "CoNy-Cont − Ny, 1 block"),
        ("models", "CoNy-Fix − Ny-Fix, 2 blocks"), ("models", "CoNy-Fix, 2 blocks − 1"),
        ("baseline", "CoNy-Fix − baseline, 1 block"), ("setting", "learned landmarks"),
        ("setting", "distilled from full attention"), ("setting", "ridge, λ = 0.01"), ("landmarks", "m = 16"),
    } <= labels  # fmt: skip
    assert [one.label for one in headline(found)] == [
        "CoNy-Fix − Co, 1 block", "CoNy-Fix, distilled − Co, 1 block", "CoNy-Cont − Co, 1 block",
        "CoNy-Fix − Co, 2 blocks", "CoNy-Fix, distilled − Co, 2 blocks", "CoNy-Cont − Co, 2 blocks",
    ]  # fmt: skip
    # Baselines are not scored on validation data.
    assert all((one.valid is None) == ("baseline" in one.second.raw) for one in found)
    (distilled,) = (one for one in found if one.label.startswith("distilled") and one.kind == "CoNy-Fix, 1 block")
    assert distilled.verdict == "better"


def test_unequal_budgets_are_said():
    records = [fake["cell"](model="co-full-single", epochs=20), fake["cell"](epochs=30)]
    (table,) = tables([parse(one, one["name"]) for one in records])
    (one,) = comparisons(table)
    assert one.budgets == "30 against 20 epochs"


def test_as_many_epochs_of_other_updates_are_said():
    phase = {"epochs": 10, "steps_per_epoch": 25, "batch_size": 8}
    one, two = fake["cell"](), fake["cell"](layers=2)
    one["training"]["phases"] = [phase | {"epochs": 20}, phase]
    two["training"]["phases"] = [phase | {"epochs": 30, "steps_per_epoch": 40, "batch_size": 256}]
    (table,) = tables([parse(record, record["name"]) for record in (one, two)])
    found, *_ = comparisons(table)
    assert found.budgets == "1200 updates of 256 against 750 of 8"
    two["training"]["phases"] = [phase | {"epochs": 30}]
    (table,) = tables([parse(record, record["name"]) for record in (one, two)])
    assert comparisons(table)[0].budgets == ""


def test_a_second_metric_is_compared_with_full_attention():
    full, low = fake["cell"]("thumos14", "co-full-single"), fake["cell"]("thumos14", "co-fixed-single")
    values = [value - 0.01 * (i + 1) for i, value in enumerate(full["metrics"]["cmap"]["values"])]
    low["metrics"]["cmap"] = fake["scores"](values)
    (table,) = tables([parse(record, record["name"]) for record in (full, low)])
    rows = {row.cells[0]: row.cells for row in further(table, "cmap").rows if row.cells[1] == "1"}
    assert rows["CoNy-Fix"][-2].startswith("−")
    assert " to −" in rows["CoNy-Fix"][-2]
    assert " to +" in rows["CoNy-Fix"][-1]  # corrected
    assert rows["Co"][-2:] == rows["CoNy-Cont"][-2:] == ("–", "–")  # nothing to compare with, and not run
