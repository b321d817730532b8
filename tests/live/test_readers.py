"""Models that were trained on tables and on sound, as the command streams them."""

import json

import numpy as np
import pytest

import nystream as ns
from nystream.cli import main
from nystream.data.sounds import SoundReader
from nystream.data.table_reader import Column, TableReader

TABLE = """when,load,sky,other
2024-01-01 00:00,100,clear,1
2024-01-01 01:00,110,cloudy,1
2024-01-01 02:00,,cloudy,1
2024-01-01 05:00,130,clear,1
2024-01-01 06:00,oops,clear,1
2024-01-01 07:00,150,clear,1
"""


def saved(folder, reader, output_dim, **info):
    attention = ns.AttentionConfig("co-cont-single", embed_dim=8, num_heads=2, window=6, landmarks=3)
    config = ns.ModelConfig(input_dim=len(reader.names), output_dim=output_dim, attention=attention)
    model = ns.StreamModel(config, ns.ModelInfo(inputs=reader.names, reader=reader.to_dict(), **info)).eval()
    model.save_pretrained(folder)
    return model


@pytest.fixture
def table(tmp_path):
    columns = Column("load"), Column("sky", ("clear", "cloudy"))
    reader = TableReader(columns, ("load",), time="when", step=3600.0)
    about = {"task": "forecasting", "labels": ("load",), "units": ("MW",), "horizon": 3, "seconds": 3600.0}
    saved(tmp_path / "model", reader, 1, **about)
    (tmp_path / "t.csv").write_text(TABLE)
    return str(tmp_path / "model"), str(tmp_path / "t.csv")


def told(capsys, *arguments):
    code = main(["stream", *arguments])
    out, err = capsys.readouterr()
    return code, [json.loads(line) for line in out.splitlines()], err


def test_a_record_that_is_skipped_leaves_a_gap_that_is_filled(capsys, table):
    code, lines, err = told(capsys, *table)
    assert code == 0
    assert [line["record"] for line in lines] == [2, 3, 5, 5, 5, 5, 7, 7]
    assert [line["gap"] for line in lines] == [False, False, True, True, True, False, True, False]
    assert [line["time"][11:13] for line in lines] == ["00", "01", "02", "03", "04", "05", "06", "07"]
    assert lines[0]["for"] == "2024-01-01T03:00:00"
    assert [line.split(" skipped")[0] for line in err.splitlines()] == [
        "nystream: line 4",
        "nystream: line 6",
        "nystream: 2 of 6 lines",
    ]


@pytest.mark.parametrize(
    ("options", "code", "count", "words"),
    [
        (["--on-error", "fail"], 2, 2, "line 4: column 'load' is empty"),
        (["--on-error", "fail", "--missing", "fill"], 2, 3, "line 5: 2 rows are missing"),
        (["--on-error", "fail", "--missing", "fill", "--gaps", "skip"], 2, 4, "line 6: column 'load' has 'oops'"),
        (["--missing", "skip", "--gaps", "skip"], 0, 4, "line 6 skipped"),
        (["--gaps", "fail"], 2, 0, "gaps=fail needs on-error=fail"),
    ],
)
def test_as_asked(capsys, table, options, code, count, words):
    found, lines, err = told(capsys, *table, *options)
    assert (found, len(lines)) == (code, count)
    assert words in err


def test_a_table_stops_and_goes_on(capsys, table, tmp_path):
    state = str(tmp_path / "state")
    _, whole, _ = told(capsys, *table)
    parts = []
    for _ in range(5):
        code, some, _ = told(capsys, *table, "--load-state", state, "--save-state", state, "--limit", "1")
        parts += some
        assert code == 0
    for one, other in zip(parts, whole, strict=True):
        assert one.pop("forecast")["load"] == pytest.approx(other.pop("forecast")["load"], abs=1e-4)
        assert one == other


def test_sound_from_a_file(capsys, tmp_path):
    soundfile = pytest.importorskip("soundfile")
    model = saved(tmp_path / "model", SoundReader(), 3, task="classification", labels=("blues", "jazz", "rock"))
    samples = np.random.default_rng(0).uniform(-0.5, 0.5, (44100, 2))
    path, state = tmp_path / "a.wav", str(tmp_path / "state")
    soundfile.write(path, samples, 44100)
    arguments = [str(tmp_path / "model"), str(path)]
    code, whole, err = told(capsys, *arguments)
    assert (code, err) == (0, "")
    assert len(whole) == 9
    assert all(line["label"] in model.info.labels for line in whole)
    _, parts, _ = told(capsys, *arguments, "--save-state", state, "--limit", "4")
    _, rest, _ = told(capsys, *arguments, "--load-state", state)
    assert [line["token"] for line in [*parts, *rest]] == list(range(1, 10))
    for one, other in zip([*parts, *rest], whole, strict=True):
        assert one["probabilities"] == pytest.approx(other["probabilities"], abs=1e-5)
    code, _, err = told(capsys, str(tmp_path / "model"), str(path), "--format", "csv")
    assert code == 2
    assert "is for lines" in err
