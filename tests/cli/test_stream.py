"""`nystream stream`."""

import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
import tyro

import nystream as ns
from nystream.cli import main
from nystream.cli.stream import Stream
from nystream.live import Session, saving
from nystream.models import find

X = np.random.default_rng(0).normal(size=(30, 3)).round(3)


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    """A run folder with a small model that names its inputs and outputs."""
    torch.manual_seed(0)
    attention = ns.AttentionConfig("co-cont-single", embed_dim=8, num_heads=2, window=6, landmarks=3)
    info = ns.ModelInfo(inputs=("a", "b", "c"), labels=("up", "down"))
    model = ns.StreamModel(ns.ModelConfig(input_dim=3, output_dim=2, attention=attention), info).eval()
    folder = tmp_path_factory.mktemp("run")
    model.save_pretrained(folder / "model")
    return folder


@pytest.fixture(scope="module")
def expected(run_folder):
    model = ns.StreamModel.from_pretrained(run_folder / "model")
    state, outputs = model.init_state(1), []
    with torch.no_grad():
        for x in torch.tensor(X, dtype=torch.float32):
            y, state = model.step(x[None], state)
            outputs.append(y[0].tolist())
    return outputs


@pytest.fixture
def csv(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("c,a,b,note\n" + "".join(f"{c},{a},{b},n\n" for a, b, c in X))
    return path


def command(*arguments, **options):
    environ = os.environ | {"OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-m", "nystream", "stream", *map(str, arguments)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ, **options)


def given(monkeypatch, text):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text if isinstance(text, bytes) else text.encode())))


def outputs(out):
    return [[line["output"]["up"], line["output"]["down"]] for line in map(json.loads, out.splitlines())]


@pytest.mark.parametrize("place", ["", "model"])
def test_a_file_from_end_to_end(capsys, run_folder, csv, expected, place):
    assert main(["stream", str(run_folder / place), str(csv)]) == 0
    out, err = capsys.readouterr()
    assert not err
    np.testing.assert_allclose(outputs(out), expected, rtol=0, atol=1e-5)
    lines = list(map(json.loads, out.splitlines()))
    assert [line["token"] for line in lines] == list(range(1, 31))
    assert [line["record"] for line in lines] == list(range(2, 32))


def test_a_slow_model_is_said_in_one_line(tmp_path, csv):
    attention = ns.AttentionConfig("co-cont-single", embed_dim=8, num_heads=2, window=6, landmarks=3)
    config = ns.ModelConfig(input_dim=3, output_dim=2, attention=attention, layers=2, stack="paper")
    info = ns.ModelInfo(inputs=("a", "b", "c"), labels=("up", "down"))
    ns.StreamModel(config, info).save_pretrained(tmp_path / "slow")
    said = command(tmp_path / "slow", csv, text=True).communicate()[1].splitlines()
    assert [line for line in said if line.startswith("nystream: warning: ") and line.endswith("pass --backend torch")]
    assert not any("extras.py" in line for line in said)
    asked = command(tmp_path / "slow", csv, "--backend", "torch", text=True)
    assert "warning" not in asked.communicate()[1]


@pytest.mark.parametrize("form", ["arrays", "objects", "numbers", "npy"])
def test_other_forms_give_the_same(capsys, monkeypatch, run_folder, tmp_path, expected, form):
    source = "-"
    if form == "arrays":
        given(monkeypatch, "\n".join(json.dumps(row) for row in X.tolist()))
    elif form == "objects":
        given(monkeypatch, "\n".join(json.dumps({"c": c, "b": b, "a": a}) for a, b, c in X.tolist()))
    elif form == "numbers":
        given(monkeypatch, "\n".join(",".join(map(str, row)) for row in X))
    else:
        source = str(tmp_path / "x.npy")
        np.save(source, X)
    assert main(["stream", str(run_folder), source]) == 0
    np.testing.assert_allclose(outputs(capsys.readouterr().out), expected, rtol=0, atol=1e-5)


def test_bad_lines_are_reported_and_skipped(capsys, monkeypatch, run_folder):
    given(monkeypatch, b'[1, 2, 3]\n\n{"a": 1}\n\xff\n[1, NaN, 2]\nhello\n[4, 5, 6]\n')
    assert main(["stream", str(run_folder), "-"]) == 0
    out, err = capsys.readouterr()
    assert [json.loads(line)["record"] for line in out.splitlines()] == [1, 7]
    said = err.splitlines()
    assert [line.split(" skipped: ")[0] for line in said[:-1]] == [f"nystream: line {n}" for n in (3, 4, 5, 6)]
    assert said[-1] == "nystream: 4 of 6 lines skipped"


def test_bad_lines_are_fatal_where_asked(capsys, monkeypatch, run_folder):
    given(monkeypatch, "[1, 2, 3]\n[1, 2]\n[4, 5, 6]\n")
    assert main(["stream", str(run_folder), "-", "--on-error", "fail"]) == 2
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 1
    assert err == "nystream: error: line 2: 2 numbers, but the model takes 3\n"


def test_nothing_that_can_be_read_is_an_error(capsys, monkeypatch, run_folder):
    given(monkeypatch, "[1]\n[2]\n")
    assert main(["stream", str(run_folder), "-"]) == 2
    assert capsys.readouterr().err.endswith("nystream: error: none of 2 lines of standard input could be read\n")


def test_missing_fields(capsys, monkeypatch, run_folder):
    text = "[1, 2, 3]\n[4, null, 6]\n"
    given(monkeypatch, text)
    assert main(["stream", str(run_folder), "-", "--missing", "fill"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[1])["filled"] == ["b"]
    given(monkeypatch, text)
    assert main(["stream", str(run_folder), "-", "--missing", "skip"]) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 1
    assert err == "nystream: line 2 dropped: b is missing\nnystream: 1 of 2 lines dropped\n"


def test_stopping_and_going_on(capsys, run_folder, csv, expected, tmp_path):
    state, printed = tmp_path / "state", ""
    both = ["--load-state", str(state), "--save-state", str(state)]
    said = []
    for limit in ("7", "1", "100"):
        assert main(["stream", str(run_folder), str(csv), *both, "--limit", limit]) == 0
        out, err = capsys.readouterr()
        printed += out
        said.append(err)
    np.testing.assert_allclose(outputs(printed), expected, rtol=0, atol=1e-5)
    assert said[0] == ""
    assert said[1] == f"nystream: resuming after line 8 of {csv}, with token 8\n"
    assert said[2] == f"nystream: resuming after line 9 of {csv}, with token 9\n"


def test_standard_input_goes_on_with_what_comes(capsys, monkeypatch, run_folder, csv, expected, tmp_path):
    state = str(tmp_path / "state")
    header, *rows = csv.read_text().splitlines(keepends=True)
    given(monkeypatch, "".join([header, *rows[:12]]))
    assert main(["stream", str(run_folder), "-", "--save-state", state]) == 0
    given(monkeypatch, "".join(rows[12:]))  # without a header
    assert main(["stream", str(run_folder), "-", "--load-state", state]) == 0
    out, err = capsys.readouterr()
    np.testing.assert_allclose(outputs(out), expected, rtol=0, atol=1e-5)
    assert err == "nystream: resuming with new records, with token 13\n"


def test_another_file_is_read_from_its_beginning(capsys, run_folder, csv, tmp_path):
    state, other = str(tmp_path / "state"), tmp_path / "other.csv"
    other.write_text("1,2,3\n4,5,6\n")
    assert main(["stream", str(run_folder), str(csv), "--save-state", state]) == 0
    capsys.readouterr()
    assert main(["stream", str(run_folder), str(other), "--load-state", state]) == 0
    out, err = capsys.readouterr()
    assert [json.loads(line)["token"] for line in out.splitlines()] == [31, 32]
    assert err == f"nystream: resuming at the beginning of {other}, with token 31\n"


def test_a_kill_loses_nothing(capsys, run_folder, csv, expected, tmp_path):
    state = tmp_path / "state"
    words = [run_folder, csv, "--load-state", state, "--save-state", state, "--every", 4]
    process = command(*words, "--follow")
    first = [process.stdout.readline() for _ in range(7)]
    process.kill()
    first += process.stdout.read().splitlines()  # what it had written meanwhile
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert main(["stream", *map(str, words)]) == 0
    out = capsys.readouterr().out
    given_out = {}
    for line in map(json.loads, [*first, *out.splitlines()]):
        again = given_out.setdefault(line["token"], line)
        assert again["record"] == line["record"]
        np.testing.assert_allclose(list(again["output"].values()), list(line["output"].values()), rtol=0, atol=1e-5)
    assert list(given_out) == list(range(1, 31))
    found = [list(line["output"].values()) for line in given_out.values()]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("number", "said"), [(signal.SIGINT, "stopped"), (signal.SIGTERM, "stopped by SIGTERM")], ids=["Ctrl-C", "SIGTERM"]
)
def test_a_clean_end(run_folder, tmp_path, number, said):
    state = tmp_path / "state"
    process = command(run_folder, "-", "--save-state", state, stdin=subprocess.PIPE)
    for row in X[:3].tolist():
        process.stdin.write(json.dumps(row).encode() + b"\n")
        process.stdin.flush()
        assert process.stdout.readline()  # each answer comes before the next record is sent
    time.sleep(0.2)  # until it waits for the next one
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    saved = f"the session of 3 tokens is saved in {state}; --load-state {state} resumes it"
    assert err.decode() == f"nystream: {said}; {saved}\n"
    session = Session(ns.StreamModel.from_pretrained(str(run_folder)))
    assert saving.load(state, session).items == 3
    assert session.tokens == 3


def test_a_reader_that_leaves(run_folder, csv):
    process = command(run_folder, csv, "--follow")
    process.stdout.readline()
    process.stdout.close()
    with csv.open("a") as file:
        file.write("1,2,3,n\n" * 3)
    assert process.wait(timeout=60) == 1
    assert process.stderr.read() == b""
    process.stderr.close()


def test_lines_for_people(capsys, run_folder, csv):
    assert main(["stream", str(run_folder), str(csv), "--human", "--latency", "--limit", "2"]) == 0
    out, _ = capsys.readouterr()
    assert "\x1b" not in out
    first, second = out.splitlines()
    assert first.split()[:2] == ["1", "up"]
    assert first.index("down") == second.index("down")
    assert second.endswith("µs")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere", "-"], "nowhere is not a folder; give a run folder, a model folder, or a model of the package: d"),
        ([".", "-"], ". has no model: neither it nor model contains a config.json"),
        (["RUN", "none.csv"], "none.csv does not exist"),
        (["RUN", "mic"], "mic is audio, but the model was not trained on audio"),
        (["RUN", "-", "--json", "--human"], "json and human are both set"),
        (["RUN", "-", "--every", "0", "--save-state", "state"], "every=0"),
        (["RUN", "-", "--every", "100"], "every=100 is for --save-state, which is not given"),
        (["RUN", "-", "--limit", "0"], "limit=0"),
        (["RUN", "-", "--gaps", "fill"], "gaps='fill'"),
        (["RUN", "-", "--load-state", "none"], "none does not exist, so there is no session"),
        (["RUN", "-", "--save-state", "no/such/folder"], "save-state=no/such/folder: its folder does not exist"),
        (["RUN", "-", "--follow"], "only a file of lines can be followed"),
    ],
)
def test_bad_arguments_give_one_line(capsys, monkeypatch, tmp_path, run_folder, arguments, words):
    monkeypatch.chdir(tmp_path)
    assert main(["stream", *(str(run_folder) if word == "RUN" else word for word in arguments)]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert err.count("\n") == 1
    assert words in err


def test_a_model_of_the_package_has_a_name(capsys, monkeypatch, run_folder, csv):
    monkeypatch.setitem(find.PACKAGED, "small", run_folder / "model")
    assert main(["stream", "small", str(csv), "--limit", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["token"] == 1
    assert main(["stream", "large", str(csv)]) == 2
    assert "small" in capsys.readouterr().err


def test_without_sounddevice_it_names_the_extra(capsys, monkeypatch, run_folder):
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    monkeypatch.setattr("nystream.cli.stream.rate_of", lambda _: 16000)
    assert main(["stream", str(run_folder), "mic"]) == 1
    assert "pip install -c constraints.txt '.[mic]'" in capsys.readouterr().err


def test_the_commands_of_the_documentation_are_understood():
    page = (Path(__file__).parents[2] / "docs" / "streaming.md").read_text()
    commands = re.findall(r"^(?:.*\| )?nystream stream (.*)$", page, re.M)
    assert len(commands) >= 4
    for words in commands:
        assert isinstance(tyro.cli(Stream, args=shlex.split(words, comments=True)), Stream)


def test_every_kind_of_reason_is_told(capsys, monkeypatch, run_folder):
    bad = ["[1, 2]"] * 3 + ["[1, 2, 3, 4]"] * 4 + ['[1, "foo", 3]'] * 2 + ["{"]
    given(monkeypatch, "\n".join(["[1, 2, 3]", *bad, "[4, 5, 6]"]))
    assert main(["stream", str(run_folder), "-"]) == 0
    said = capsys.readouterr().err.splitlines()
    assert "nystream: line 9 skipped: b is 'foo', which is not a number" in said
    assert said[-4:] == [
        "nystream: 7 skipped like line 2: 2 numbers, but the model takes 3",
        "nystream: 2 skipped like line 9: b is 'foo', which is not a number",
        "nystream: 1 skipped: line 11: not JSON: Expecting property name enclosed in double quotes at character 2",
        "nystream: 10 of 12 lines skipped",
    ]


@pytest.mark.parametrize("how", ["--json", "--human"])
def test_a_model_whose_output_is_not_finite(capsys, run_folder, csv, tmp_path, how):
    model = ns.StreamModel.from_pretrained(run_folder / "model")
    model.info = ns.ModelInfo("classification", inputs=("a", "b", "c"), labels=("calm", "storm"))
    with torch.no_grad():
        model.encoder.norm.bias.fill_(10.0)
        model.head.weight.fill_(3e38)  # finite, but what it gives is not
    model.save_pretrained(tmp_path / "poisoned")
    assert main(["stream", str(tmp_path / "poisoned"), str(csv), how]) == 0
    out, err = capsys.readouterr()
    assert err.splitlines()[0].startswith("nystream: line 2: the model's output is not finite; such answers are null")
    assert err.splitlines()[1:] == ["nystream: 30 of 30 answers not finite"]
    if how == "--human":
        assert "calm" not in out
    else:
        answers = [json.loads(line) for line in out.splitlines()]
        assert {answer["label"] for answer in answers} == {None}
        assert {answer["note"] for answer in answers} == {"the model's output is not finite"}


def test_a_stream_that_is_stopped_says_what_it_skipped(run_folder, csv):
    with csv.open("a") as file:
        file.write("foo,2,3,n\n" * 8)
    process = command(run_folder, csv, "--follow")
    for _ in range(30):
        process.stdout.readline()
    for _ in range(5):
        process.stderr.readline()
    time.sleep(0.2)  # until it waits for more
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 143
    assert err.decode().splitlines() == [
        "nystream: 8 skipped like line 32: c is 'foo', which is not a number",
        "nystream: 8 of 38 lines skipped",
        "nystream: stopped by SIGTERM; the session was not saved: --save-state FILE saves it",
    ]
