"""The folder of a training run: one process at a time, and files that do not match the run are rejected."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import safetensors
import safetensors.torch
import torch
from torch import distributed as dist

from nystream.train import Classification, TrainConfig, checkpoint, fit, fit_many, train_two_phase

SCRIPT = Path(__file__).parent / "run_fit.py"
OPTIONS = {"task": Classification(), "config": TrainConfig(epochs=1, batch_size=16), "tensorboard": False}

STOPS = """
import runpy, sys, time
import nystream.train.loop as loop

def stop(*_):
    print("ready", flush=True)
    time.sleep(100)

loop._close_epoch = stop
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture
def training(tmp_path):
    """A process that trains in tmp_path / "run", and never finishes its first epoch."""
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", STOPS, str(SCRIPT), str(tmp_path / "run")]
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    yield process
    process.kill()
    process.stdout.close()
    assert process.wait() == -signal.SIGKILL


@pytest.mark.parametrize("entry", ["fit", "fit_many", "train_two_phase"])
def test_a_second_process_is_refused_at_once(training, tiny, windows, tmp_path, entry):
    model, data = tiny("co-cont-single"), windows()
    run = {"fit": fit, "fit_many": fit_many, "train_two_phase": train_two_phase}[entry]
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    began = time.monotonic()
    with pytest.raises(BlockingIOError, match=rf"run is in use by process {training.pid} on .*give another folder"):
        run([model] if entry == "fit_many" else model, data, data, folder=tmp_path / "run", **OPTIONS)
    assert time.monotonic() - began < 2
    assert {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()} == before


def test_a_killed_process_keeps_nobody_out(training, tmp_path):
    training.kill()
    training.wait()
    assert (tmp_path / "run" / ".lock").exists()
    subprocess.run([sys.executable, SCRIPT, tmp_path / "run"], check=True, timeout=120)
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [1, 2, 3, 4, 5, 6]
    assert not list(tmp_path.rglob(".lock"))


@pytest.mark.skipif(not dist.is_gloo_available(), reason="this build of torch has no gloo")
@pytest.mark.deploy
def test_the_processes_of_torchrun_are_one_run_among_others(training, tmp_path):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", SCRIPT]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*torchrun, tmp_path / "run"], env=env, timeout=120, capture_output=True, text=True)
    assert done.returncode != 0
    assert f"run is in use by process {training.pid}" in done.stderr
    for _ in range(2):
        done = subprocess.run([*torchrun, tmp_path / "other"], env=env, timeout=120, capture_output=True, text=True)
        if "EADDRINUSE" not in done.stderr:  # another process took the port that torchrun had found free
            break
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "other" / "model" / "config.json").exists()


def test_the_folder_is_free_again_after_a_failure(tiny, windows, tmp_path, killed):
    from nystream.train.single import Single

    with killed(Single, 1):
        fit(tiny(), windows(), folder=tmp_path / "run", **OPTIONS)
    fit(tiny(), windows(), folder=tmp_path / "run", **OPTIONS)


def drop(ending):
    def change(_, tensors):
        for name in [name for name in tensors if name.endswith(ending)]:
            del tensors[name]

    return change


def reshape(_, tensors):
    tensors.update({name: torch.zeros(7) for name in tensors if name.endswith("head.bias")})


CHECKPOINTS = {
    "no progress": lambda said, _: said.pop("progress"),
    "no about": lambda said, _: said.pop("about"),
    "a list": lambda *_: "[1]",
    "nested": lambda *_: "[" * 100_000,
    "a field more": lambda said, _: said["progress"].update(speed=1),
    "another type": lambda said, _: said["progress"].update(epoch="1"),
    "an epoch below 0": lambda said, _: said["progress"].update(epoch=-1),
    "scores of no model": lambda said, _: said["progress"].update(best=[]),
    "a missing weight": drop("head.bias"),
    "another shape": reshape,
    "half an optimizer": drop(".exp_avg"),
    "no optimizer": drop((".exp_avg", ".exp_avg_sq", ".step")),
}


@pytest.mark.parametrize("many", [False, True], ids=["fit", "fit_many"])
@pytest.mark.parametrize("case", CHECKPOINTS)
def test_a_checkpoint_that_was_tampered_with_is_refused_by_name(tiny, windows, tmp_path, case, many):
    def train():
        if many:
            fit_many([tiny()], windows(), folder=tmp_path, **OPTIONS)
        else:
            fit(tiny(), windows(), folder=tmp_path, **OPTIONS)

    train()
    path = tmp_path / "checkpoint.safetensors"
    with safetensors.safe_open(path, "pt") as file:
        said, tensors = json.loads(file.metadata()["about"]), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    text = CHECKPOINTS[case](said, tensors)
    safetensors.torch.save_file(tensors, path, {"about": text if isinstance(text, str) else json.dumps(said)})
    with pytest.raises(
        ValueError, match=r"checkpoint\.safetensors is not a checkpoint of a training run, or is damaged"
    ):
        train()


def test_slow_checkpoints_are_written_less_often(tmp_path, monkeypatch):
    clock, seconds, written = [0.0], [0.5], []

    def save(folder, tensors, about):
        clock[0] += seconds[0]
        written.append(about["epoch"])

    monkeypatch.setattr(checkpoint, "save", save)
    monkeypatch.setattr(checkpoint, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    saver = checkpoint.Saver(tmp_path)
    for epoch in range(40):
        seconds[0] = 0.5 if epoch < 5 else 2.0
        clock[0] += 10.0  # of training
        if not saver.too_soon:
            saver.save(dict, {"epoch": epoch})
    assert written == [0, 1, 2, 3, 4, 5, 9, 13, 17, 21, 25, 29, 33, 37]  # 40 s after one that took 2 s
