"""From a cell to its record."""

import dataclasses
import json
from pathlib import Path

import pytest

from nystream import costs
from nystream.costs.tables import SIZES
from nystream.lab.reproduce import steps
from nystream.lab.reproduce.cells import MODELS
from nystream.lab.reproduce.job import (
    data_folder,
    model_operations,
    operations,
    run_baseline,
    summaries,
    wanted_baseline,
)
from nystream.lab.reproduce.problems import problem
from nystream.lab.reproduce.report import records
from nystream.lab.reproduce.store import finished, write

FIELDS = {
    "cell", "name", "budget", "metric", "metrics", "valid", "runs", "operations", "bytes_per_stream", "step",
    "input_dim", "training", "data", "command", "commit", "hardware",
}  # fmt: skip


def test_a_record_says_all_of_it(job, tmp_path):
    one = job("co-fixed-single", 2, splits=2, seeds=2)
    record = one.run()
    assert set(record) == FIELDS
    assert record["name"] == "gtzan-2-co-fixed"
    assert record["cell"] == one.cell.to_dict()
    assert record["runs"] == [{"split": split, "seed": seed} for split in (0, 1) for seed in (0, 1)]
    assert record["metric"] == "accuracy"
    for part in ("metrics", "valid"):
        assert list(record[part]) == ["accuracy", "loss"]
        for name in ("accuracy", "loss"):
            assert set(record[part][name]) == {"mean", "std", "values"}
            assert len(record[part][name]["values"]) == 4
    training = record["training"]
    assert set(training) == {"epochs", "phases", "parameters", "seconds", "device", "gpu_bytes"}
    assert sum(phase["epochs"] for phase in training["phases"]) == training["epochs"] == 8
    assert len(training["phases"]) == 3
    assert training["device"] == "CPU"
    assert record["data"] == {"file": "gtzan_yamnet_tokens.npz", "fingerprint": one.load().fingerprint}
    assert record["operations"] == operations(one.cell) | {"model": model_operations(one.cell, record["input_dim"])}
    assert record["bytes_per_stream"] > 0
    assert record["step"] is None
    assert record["commit"] == "0" * 40
    assert json.loads(json.dumps(record)) == record
    write(tmp_path / "results", record)
    assert finished(tmp_path / "results", one.wanted()) == record


def test_scores_of_one_run_have_no_deviation(job):
    record = job(seeds=1).run()
    assert record["metrics"]["accuracy"]["std"] is None
    assert record["metrics"]["accuracy"]["mean"] == record["metrics"]["accuracy"]["values"][0]


def test_summaries():
    found = summaries([{"map": 0.1, "cmap": 0.5}, {"map": 0.3, "cmap": 0.5}])
    assert found["map"] == {"mean": pytest.approx(0.2), "std": pytest.approx(0.02**0.5), "values": [0.1, 0.3]}
    assert found["cmap"]["std"] == 0


def test_the_report_reads_what_is_written(job, tmp_path):
    write(tmp_path, job("full", seeds=1).run())
    write(tmp_path, run_baseline(job(), "logistic regression on the mean token"))
    assert len(records.read(tmp_path)) == 2


def test_changes_of_the_training_are_in_the_record(job):
    one = job(seeds=1, changes=(("epochs", 2), ("lr", 3e-3)))
    record = one.run()
    assert (record["budget"]["epochs"], record["budget"]["lr"]) == (2, 3e-3)
    assert record["training"]["epochs"] == 2


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"splits": 11}, "splits=11, but gtzan with protocol 'splits' has 1 to 10"),
        ({"splits": 2, "protocol": "filtered"}, "splits=2, but gtzan with protocol 'filtered' has 1"),
        ({"splits": 0}, "splits=0"),
        ({"seeds": 0}, "seeds=0 must be 1 to 1000"),
        ({"seeds": 1001}, "seeds=1001"),
        ({"changes": (("epochs", 2),), "model": "co-fixed-single"}, "epochs=2 is too few for fixed landmarks"),
        ({"changes": (("lr", -1.0),)}, "lr=-1.0"),
        ({"changes": (("piece", 4),)}, "piece=4 is for pieces of streams, but gtzan-1-co-full learns from windows"),
        ({"where": Path("nowhere")}, "nowhere has no gtzan_yamnet_tokens.npz"),
    ],
)
def test_what_cannot_be_run_is_known_before(job, options, named):
    with pytest.raises((ValueError, OSError), match=named):
        job(**options).wanted()


@pytest.mark.parametrize("protocol", ["splits", "filtered"])
def test_baselines(job, protocol):
    one, name = job(protocol=protocol), "logistic regression on the mean token"
    record = run_baseline(one, name)
    said = wanted_baseline(one, name)
    assert said.items() <= record.items()
    suffix = "-filtered" if protocol == "filtered" else ""
    assert record["name"] == f"gtzan-baseline-logistic-regression-on-the-mean-token{suffix}"
    assert record["runs"] == [{"split": 0, "seed": None}]
    assert record["metric"] == "accuracy"
    assert 0 < record["metrics"]["accuracy"]["mean"] <= 1
    assert json.loads(json.dumps(record)) == record


@pytest.mark.parametrize("task", ["gtzan", "thumos14"])
def test_operations_are_those_of_the_table(task):
    found = problem(task)
    sizes = SIZES[task]
    for model in MODELS:
        for layers in found.depths:
            cell = found.usual(model=model, layers=layers, landmarks=None if "full" in model else found.landmarks)
            ours = operations(cell)
            formula = costs.flops(model, sizes.n, sizes.d, sizes.m, layers, sizes.heads)
            assert ours["paper"] == pytest.approx(formula)
            assert (ours["relative_paper"] == 1) == (model == "full")


def test_operations_are_those_of_the_model_where_the_paper_has_another():
    cell = problem("electricity").usual(model="co-fixed-single", landmarks=4)
    assert operations(cell)["paper"] == costs.flops("co-fixed-single", 64, cell.embed_dim, 4)


def test_where_the_data_are(monkeypatch):
    monkeypatch.delenv("NYSTREAM_DATA", raising=False)
    assert data_folder(Path("here")) == Path("here")
    with pytest.raises(ValueError, match="--data FOLDER, or set NYSTREAM_DATA"):
        data_folder(None)
    monkeypatch.setenv("NYSTREAM_DATA", "there")
    assert data_folder(None) == Path("there")


def test_operations_of_a_deep_stack_are_those_of_its_blocks():
    deep = problem("gtzan").usual(model="co-fixed-single", landmarks=4, layers=2, stack="deep")
    single, paper = (operations(dataclasses.replace(deep, layers=layers, stack="paper")) for layers in (1, 2))
    found = operations(deep)
    assert found["corrected"] == 2 * single["corrected"] < paper["corrected"]
    assert found["relative_corrected"] == single["relative_corrected"]


def test_a_deep_stack_is_trained_scored_and_timed(job, monkeypatch):
    record = job("co-fixed-single", 2, stack="deep").run()
    assert record["name"] == "gtzan-2-co-fixed-deep"
    assert record["cell"]["stack"] == "deep"
    assert len(record["training"]["phases"]) == 3
    monkeypatch.setattr(steps, "ROUNDS", 2)
    (timed,) = steps.time_steps([record], "nystream reproduce gtzan")
    assert timed["step"]["backend"] == "numba"  # every block streams, so the whole step is one compiled call


def test_operations_of_a_whole_model():
    """With a window of one, and without landmarks, a step is the products of its matrices and two of one token."""
    cell = problem("gtzan").usual(model="co-full-single", window=1)
    matrices = 4 * 192**2 + 2 * 192 * 192 + 192 * (128 + 10)
    assert model_operations(cell, 128) == matrices + 2 * 192
    deep = dataclasses.replace(cell, layers=2, stack="deep", window=30, windows=(10, 30))
    assert model_operations(deep, 128) == 2 * matrices - 192 * 138 + 2 * 192 * (10 + 30)
    gru = problem("gtzan").usual(model="gru", layers=2)
    assert model_operations(gru, 128) == 2 * 6 * 192**2 + 192 * 138
    assert operations(gru) == {}


def test_operations_of_several_windows_are_those_of_the_blocks():
    pyramid = problem("gtzan").usual(model="co-cont-single", landmarks=4, layers=2, stack="deep", windows=(40, 120))
    each = [operations(problem("gtzan").usual(model="co-cont-single", landmarks=4, window=n)) for n in (40, 120)]
    assert operations(pyramid)["paper"] == sum(one["paper"] for one in each)


@pytest.mark.parametrize("distilled", [False, True])
def test_a_recurrent_cell(job, tmp_path, quick_steps, distilled):
    one = job("gru", 2, splits=2, seeds=1, distilled=distilled)
    record = one.run()
    assert record["name"] == "gtzan-2-gru" + "-distilled" * distilled
    assert record["operations"] == {"model": model_operations(one.cell, record["input_dim"])}
    assert record["bytes_per_stream"] == 2 * 8 * 4
    assert len(record["metrics"]["accuracy"]["values"]) == 2
    assert len(record["training"]["phases"]) == 1
    assert json.loads(json.dumps(record)) == record
    write(tmp_path / "results", record)
    assert finished(tmp_path / "results", one.wanted()) == record
    again = one.run()  # from the models that were kept
    assert again == record
    if distilled:
        return
    timed, ours = steps.time_steps([record, job().wanted() | {"input_dim": 4}], "nystream reproduce gtzan", False)
    assert timed["step"]["backend"] == "onnxruntime"
    assert {"median_microseconds", "p99_microseconds", "steps"} <= set(timed["step"]["torch"])
    assert timed["step"]["bytes_per_stream"] == record["bytes_per_stream"]
    assert timed["step"]["relative"] > 0
    assert ours["step"]["backend"] == "torch"
    assert json.loads(json.dumps(timed)) == timed


def test_the_teacher_of_a_recurrent_model_is_that_of_the_table(job):
    changes = (("epochs", 3), ("lr", 0.5))
    teacher = job("gru", 2, distilled=True, dropout=0.4, changes=changes).teacher
    assert (teacher.name, teacher.changes, teacher.cell.dropout) == ("gtzan-1-co-full", (("epochs", 3),), None)
    assert job("co-cont-single", distilled=True, changes=changes).teacher.changes == changes
