"""One cell: its budget, its phases, and runs that were killed."""

import dataclasses
import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nystream.lab.reproduce import train as training
from nystream.lab.reproduce.cells import MODELS
from nystream.lab.reproduce.problems import TASKS, problem
from nystream.lab.reproduce.train import build, cell_phases, score, train
from nystream.train import TrainConfig
from nystream.train.single import Single


@pytest.fixture
def trained():
    """Models of a job, the job, and its runs."""

    def trained(job):
        runs = job.runs()
        return train(job, runs), job, runs

    return trained


def same(a, b):
    ours, theirs = a.state_dict(), b.state_dict()
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def folders(job):
    return sorted(path.name.rpartition("-")[0] for path in job.work.iterdir())


@given(st.integers(1, 200), st.integers(1, 6), st.sampled_from(list(MODELS)))
def test_every_model_has_the_same_budget(epochs, layers, model):
    cell = problem("gtzan").usual(model=model, layers=layers, landmarks=None if "full" in model else 4)
    config = TrainConfig(epochs=epochs, lr=3e-3)
    if cell.fixed and epochs < layers + 2:
        with pytest.raises(ValueError, match=f"epochs={epochs} is too few for fixed landmarks: at least {layers + 2}"):
            cell_phases(config, cell)
        return
    first, *tuning = (phase.config for phase in cell_phases(config, cell))
    assert first.epochs + sum(config.epochs for config in tuning) == epochs
    assert len(tuning) == layers * cell.fixed
    for one in tuning:
        assert first.epochs >= one.epochs >= 1
        assert (first.lr, one.lr) == (config.lr, pytest.approx(1e-3))


@pytest.mark.parametrize("task", TASKS)
def test_the_prescribed_budget_suffices_for_fixed_landmarks(task):
    found = problem(task)
    for layers in found.depths:
        cell = found.usual(model="co-fixed-single", layers=layers, landmarks=found.landmarks)
        assert len(cell_phases(found.training(cell), cell)) == 1 + layers


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize(("plain", "continual"), [("full", "co-full-single"), ("nystrom-fixed", "co-fixed-single")])
def test_plain_models_share_training_and_scores_with_their_twins(job, trained, plain, continual, layers):
    one, plan, runs = trained(job(plain, layers))
    before = {path: path.stat().st_mtime_ns for path in plan.work.rglob("*.safetensors")}
    two, other, _ = trained(job(continual, layers))
    assert before == {path: path.stat().st_mtime_ns for path in plan.work.rglob("*.safetensors")}  # trained once
    assert (one.seconds, one.phases) == (two.seconds, two.phases)
    assert {model.config.blocks[-1].variant for model in one.models} == {plain}
    for ours, theirs in zip(score(plan, one.models, runs, "test"), score(other, two.models, runs, "test"), strict=True):
        assert ours["loss"] == pytest.approx(theirs["loss"], abs=1e-5)


def test_one_seed_gives_all_models_the_same_weights_to_begin_with(cell, job):
    runs = job(splits=2, seeds=2).runs()
    families = ("co-full-single", "co-cont-single")
    first, second = ([build(cell(model), run) for run in runs] for model in families)
    for a, b in zip(first, second, strict=True):
        ours, theirs = dict(a.named_parameters()), dict(b.named_parameters())
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    weights = [model.head.weight for model in first]
    assert not any(torch.equal(weights[i], weights[j]) for i in range(4) for j in range(i))


def test_scalers_know_the_training_part_only(cell, job):
    run = job(splits=1, seeds=1).runs()[0]
    model = build(cell(), run)
    scaled = model.input_scaler(run.train.x)
    assert scaled.mean((0, 1)).abs().max() < 1e-4
    assert model.input_scaler(run.test.x).mean((0, 1)).abs().max() > 1e-3


@pytest.mark.parametrize(
    "changes",
    [
        {"pinv": "exact"},
        {"pinv": "ridge", "pinv_ridge": 0.3},
        {"pinv": "none", "method": "x"},
        {"learned": True},
        {"distilled": True},
        {"learned": True, "distilled": True, "pinv": "ridge"},
    ],
)
def test_every_kind_of_fixed_landmarks(job, trained, changes):
    found, plan, runs = trained(job("co-fixed-single", **changes))
    attention = found.models[0].encoder.blocks[0].attention
    assert attention.config.variant == "co-fixed-single"
    assert attention.config.pinv == changes.get("pinv", "newton")
    assert attention.config.pinv_ridge == changes.get("pinv_ridge", 0.1)
    assert sum(phase.epochs for phase in found.phases) == plan.config.epochs
    assert all(torch.isfinite(torch.tensor(one["loss"])) for one in score(plan, found.models, runs, "test"))
    if changes.get("distilled"):
        assert folders(job())[-1] == "gtzan-1-co-full"  # the teacher


def test_a_first_phase_is_shared_by_all_that_differ_later(job, trained):
    first, *_ = trained(job("co-fixed-single"))
    learned, *_ = trained(job("co-fixed-single", learned=True))
    names = folders(job())
    assert names == ["gtzan-1-co-cont", "gtzan-1-co-fixed", "gtzan-1-co-fixed-learned"]
    assert not same(first.models[0], learned.models[0])


def test_full_attention_learns_from_another_model_of_its_kind(job, trained):
    teacher, _, runs = trained(job(seeds=1))
    student, plan, _ = trained(job(seeds=1, distilled=True))
    assert folders(plan) == ["gtzan-1-co-full", "gtzan-1-co-full-distilled"]
    assert not same(teacher.models[0], student.models[0])
    ours, theirs = (build(job(distilled=taught).cell, runs[0]).head.weight for taught in (True, False))
    assert not torch.equal(ours, theirs)
    # Other models begin with the weights that they have without a teacher.
    ours, theirs = (build(job("gru", distilled=taught).cell, runs[0]).head.weight for taught in (True, False))
    assert torch.equal(ours, theirs)


def test_a_stopped_recurrent_cell_resumes(job, monkeypatch):
    whole = train(job("lstm"), job("lstm").runs())
    step, left = Single.step, 7 * job("lstm").config.epochs  # stops in the second of two runs

    def dies(self, *args):
        nonlocal left
        left -= 1
        if not left:
            raise KeyboardInterrupt
        return step(self, *args)

    again = dataclasses.replace(job("lstm"), work=job().work / "again")
    monkeypatch.setattr(Single, "step", dies)
    with pytest.raises(KeyboardInterrupt):
        train(again, again.runs())
    assert sorted(path.name for path in next(again.work.iterdir()).glob("running/*")) == ["run-0", "run-1"]
    monkeypatch.setattr(Single, "step", step)
    resumed = train(again, again.runs())
    assert all(same(a, b) for a, b in zip(whole.models, resumed.models, strict=True))


@pytest.mark.parametrize(
    ("model", "changes"),
    [
        ("co-cont-single", {"decay": True}),
        ("co-fixed-single", {"layers": 2, "stack": "deep", "windows": (4, 8), "decay": True, "dropout": 0.3}),
    ],
)
def test_decay_and_windows_of_a_deep_stack(job, trained, model, changes):
    found, plan, runs = trained(job(model, seeds=1, **changes))
    config = found.models[0].config
    assert all(block.decay for block in config.blocks)
    assert config.positions == "none"
    assert tuple(block.window for block in config.blocks) == changes.get("windows", (8,))
    assert config.dropout == changes.get("dropout", 0.1)
    assert torch.isfinite(torch.tensor(score(plan, found.models, runs, "test")[0]["loss"]))


@pytest.mark.parametrize(("transferred", "epochs"), [(False, [2, 6]), (True, [2, 2, 4])])
def test_landmarks_of_all_blocks_at_once(job, trained, transferred, epochs):
    """After a phase of full attention, whose models a cell of full attention with as few epochs would share."""
    one = job("co-fixed-single", 2, seeds=1, stack="deep", at_once=True, transferred=transferred)
    found, plan, _ = trained(one)
    assert [phase.epochs for phase in found.phases] == epochs
    assert all(block.fixed and block.m == 2 for block in found.models[0].config.blocks)
    assert folders(plan) == [f"gtzan-2-co-fixed-deep-at-once{'-transferred' * transferred}", "gtzan-2-co-full-deep"]


def test_positions_of_several_windows_are_those_of_the_largest(cell):
    pyramid = cell("co-full-single", 2, stack="deep", windows=(4, 8))
    assert training.model_config(pyramid, 4).num_positions == 8


def test_more_runs_are_trained_anew(job, trained):
    few, *_ = trained(job(seeds=1))
    more, *_ = trained(job(seeds=2))
    assert (len(few.models), len(more.models)) == (1, 2)
    assert folders(job()) == ["gtzan-1-co-full"] * 2


def test_what_is_done_is_taken_up(job, trained, monkeypatch):
    first, *_ = trained(job("co-fixed-single", 2))
    monkeypatch.setattr(training.Training, "run", None)
    second, *_ = trained(job("co-fixed-single", 2))
    assert first.seconds == second.seconds
    assert first.phases == second.phases
    assert len(first.phases) == 3
    assert all(same(a, b) for a, b in zip(first.models, second.models, strict=True))
    assert not list(job().work.rglob("running"))


@pytest.mark.parametrize("text", ["", "[]", '{"seconds": "1"}', "[" * 10**5])
def test_a_damaged_mark_is_named(job, trained, text):
    trained(job())
    (done,) = job().work.rglob("done.json")
    done.write_text(text)
    with pytest.raises(ValueError, match=r"done\.json is damaged: .*delete its folder"):
        trained(job())


def test_models_of_other_data_are_not_taken_up(job, trained, write_data, tmp_path):
    trained(job())
    other = write_data(tmp_path / "other", seed=1)
    with pytest.raises(
        ValueError, match=r"gtzan-1-co-full-.* has models trained on other data; give another .* --work"
    ):
        trained(job(where=other))


def test_killed_and_started_again(job, script, data, tmp_path):
    killed = tmp_path / "killed"
    command = [sys.executable, str(script), str(data), str(killed), str(tmp_path), "co-fixed-single", "1"]
    for phase in ("co-cont-*/running", "co-fixed-*/running/phase-2-block-0"):
        process = subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"})
        try:
            until = time.monotonic() + 60
            while not list(killed.glob(f"gtzan-1-{phase}/checkpoint.safetensors")):
                assert process.poll() is None
                assert time.monotonic() < until
                time.sleep(0.005)
        finally:
            process.kill()
        assert process.wait() == -signal.SIGKILL
    assert len(list(killed.rglob("done.json"))) == 1  # the first phase
    records = [job("co-fixed-single", work=work).run() for work in (killed, tmp_path / "whole")]
    for record in records:
        assert record["training"].pop("seconds") > 0
    assert records[0] == records[1]


def test_seconds_before_a_stop_count(tmp_path):
    assert training._seconds_spent(tmp_path / "running") == 0
    for phase, seconds in (("phase-2-block-0", 2.5), ("phase-2-block-1", 0.25)):
        (tmp_path / "running" / phase).mkdir(parents=True)
        (tmp_path / "running" / phase / "metrics.jsonl").write_text(f'{{"epoch": 1, "seconds": {seconds}}}\n{{"epo')
    assert training._seconds_spent(tmp_path / "running") == 2.75
