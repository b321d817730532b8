"""One block, deep stacks, the paper's stack and rivals side by side."""

import re
import runpy
from pathlib import Path

import pytest

from nystream.lab.reproduce.report import markdown, plots, readme, stacks
from nystream.lab.reproduce.report.choice import best
from nystream.lab.reproduce.report.compare import comparisons, headline
from nystream.lab.reproduce.report.document import Grid
from nystream.lab.reproduce.report.grouping import tables
from nystream.lab.reproduce.report.records import parse
from nystream.lab.reproduce.report.sections import document, sentence
from nystream.lab.reproduce.report.stack_table import grid

fake = runpy.run_path(str(Path(__file__).with_name("fake_records.py")))
cell, baseline, beyond_the_paper = fake["cell"], fake["baseline"], fake["beyond_the_paper"]
OWN = "the table's own"


def parsed(raw):
    return [parse(one, one["name"]) for one in raw]


def only(raw):
    (table,) = tables(parsed(raw))
    return table


def paper(task="gtzan", depths=(1, 2), **runs):
    return [cell(task, model, layers, **runs) for model in fake["MODELS"] for layers in depths]


def scored(valid, runs=None, test=None, **options):
    """A cell with these scores on validation and test data, one for each (split, seed)."""
    raw = cell(**options)
    runs = runs or [(split, 0) for split in range(len(valid))]
    raw["runs"] = [{"split": split, "seed": seed} for split, seed in runs]
    raw["valid"] = {raw["metric"]: fake["scores"](list(valid))}
    raw["metrics"] = {raw["metric"]: fake["scores"](list(test or valid))}
    return raw


def rows(part):
    """The rows beneath each heading, as columns by name."""
    found = {}
    for row in part.rows:
        if row.heading:
            of_kind = found.setdefault(row.cells[0].partition(":")[0], [])
        else:
            of_kind.append(dict(zip((column.name for column in part.columns), row.cells, strict=True)))
    return found


@pytest.fixture(scope="module")
def gtzan():
    return only([*paper(), *beyond_the_paper(), baseline("gtzan", "logistic regression", 0.54, splits=5)])


def test_every_kind_is_beneath_its_heading(gtzan):
    found = {
        kind: [(row["model"], row["depth"], row["setting"]) for row in of_kind]
        for kind, of_kind in rows(grid(gtzan)).items()
    }
    assert list(found) == [
        "One block", "Deep stacks", "The paper's stack", "Recurrent networks of the same width", "Best baseline",
    ]  # fmt: skip
    families = ("Co", "CoNy-Cont", "CoNy-Fix")
    assert [row for row in found["One block"] if row[2] == OWN] == [(name, "1", OWN) for name in families]
    assert found["The paper's stack"] == [(name, "2", OWN) for name in families]
    deep = found["Deep stacks"]
    assert [row for row in deep if row[2] == OWN] == [(name, depth, OWN) for depth in "246" for name in families]
    # Of other settings, decay alone and the one with the best validation score are shown.
    assert {(name, "2", "with decay") for name in families} <= set(deep)
    assert ("CoNy-Fix", "4", "with decay, windows 16/32/64/256") in deep
    recurrent = [row for row in found["Recurrent networks of the same width"] if row[2] == OWN]
    assert recurrent == [(name, layers, OWN) for name in ("GRU", "LSTM") for layers in "12"]
    assert found["Best baseline"] == [("logistic regression", "", "")]


def test_the_numbers_of_a_row():
    raw = cell(model="gru", layers=2)
    raw["step"] |= {"median_microseconds": 29.5, "torch": {"median_microseconds": 81.25}}
    raw["operations"]["model"], raw["bytes_per_stream"] = 443_210.0, 1536
    raw["training"] |= {"parameters": 623_000, "seconds": 198.0}
    found = rows(grid(only([*paper(), raw])))
    (row,) = found["Recurrent networks of the same width"]
    assert row["µs per step"] == "29.5 (81.2)"
    assert row["multiply-adds, M"] == "0.443"
    assert row["kB per stream"] == "1.54"
    assert (row["parameters, M"], row["training, min"], row["runs"]) == ("0.623", "3.3", "25")
    # The fastest stack of the paper takes 2 · 50 · 12.3 µs in these records.
    assert row["times faster"] == "×41.7"
    assert found["One block"][0]["multiply-adds, M"] == "–"


def test_the_version_of_onnxruntime_is_a_source():
    raw = cell(model="gru")
    raw["step"]["version"] = "1.99.0"
    page = markdown.render(document(parsed([cell(), raw])))
    assert "- timed at 0123456 on 2 cores of Imaginary CPU, torch 9.9.9, onnxruntime 1.99.0, python 3.99.0:" in page
    assert page.count("- timed at ") == 2


def test_the_best_validation_score_is_chosen_not_the_best_test_score():
    splits = {"stack": "deep", "layers": 2}
    table = only([
        scored([0.5, 0.5], test=[0.9, 0.9]),
        scored([0.6, 0.6], test=[0.1, 0.1], suffix="-deep", **splits),
        scored([0.7, 0.7], layers=2),
        scored([0.8, 0.8], model="gru"),
        scored([0.9, 0.9], model="co-full-single"),
    ])  # fmt: skip
    found = [row for of_kind in rows(grid(table)).values() for row in of_kind]
    assert [row["model"] for row in found if row["validation, %"].startswith("**")] == ["Co"]
    # A stack that recomputes its window, a rival and full attention are not chosen, however good they are.
    assert [row["test, %"] for row in found if row[""] == "chosen"] == ["10.00 ± 0.00"]


def test_where_lower_is_better_the_lowest_is_chosen():
    table = only([
        scored([0.2], task="electricity"),
        scored([0.1], task="electricity", layers=2, stack="deep", suffix="-deep"),
        scored([0.05], task="electricity", model="gru"),
    ])  # fmt: skip
    assert stacks.chosen(table).layers == 2
    assert stacks.best_of(table).model == "gru"


def test_a_record_with_fewer_splits_is_not_chosen_over_others():
    whole = scored([0.5, 0.6, 0.7])
    easy = scored([0.9], suffix="-decay", decay=True)
    more_seeds = scored([0.5, 0.9, 0.5, 0.6], [(0, 0), (0, 1), (1, 0), (2, 0)], suffix="-exact", pinv="exact")
    records = parsed([whole, easy, more_seeds])
    # Over splits, the last has 0.7, 0.5 and 0.6 and the first the same in another order; the first of equals is taken.
    assert best(records, True) is records[0]
    assert best(records[1:], True) is records[2]
    assert best(records[1:2], True) is records[1]


def test_with_one_split_a_record_with_fewer_seeds_is_not_chosen():
    one, all_seeds = scored([0.9], [(0, 0)]), scored([0.5, 0.6], [(0, 0), (0, 1)], suffix="-exact", pinv="exact")
    assert best(parsed([one, all_seeds]), True).name == all_seeds["name"]


def test_the_chosen_is_compared_with_the_best_of_each_kind(gtzan):
    stacks = [item for item in comparisons(gtzan) if item.part == "stacks"]
    found = [item for item in stacks if item.label.startswith("chosen")]
    assert {item.kind for item in found} == {"chosen: CoNy-Fix, deep stack of 4, with decay, windows 16/32/64/256"}
    others = [item.label.removeprefix("one block − ") for item in stacks if item not in found]
    assert [name.split(",")[0] for name in others] == ["GRU", "LSTM", "Co", "Co", "Co"]
    labels = [item.label.removeprefix("chosen − ") for item in found]
    kinds = ("GRU", "LSTM", "CoNy", "CoNy", "Co, 1 block", "Co, deep stack of", "Co, paper stack of 2", "logistic")
    assert len(labels) == len(kinds)
    assert all(label.startswith(kind) for label, kind in zip(labels, kinds, strict=True))
    assert "1 block" in labels[2]
    assert "paper stack of 2" in labels[3]
    assert [item.valid is None for item in found] == [False] * 7 + [True]  # a baseline has no validation scores


def test_with_different_numbers_of_runs_the_common_ones_are_paired():
    table = only([*paper(seeds=5), cell(model="gru", seeds=1), scored([0.9] * 5, layers=2, stack="deep", suffix="-d")])
    gru = next(item for item in comparisons(table) if "GRU" in item.label)
    assert (gru.difference.runs, gru.difference.number, gru.difference.over) == (5, 5, "splits")
    column = {row["model"]: row["runs"] for of_kind in rows(grid(table)).values() for row in of_kind}
    assert (column["GRU"], column["CoNy-Fix"]) == ("5", "25")


def test_the_chosen_is_not_compared_with_itself():
    table = only([*paper(), scored([0.9] * 5, suffix="-decay", decay=True), cell(model="gru")])
    labels = [item.label for item in comparisons(table) if item.part == "stacks"]
    assert not [label for label in labels if "CoNy" in label and "1 block" in label]


def test_deep_stacks_are_compared_with_each_other(gtzan):
    found = {(item.kind, item.label) for item in comparisons(gtzan)}
    assert {
        ("low rank against full attention", "CoNy-Fix − Co, deep stack of 4"),
        ("deep stack against one block", "CoNy-Fix, deep stack of 4 − 1 block"),
        ("deep stack against the paper's", "Co, deep − paper stack of 2"),
        ("CoNy-Fix, deep stack of 2", "attention transfer, landmarks of all blocks at once"),
        ("GRU, 1 layer", "dropout 0.5"),
        ("Co, 1 block", "distilled from full attention"),
    } <= found


def test_the_summary_names_the_chosen_once(gtzan):
    page = markdown.render(document(parsed(one.raw for one in gtzan.records())))
    summary = page.partition("\n## ")[0]
    assert summary.count("**Chosen: CoNy-Fix, deep stack of 4, with decay, windows 16/32/64/256**") == 1
    assert summary.count("| chosen − ") == 8
    line = next(sentence(item) for item in headline(comparisons(gtzan)) if "GRU" in item.label)
    assert line.startswith("chosen: CoNy-Fix, deep stack of 4, with decay, windows 16/32/64/256 − GRU, ")
    assert re.search(r"\(\S+ to \S+, corrected \S+ to \S+, over 5 splits\)", line)


def grids(records):
    page = document(records)
    sections = [inner for section in page.sections for inner in (section, *section.sections)]
    return {part.title: part for section in sections for part in section.parts if isinstance(part, Grid)}


def test_rivals_and_deep_stacks_change_no_table_of_the_paper():
    old = fake["everything"]()
    new = [one for task in fake["METRIC"] for one in beyond_the_paper(task, splits=1, seeds=3)]
    before, after = grids(parsed(old)), grids(parsed([*old, *new]))
    assert set(before) <= set(after) | {title for title in before if title.endswith(": stacks")}
    changing = ("stacks", "differences", "chosen", "settings")
    compared = [title for title in before if not any(word in title for word in changing)]
    assert len(compared) >= 10
    assert all(before[title] == after[title] for title in compared)
    for title in (title for title in before if title.endswith("paired differences")):
        assert set(before[title].rows) <= set(after[title].rows)


def test_with_the_papers_models_alone_nothing_else_is_said():
    records = parsed(fake["everything"]())
    page = markdown.render(document(records))
    assert not [word for word in ("GRU", "LSTM", "rivals", "deep stack", "decay", "onnxruntime") if word in page]
    assert "GTZAN, music genres: stacks**" in page
    assert "| chosen − " not in page.partition("\n## ")[0]
    electricity = [one for one in records if one.group.task == "electricity"]
    assert "stacks" not in markdown.render(document(electricity))  # one block alone


@pytest.mark.parametrize("with_paper", [True, False])
def test_without_times_there_is_no_plot(with_paper):
    raw = [*(paper(timed=False) if with_paper else []), *beyond_the_paper(timed=False)]
    for one in raw:
        one["step"] = None
    table = only(raw)
    assert "gtzan-stacks" not in plots.drawable(table)
    found = [row for of_kind in rows(grid(table)).values() for row in of_kind]
    assert {row["µs per step"] for row in found} == {"–"}
    assert "times faster" not in found[0]
    assert all((row["kB per stream"] == "–") == (row["model"] not in ("GRU", "LSTM")) for row in found)
    assert "| – |" in readme.results(parsed(raw))


def test_models_without_a_time_are_left_out_of_the_plot():
    raw = [*paper(), cell(model="gru", timed=False), cell(model="lstm")]
    names = [point.record.label for point in plots.stack_plot.points(only(raw))]
    assert "LSTM" in names
    assert "GRU" not in names


def test_a_baseline_far_away_is_named_instead_of_drawn():
    raw = [*paper(), *beyond_the_paper()]
    near, far = (only([*raw, baseline("gtzan", "a coin", value, splits=5)]) for value in (0.55, 0.01))
    assert "Dotted: a coin." in plots.drawable(near)["gtzan-stacks"].caption
    assert "Out of sight: a coin, 1.20 ± 0.16." in plots.drawable(far)["gtzan-stacks"].caption


def test_the_readme_has_one_row_for_each_kind():
    raw = [one for task in fake["METRIC"] for one in (*paper(task, (1,)), *beyond_the_paper(task))]
    raw += [cell("gtzan", model, 2) for model in fake["CONTINUAL"]]
    raw.append(baseline("gtzan", "logistic regression", 0.54, splits=5))
    raw += [cell("electricity", tokens="lags", suffix="-lags")]
    page = readme.results(parsed(raw))
    lines = page.splitlines()
    assert lines[0].count("µs per step") == 3
    assert [line.split(" | ")[0].removeprefix("| ") for line in lines[2:8]] == [
        "low rank, one block", "low rank, deep stack", "low rank, the paper's stack", "full attention, best stack",
        "GRU", "best baseline",
    ]  # fmt: skip
    assert [line.count("**") for line in lines[2:8]] == [2, 4, 0, 0, 0, 0]  # a chosen model for each task
    assert lines[4].count("–") == 2 * 2  # the other two tasks have no stack of the paper
    assert "lags" not in page  # those tokens have fewer kinds of models
    assert "MSE: lower is better." in lines[-1]
    assert "Best baseline: logistic regression." in lines[-1]


def test_the_readme_says_what_differs_between_rows():
    raw = [*paper(), *beyond_the_paper(), cell(distilled=True, shift=1.0, suffix="-distilled")]
    few = cell("gtzan", "co-full-single", splits=5, seeds=1, suffix="-better", decay=True, shift=1.0)
    for one in raw:
        if one["cell"]["layers"] > 1 and one["cell"]["stack"] == "paper" and one["cell"]["model"] not in fake["RIVALS"]:
            one["step"]["backend"] = "torch"
    page = readme.results(parsed([*raw, few]))
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in page.splitlines()}
    assert [name for name, row in rows.items() if row.endswith(" ᵒ |")] == ["GRU"]
    assert [name for name, row in rows.items() if row.endswith(" ᵗ |")] == ["low rank, the paper's stack"]
    assert [name for name, row in rows.items() if " †" in row and name.startswith("low")] == ["low rank, one block"]
    assert "†: learned from a teacher" in page
    assert "Runs on GTZAN: 25, 5 for full attention, best stack." in page
