"""`nystream reproduce` on a small GTZAN."""

import json
import os
import runpy
import secrets
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from nystream.cli import main
from nystream.cli.reproduce import Reproduce, _say
from nystream.extras import INSTALL
from nystream.lab.reproduce import run as running
from nystream.lab.reproduce import steps
from nystream.lab.reproduce.job import Job
from nystream.lab.reproduce.problems import gtzan
from nystream.stream import StreamPool

small = SimpleNamespace(**runpy.run_path(str(Path(__file__).parents[1] / "lab" / "reproduce" / "tiny.py")))
BASELINE = "gtzan-baseline-logistic-regression-on-the-mean-token"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return small.write(tmp_path_factory.mktemp("data"))


@pytest.fixture
def reproduce(data, tmp_path, monkeypatch):
    """The command in an empty folder, with small models: its exit code."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NYSTREAM_DATA", str(data))
    monkeypatch.setenv("GIT_COMMIT", "0" * 40)
    monkeypatch.setattr(gtzan, "PROBLEM", small.Tiny())
    monkeypatch.setattr(steps, "ROUNDS", 2)
    monkeypatch.setattr(steps, "StreamPool", partial(StreamPool, backend="torch"))

    def reproduce(*arguments, task="gtzan"):
        return main(["reproduce", task, "--device", "cpu", *arguments])

    return reproduce


def records(folder="results"):
    return {
        path.stem: json.loads(path.read_text())
        for path in sorted(Path(folder).glob("*.json"), key=lambda path: path.stem)
    }


def test_a_table_from_end_to_end_and_again(reproduce, capsys, monkeypatch):
    assert reproduce() == 0
    out, err = capsys.readouterr()
    assert "error" not in err  # there may be lines about how far it is
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 80
    lines = out.splitlines()
    assert lines[0] == "gtzan: 12 cells of 1 split x 2 seeds on cpu, 0 of them done"
    assert len(lines) == 14
    assert all(line.startswith("gtzan-") and " ± " in line for line in lines[1:-1])
    assert lines[-1] == "12 records in results; nystream report makes tables and plots from them"
    found = records()
    assert len(found) == 13
    assert found.pop(BASELINE)["baseline"]["task"] == "gtzan"
    for one in found.values():
        assert one["command"] == one["step"]["command"] == "nystream reproduce gtzan --device cpu"
        assert one["step"]["relative"] > 0
    for layers in (1, 2):
        for plain, continual in (("full", "co-full"), ("nystrom-fixed", "co-fixed")):
            ours, theirs = (found[f"gtzan-{layers}-{name}"]["metrics"]["loss"]["mean"] for name in (plain, continual))
            assert ours == pytest.approx(theirs, abs=1e-5)

    monkeypatch.setattr(Job, "run", None)
    monkeypatch.setattr(running, "run_baseline", None)
    monkeypatch.setattr("nystream.cli.reproduce.time_steps", None)
    before = {path.name: path.read_bytes() for path in Path("results").iterdir()}
    assert reproduce() == 0
    assert reproduce("--seeds", "1") == 0  # fewer runs than there are
    assert capsys.readouterr().out.splitlines()[0].endswith("12 of them done")
    assert {path.name: path.read_bytes() for path in Path("results").iterdir()} == before

    assert main(["report"]) == 0
    assert "CoNy-Fix" in Path("report.md").read_text()


def test_sweeps_and_settings(reproduce, capsys):
    few = ("--models", "cony-fix,att", "--layers", "1", "--seeds", "1", "--no-steps")
    assert reproduce(*few, "--landmarks", "2,4") == 0
    assert reproduce(*few, "--pinv", "newton, ridge, none", "--ridge", "0.03,0.3") == 0
    assert reproduce(*few, "--learned", "--distilled") == 0
    assert reproduce(*few, "--protocol", "filtered") == 0
    names = [name.removeprefix("gtzan-1-") for name in records() if "baseline" not in name]
    assert names == [
        "co-fixed", "co-fixed-filtered", "co-fixed-learned-distilled", "co-fixed-m4", "co-fixed-noinverse-by-x",
        "co-fixed-ridge0.03", "co-fixed-ridge0.3", "full", "full-filtered",
    ]  # fmt: skip
    assert [name for name in records() if "baseline" in name] == [BASELINE, f"{BASELINE}-filtered"]
    assert all(one.get("step") is None for one in records().values())
    capsys.readouterr()
    assert reproduce("--models", "cony-fix", "--layers", "1", "--seeds", "1") == 0  # what was not measured is
    assert records()["gtzan-1-co-fixed"]["step"]["backend"] == "torch"
    assert capsys.readouterr().out.startswith("gtzan: 1 cell of 1 split x 1 seed on cpu, 1 of them done\n1 record in")


def test_recurrent_and_deep_cells(reproduce, capsys):
    few = ("--seeds", "1", "--epochs", "2", "--no-steps")
    assert reproduce(*few, "--models", "gru,co", "--layers", "1", "--dropout", "0.3", "--weight-decay", "0") == 0
    assert "left out" not in capsys.readouterr().out
    assert reproduce(*few, "--models", "co,att,lstm", "--stack", "deep", "--windows", "4,8", "--decay") == 0
    assert capsys.readouterr().out.splitlines()[1] == (
        "left out: att, lstm (stack='deep' is for continual models of several blocks)"
    )
    assert reproduce(*few, "--models", "co", "--layers", "1,2", "--stack", "deep") == 0
    assert capsys.readouterr().out.splitlines()[1] == (
        "left out: co with 1 block (stack='deep' is for continual models of several blocks)"
    )
    found = records()
    assert [name.removeprefix("gtzan-") for name in found if "baseline" not in name] == [
        "1-co-full-dropout0.3", "1-gru-dropout0.3", "2-co-full-deep", "2-co-full-n4-8-deep-decay",
    ]  # fmt: skip
    assert found["gtzan-1-gru-dropout0.3"]["budget"]["weight_decay"] == 0
    assert found["gtzan-2-co-full-n4-8-deep-decay"]["cell"]["windows"] == [4, 8]


def test_steps_are_measured_again_when_asked(reproduce):
    few = ("--models", "co", "--layers", "1", "--seeds", "1")
    assert reproduce(*few) == 0
    assert reproduce(*few, "--steps-again") == 0
    assert records()["gtzan-1-co-full"]["step"]["command"].endswith("--steps-again")


def test_one_failure_is_told_and_loses_nothing(reproduce, capsys, monkeypatch):
    ran = Job.run

    def fails(self):
        if self.cell.model == "nystrom":
            raise RuntimeError("out of [red]memory[/]")
        return ran(self)

    monkeypatch.setattr(Job, "run", fails)
    few = ("--layers", "1", "--seeds", "1", "--models", "co,ny,cony-cont")
    assert reproduce(*few) == 1
    out, err = capsys.readouterr()
    assert "gtzan-1-nystrom: failed: RuntimeError: out of [red]memory[/]" in out
    assert err.count("error: ") == 1
    assert "1 of 3 cells failed (gtzan-1-nystrom), see runs/errors.txt; the others are in results" in err
    assert Path("runs/errors.txt").read_text().startswith("gtzan-1-nystrom\nTraceback")
    assert set(records()) == {BASELINE, "gtzan-1-co-cont", "gtzan-1-co-full"}
    assert records()["gtzan-1-co-full"]["step"]["relative"] > 0
    monkeypatch.setattr(Job, "run", ran)
    assert reproduce(*few) == 0
    assert capsys.readouterr().out.startswith("gtzan: 3 cells of 1 split x 1 seed on cpu, 2 of them done\n")


def test_small_scores_have_digits_too(capsys):
    score = {"mean": 3.1234567e-4, "std": 1.234e-6}
    record = {"metric": "mse", "metrics": {"mse": score}, "training": {"seconds": 9.6}}
    _say(running.Outcome("electricity-1-co-full", record))
    assert capsys.readouterr().out == "electricity-1-co-full: mse 0.0003123 ± 1.2e-06, 10 s\n"


def test_stopped_and_told_how_to_go_on(reproduce, capsys, monkeypatch):
    def stopped(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(Job, "run", stopped)
    assert reproduce("--models", "co", "--no-steps") == 130
    assert "run the same command to resume" in capsys.readouterr().err


def test_other_experiments_are_not_lost(reproduce, capsys):
    few = ("--models", "co", "--layers", "1", "--seeds", "1", "--no-steps")
    assert reproduce(*few) == 0
    assert reproduce(*few, "--epochs", "3") == 2
    assert "gtzan-1-co-full.json is of another experiment: epochs is 8 there and 3 here" in capsys.readouterr().err
    assert reproduce(*few, "--epochs", "3", "--again") == 0
    assert records()["gtzan-1-co-full"]["training"]["epochs"] == 3


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--models", "att,co-ful-single"], "; did you mean co-full-single?"),
        (["--models", "att,transformer"], "models has 'transformer', but must be some of att, co, ny"),
        (["--models", ""], "models='', layers='': no cell is left"),
        (["--models", ","], "models=',' is an empty list"),
        (["--layers", ",,"], "layers=',,' is an empty list"),
        (["--pinv", "ridge", "--ridge", ","], "ridge=',' is an empty list"),
        (["--ridge", "0.3"], "ridge='0.3' is for --pinv ridge, but pinv is 'newton'"),
        (["--models", "att,co", "--pinv", "exact"], "no cell is left"),
        (["--models", "att,gru", "--learned"], "left: att, gru (pinv and learned are for fixed landmarks)"),
        (["--layers", "1", "--stack", "deep"], "layers='1': no cell is left: att, co"),
        (["--layers", "2", "--at-once"], "no cell is left"),
        (["--models", "att,ny", "--decay"], "no cell is left"),
        (["--windows", "4,8"], "windows='4,8' is for --stack deep, but stack is 'paper'"),
        (["--windows", "4,8", "--window", "8", "--stack", "deep"], "window=8 and windows='4,8' are both given"),
        (["--windows", "4,8", "--layers", "3", "--stack", "deep"], "no cell is left"),
        (["--windows", "1,8", "--stack", "deep"], "landmarks=2 must be at most 1, the smallest window"),
        (["--windows", "eight", "--stack", "deep"], "windows='eight'"),
        (["--piece", "4", "--models", "co"], "piece=4 is for pieces of streams"),
        (["--piece", "-4"], "piece=-4"),
        (["--weight-decay", "-1"], "weight_decay=-1.0"),
        (["--dropout", "1"], "dropout=1.0"),
        (["--stack", "tall"], "stack='tall' must be paper or deep"),
        (["--layers", "one"], "layers='one'"),
        (["--layers", "0"], "layers=0"),
        (["--landmarks", "2,9"], "landmarks=9 must be 1 to 8"),
        (["--landmarks", "0"], "landmarks=0 must be 1 to 8"),
        (["--protocol", "seeds"], "protocol='seeds', but gtzan has splits and filtered"),
        (["--tokens", "lags"], "tokens='lags', but gtzan has paper"),
        (["--device", "tpu"], "device='tpu' must be cpu, cuda or auto"),
        (["--device", "cuda:99"], "device='cuda:99', but torch finds"),
        (["--pinv", "inverse"], "pinv='inverse'"),
        (["--pinv", "ridge", "--ridge", "big"], "ridge='big'"),
        (["--pinv", "ridge", "--ridge", "-1"], "pinv_ridge=-1.0"),
        (["--splits", "11"], "splits=11"),
        (["--splits", "-1"], "splits=-1"),
        (["--seeds", "2000"], "seeds=2000"),
        (["--epochs", "2"], "epochs=2 is too few for fixed landmarks: at least 3"),
        (["--epochs", "-3"], "epochs=-3"),
        (["--lr", "nan"], "lr=nan"),
        (["--batch-size", "-1"], "batch_size=-1"),
        (["--window", "-8"], "window=-8"),
        (["--window", "7"], "the windows have 8 tokens, but the model's window is 7"),
        (["--window", "9"], "window=9 is longer than the 8 tokens of a track: it never fills"),
        (["--threads", "-1"], "threads=-1"),
        (["--gpus-per-cell", "0"], "gpus_per_cell=0.0"),
        (["--gpus-per-cell", "0.5"], "gpus_per_cell=0.5 is for --ray, which is not given"),
        (["--steps-again", "--no-steps"], "steps-again and no-steps are both given"),
        (["--models", "att,co", "--landmarks", "2"], "landmarks='2' is for low-rank models, but models='att,co'"),
        (["--data", "nowhere"], "nowhere has no gtzan_yamnet_tokens.npz"),
    ],
)
def test_bad_values_give_one_line(reproduce, capsys, monkeypatch, arguments, named):
    monkeypatch.setattr(Job, "run", None)  # nothing is trained
    assert reproduce(*arguments) == 2
    out, err = capsys.readouterr()
    assert not out
    assert err.startswith("nystream: error: ")
    assert err.count("\n") == 1
    assert named in err
    assert not Path("results").exists()


@pytest.mark.parametrize("name", ["results", "work"])
def test_a_folder_that_cannot_be_written_is_told_before_training(reproduce, capsys, monkeypatch, name):
    monkeypatch.setattr(Job, "run", None)
    Path("taken").touch()
    assert reproduce("--models", "co", f"--{name}", "taken") == 2
    out, err = capsys.readouterr()
    assert not out
    assert f"{name}=taken is a file, but must be a folder" in err


@pytest.mark.parametrize(
    ("package", "models", "said"),
    [
        ("huggingface_hub", "co", "save_pretrained needs huggingface-hub: pip install huggingface-hub"),
        ("sklearn.cluster", "cony-fix", f"fitting landmarks needs scikit-learn: {INSTALL.format('train')}"),
        (
            "onnxruntime",
            "gru",
            f"timing a recurrent model needs ONNX Runtime: {INSTALL.format('export')}, or use --no-steps",
        ),
    ],
)
def test_what_the_end_needs_is_asked_for_before_training(reproduce, capsys, monkeypatch, package, models, said):
    monkeypatch.setattr(Job, "run", None)  # nothing is trained
    monkeypatch.setitem(sys.modules, package, None)
    assert reproduce("--models", models) == 1
    out, err = capsys.readouterr()
    assert not out
    assert err == f"nystream: error: {said}\n"


def test_without_data_it_says_where_to_put_them(reproduce, capsys, monkeypatch):
    monkeypatch.delenv("NYSTREAM_DATA")
    assert reproduce() == 2
    assert "--data FOLDER, or set NYSTREAM_DATA" in capsys.readouterr().err


def test_a_cluster_that_is_not_there(reproduce, capsys):
    pytest.importorskip("ray")
    assert reproduce("--models", "co", "--ray", "127.0.0.1:1") == 2
    assert "ray='127.0.0.1:1' cannot be reached" in capsys.readouterr().err


@pytest.mark.deploy
def test_on_a_cluster_of_this_machine(data, tmp_path):
    pytest.importorskip("ray")
    whole = small.write(tmp_path / "data", tokens=120, width=4)  # the real models: a worker knows no small ones
    few = ["--models", "att,co", "--layers", "1", "--seeds", "1", "--epochs", "1", "--no-steps", "--plain"]
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    command = [sys.executable, "-m", "nystream", "reproduce", "gtzan", "--data", str(whole), "--ray", "local", *few]
    done = subprocess.run(command, cwd=tmp_path, env=os.environ | token, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("gtzan: 2 cells of 1 split x 1 seed by Ray (local, auto), 0 of them done\n")
    assert set(records(tmp_path / "results")) == {BASELINE, "gtzan-1-co-full", "gtzan-1-full"}


def test_the_command_is_what_was_typed():
    one = Reproduce(
        "gtzan", data=Path("d"), splits=5, learned=True, steps=False, batch_size=8, models="att,co", again=True
    )
    assert one.command() == "nystream reproduce gtzan --models att,co --splits 5 --batch-size 8 --learned --no-steps"


def test_help_names_every_option(capsys):
    assert main(["reproduce", "--help"]) == 0
    out = capsys.readouterr().out
    for name in vars(Reproduce("gtzan")):
        assert name == "task" or f"--{name.replace('_', '-')}" in out or f"--no-{name}" in out
    for sentinel in ("(default: 0)", "(default: )", "(default: '')", "(default: None)", "(default: False)"):
        assert sentinel not in out
