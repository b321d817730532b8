"""Records are read, checked and grouped."""

import copy
import json
import runpy
from pathlib import Path

import pytest

from nystream.lab.reproduce.report.grouping import describe, tables
from nystream.lab.reproduce.report.records import parse, read

fake = runpy.run_path(str(Path(__file__).with_name("fake_records.py")))
cell, baseline = fake["cell"], fake["baseline"]


def parsed(*raw):
    return [parse(one, one["name"]) for one in raw]


def test_a_folder_with_other_files(tmp_path):
    fake["write"](tmp_path, [cell(), baseline("gtzan", "a coin", 0.1)])
    (tmp_path / "bench.json").write_text('{"command": "nystream bench"}')
    (tmp_path / "list.json").write_text("[1, 2]")
    (tmp_path / "notes.txt").write_text("no JSON")
    assert [one.name for one in read(tmp_path)] == ["gtzan-1-co-fixed", "gtzan-baseline-a-coin-splits"]


@pytest.mark.parametrize("make", [lambda path: None, lambda path: path.mkdir()])
def test_without_results_the_command_that_makes_some_is_named(tmp_path, make):
    make(tmp_path / "results")
    with pytest.raises((FileNotFoundError, ValueError), match="nystream reproduce"):
        read(tmp_path / "results")


def test_a_file_that_is_no_json_is_named(tmp_path):
    (tmp_path / "half.json").write_text('{"cell": ')
    with pytest.raises(ValueError, match=r"half\.json is not JSON"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda raw: raw.pop("metrics"), "x has no 'metrics'"),
        (lambda raw: raw.pop("step"), "x has no 'step'"),
        (lambda raw: raw["cell"].pop("layers"), "x: cell has no 'layers'"),
        (lambda raw: raw["cell"].update(model="gpt"), "x: cell: model must be one of full, .*, got 'gpt'"),
        (lambda raw: raw["cell"].update(layers="two"), "x: cell: layers must be int, got 'two'"),
        (lambda raw: raw["cell"].update(learned=1), "x: cell: learned must be bool, got 1"),
        (lambda raw: raw["operations"].pop("corrected"), "x: operations has no 'corrected'"),
        (lambda raw: raw["step"].pop("relative"), "x: step has no 'relative'"),
        (lambda raw: raw["metrics"]["accuracy"]["values"].pop(), "accuracy has 24 values for 25 runs"),
        (lambda raw: raw["metrics"]["accuracy"].update(mean=float("nan")), "accuracy: mean must be float, got nan"),
        (lambda raw: raw["metrics"]["accuracy"].update(mean=0.9), "accuracy: mean is 0.9, but that of its values is"),
        (lambda raw: raw["metrics"]["accuracy"].update(std=0.0), "accuracy: std is 0.0, but that of its values is"),
        (lambda raw: raw["valid"].pop("accuracy"), "x: valid has no 'accuracy'"),
        (lambda raw: raw.update(runs=[]), "x: runs is empty"),
        (lambda raw: raw["runs"].__setitem__(0, raw["runs"][1]), "a split and seed twice"),
        (lambda raw: raw.update(metric="mse"), "metric must be 'accuracy' for gtzan, got 'mse'"),
        (lambda raw: raw.update(training=None), "x: training must be dict, got None"),
        (lambda raw: raw["training"].update(phases=[3]), "x: training: a phase must be an object, got 3"),
        (lambda raw: raw["cell"].update(decay=0.5), "x: cell: decay must be bool, got 0.5"),
        (lambda raw: raw["cell"].update(windows=[16, "all"]), r"x: cell: windows must be a list .*, got \[16, 'all'\]"),
        (lambda raw: raw["cell"].update(dropout="high"), "x: cell: dropout must be float, got 'high'"),
        (lambda raw: raw["operations"].update(model="few"), "x: operations: model must be float, got 'few'"),
    ],
)
def test_a_bad_field_is_named(change, said):
    raw = copy.deepcopy(cell())
    change(raw)
    with pytest.raises(ValueError, match=said):
        parse(raw, "x")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda raw: raw["cell"].update(landmarks=4), "x: cell: landmarks must be null for 'gru', got 4"),
        (lambda raw: raw["cell"].pop("embed_dim"), "x: cell has no 'embed_dim'"),
        (lambda raw: raw["operations"].pop("model"), "x: operations has no 'model'"),
        (lambda raw: raw["step"].pop("backend"), "x: step has no 'backend'"),
        (lambda raw: raw["step"].update(torch={}), "x: step: torch has no 'median_microseconds'"),
    ],
)
def test_a_bad_field_of_a_rival_is_named(change, said):
    raw = copy.deepcopy(cell(model="gru"))
    change(raw)
    with pytest.raises(ValueError, match=said):
        parse(raw, "x")


def test_a_baseline_is_checked_too():
    raw = baseline("gtzan", "a coin", 0.1)
    del raw["baseline"]["protocol"]
    with pytest.raises(ValueError, match="x: baseline has no 'protocol'"):
        parse(raw, "x")


def test_one_run_has_no_deviation():
    raw = cell(splits=1, seeds=1)
    for std in (None, 0.0):
        raw["metrics"]["accuracy"]["std"] = std
        assert parse(raw, "x").score.std is None


def test_everything_falls_into_its_table():
    found = tables(parsed(*fake["everything"]()))
    assert [one.group.slug for one in found] == [
        "gtzan", "gtzan-filtered", "thumos14", "electricity", "electricity-lags",
    ]  # fmt: skip
    gtzan, filtered, thumos14, electricity, lags = found
    assert [len(one.cells) for one in found] == [12, 3, 12, 6, 5]
    assert [len(one.baselines) for one in found] == [1, 1, 0, 4, 4]
    assert [one.label for one in electricity.baselines] == ["ridge", "a week ago", "persistence", "a day ago"]
    assert list(gtzan.sweep("co-fixed-single", 2)) == [2, 4, 8, 16, 32]
    assert not filtered.sweep("full", 1)
    assert len(gtzan.others) == len(thumos14.others) == 4 * 2 * 4 + 12  # other m, other settings
    assert not lags.others


def test_a_baseline_that_names_its_tokens_is_beneath_those_alone():
    raw = baseline("electricity", "ridge", 0.1)
    raw["baseline"]["tokens"] = "lags"
    found = tables(parsed(cell("electricity"), cell("electricity", tokens="lags", suffix="-lags"), raw))
    assert [len(one.baselines) for one in found] == [0, 1]


def test_settings_in_words():
    changes = [
        ({"pinv": "ridge", "pinv_ridge": 0.03}, "ridge, λ = 0.03"),
        ({"pinv": "exact", "landmarks": 8}, "exact inverse, m = 8"),
        ({"pinv": "none", "method": "x"}, "no inverse, centres of the inputs, projected"),
        ({"window": 1}, "n = 1"),
        ({"learned": True, "distilled": True}, "learned landmarks, distilled from full attention"),
        ({"embed_dim": 48, "num_heads": 4}, "d = 48, 4 heads"),
        ({"decay": True, "dropout": 0.5, "window": 256}, "with decay, dropout 0.5, n = 256"),
        ({"layers": 2, "stack": "deep", "at_once": True}, "deep stack, landmarks of all blocks at once"),
        ({"layers": 3, "stack": "deep", "windows": [16, 64, 256], "window": 256}, "deep stack, windows 16/64/256"),
        ({"transferred": True}, "attention transfer"),
        ({"one_scale": True}, "one scale for all inputs"),
    ]
    for change, words in changes:
        raw = cell(suffix="-other", **change)
        (table,) = tables(parsed(cell(), cell(model="full"), cell(model="nystrom"), raw))
        assert [(one.name, describe(differs)) for one, differs in table.others] == [(raw["name"], words)]


def test_defaults_may_be_written_or_not():
    written = {"decay": False, "at_once": False, "transferred": False, "windows": None, "dropout": None}
    for model in ("co-fixed-single", "gru"):
        (table,) = tables(parsed(cell(model=model, **written)))
        assert not table.others
        assert [differs for _, differs in table.rivals] == [{}] * (model == "gru")


def test_what_is_about_attention_is_no_setting_of_a_rival():
    plain = cell(model="gru", num_heads=None, stack="deep", window=120)
    for name in ("pinv", "pinv_ridge", "method", "learned", "landmarks"):
        del plain["cell"][name]
    (table,) = tables(parsed(cell(), plain, cell(model="gru", dropout=0.3, suffix="-dropout0.3")))
    assert [describe(differs) for _, differs in table.rivals] == ["the table's own", "dropout 0.3"]
    assert table.trained() == [("co-fixed-single", 1)]


def test_the_ridge_of_another_inverse_is_no_setting():
    (table,) = tables(parsed(cell(pinv_ridge=0.7)))
    assert not table.others


def test_the_same_cell_twice_is_an_error():
    again = cell()
    again["name"] = "another-name"
    with pytest.raises(ValueError, match="another-name and gtzan-1-co-fixed are records of the same cell"):
        tables(parsed(cell(), again))


def test_the_fakes_are_json():
    json.dumps(fake["everything"](), allow_nan=False)
