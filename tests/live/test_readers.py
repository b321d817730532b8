"""Models trained on tables and on audio, streamed as by the command."""

import csv
import io
import json
import sys
from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest
import torch

import nystream as ns
from nystream.cli import main
from nystream.data.frames import FramesReader
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
    torch.manual_seed(0)
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


def streamed(capsys, *arguments):
    code = main(["stream", *arguments])
    out, err = capsys.readouterr()
    return code, [json.loads(line) for line in out.splitlines()], err


def test_a_record_that_is_skipped_leaves_a_gap_that_is_filled(capsys, table):
    code, lines, err = streamed(capsys, *table)
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
        (["--on-error", "fail", "--missing", "fill", "--gaps", "skip"], 2, 4, "line 6: column 'load' is 'oops'"),
        (["--missing", "skip", "--gaps", "skip"], 0, 4, "line 6 skipped"),
        (["--gaps", "fail"], 2, 0, "--gaps fail needs --on-error fail"),
    ],
)
def test_as_asked(capsys, table, options, code, count, words):
    found, lines, err = streamed(capsys, *table, *options)
    assert (found, len(lines)) == (code, count)
    assert words in err


def test_a_table_stops_and_goes_on(capsys, table, tmp_path):
    state = str(tmp_path / "state")
    _, whole, _ = streamed(capsys, *table)
    parts = []
    for _ in range(5):
        code, some, _ = streamed(capsys, *table, "--load-state", state, "--save-state", state, "--limit", "1")
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
    code, whole, err = streamed(capsys, *arguments)
    assert (code, err) == (0, "")
    assert len(whole) == 9
    assert all(line["label"] in model.info.labels for line in whole)
    _, parts, _ = streamed(capsys, *arguments, "--save-state", state, "--limit", "4")
    _, rest, _ = streamed(capsys, *arguments, "--load-state", state)
    assert [line["token"] for line in [*parts, *rest]] == list(range(1, 10))
    for one, other in zip([*parts, *rest], whole, strict=True):
        assert one["probabilities"] == pytest.approx(other["probabilities"], abs=1e-5)
    code, _, err = streamed(capsys, str(tmp_path / "model"), str(path), "--format", "csv")
    assert code == 2
    assert "is for lines" in err


BEGIN = datetime(2024, 1, 1)


def rows_of(count, **changes):
    """Hours of a table; `changes` are by row number."""
    random = np.random.default_rng(0)
    rows = [
        {"when": (BEGIN + timedelta(hours=i)).isoformat(" "), "load": round(100 + random.normal(), 3), "sky": "clear"}
        for i in range(count)
    ]
    for name, change in changes.items():
        rows[int(name[1:])] |= change
    return rows


def as_csv(rows):
    file = io.StringIO()
    writer = csv.DictWriter(file, rows[0])
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def piped(monkeypatch, text):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def values(lines):
    return [(line["token"], line["time"], line["forecast"]) for line in lines]


def test_every_format_gives_the_same_to_the_bit(capsys, monkeypatch, table, tmp_path):
    rows, model = rows_of(40), table[0]
    (tmp_path / "a.csv").write_text(as_csv(rows))
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    pl.DataFrame(rows).write_parquet(tmp_path / "a.parquet")
    found = [streamed(capsys, model, str(tmp_path / name))[1] for name in ("a.csv", "a.jsonl", "a.parquet")]
    piped(monkeypatch, as_csv(rows).replace(",", "\t"))
    found.append(streamed(capsys, model, "-")[1])
    session = ns.live.Session(ns.StreamModel.from_pretrained(model))
    found.append([answer.to_dict() for row in rows for answer in session.take(row)])
    assert len(found[0]) == 40
    assert all(values(one) == values(found[0]) for one in found)


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_stopped_at_any_row_it_goes_on_to_the_bit(capsys, table, tmp_path, form):
    rows, path = rows_of(30, _7={"load": None}, _8={"when": "2031-01-01"}), tmp_path / f"a.{form}"
    if form == "parquet":
        pl.DataFrame(rows).write_parquet(path)
    else:
        path.write_text(as_csv(rows) if form == "csv" else "\n".join(map(json.dumps, rows)))
    _, whole, _ = streamed(capsys, table[0], str(path), "--missing", "fill")
    parts, state = [], ["--load-state", str(tmp_path / "state"), "--save-state", str(tmp_path / "state")]
    while len(parts) < len(whole):
        code, some, _ = streamed(capsys, table[0], str(path), "--missing", "fill", *state, "--limit", "4")
        parts += some
        assert code == 0
    assert parts == whole


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "2024-01-05 00:00,5,clear\n2024-01-05 01:00,5,clear\n",
            "'2024-01-05 00:00', '5', 'clear' is a column of the model",
        ),
        ("1,2,3\n4,5,6\n", "standard input: records are 3 numbers without names, but the model needs 'when', 'load'"),
        ("when,load,x\n2024-01-05,5,clear\n" + "2024-01-06,5,clear\n" * 9, "'sky' is missing from the columns"),
    ],
)
def test_a_source_that_does_not_fit_is_one_error(capsys, monkeypatch, table, text, words):
    piped(monkeypatch, text)
    code, lines, err = streamed(capsys, table[0], "-")
    assert (code, lines, err.count("\n")) == (2, [], 1)
    assert words in err


def test_numbers_that_nobody_can_hold_are_bad_lines(capsys, monkeypatch, table):
    bad = [{"load": 10**400}, {"load": 1e39}, {"load": "1e39"}, {"load": 1e400}, {"when": 10**400}]
    rows = rows_of(12, **{f"_{2 * i + 1}": change for i, change in enumerate(bad)})
    piped(monkeypatch, "\n".join(map(json.dumps, rows)))
    code, lines, err = streamed(capsys, table[0], "-")
    assert code == 0
    assert sum(not line["gap"] for line in lines) == 7
    assert [line.split(" skipped")[0] for line in err.splitlines()[:5]] == [
        f"nystream: line {n}" for n in (2, 4, 6, 8, 10)
    ]
    assert "'load' is NaN, Inf or too large for float32" in err


@pytest.mark.parametrize("options", [[], ["--gaps", "skip"]])
@pytest.mark.parametrize("year", ["2025", "2124", "1970"])
def test_a_wrong_time_does_not_silence_the_stream(capsys, monkeypatch, table, options, year):
    rows = rows_of(60)
    rows[30]["when"] = rows[30]["when"].replace("2024", year)
    piped(monkeypatch, as_csv(rows))
    code, lines, err = streamed(capsys, table[0], "-", *options)
    assert code == 0
    assert len(lines) == (59 if options else 60)
    assert [line["record"] for line in lines if not line["gap"]] == [n + 2 for n in range(60) if n != 30]
    assert "line 32: " in err
    assert err.endswith("nystream: 1 of 60 lines dropped\n")


def test_a_gap_longer_than_can_be_filled_does_not_stop_the_stream(capsys, monkeypatch, table):
    rows = rows_of(10) + [row | {"when": row["when"].replace("2024", "2026")} for row in rows_of(10)]
    piped(monkeypatch, as_csv(rows))
    code, lines, err = streamed(capsys, table[0], "-")
    assert (code, len(lines)) == (0, 20)
    assert "line 13: it confirms the row before it" in err
    assert "17,534 missing rows skipped" in err
    assert "dropped" not in err


def test_what_was_done_in_training_is_done_again(capsys, monkeypatch, tmp_path):
    rows = rows_of(6, _2={"load": None})[:4] + rows_of(9)[7:]
    for gaps, missing, count in (("skip", "skip", 5), ("fill", "fill", 9), ("fail", "fail", 8)):
        reader = TableReader(
            (Column("load"), Column("sky", ("clear", "cloudy"))),
            ("load",),
            time="when",
            step=3600.0,
            gaps=gaps,
            missing=missing,
        )
        saved(tmp_path / gaps, reader, 1, task="forecasting", labels=("load",), horizon=1, seconds=3600.0)
        piped(monkeypatch, as_csv(rows))
        code, lines, _ = streamed(capsys, str(tmp_path / gaps), "-")
        assert (code, len(lines)) == (0, count + (gaps == "fail"))  # a line that is skipped leaves a gap that is filled
        assert ("for" in lines[0]) is (gaps != "skip")
        assert lines[0].get("ahead") == (1 if gaps == "skip" else None)


def test_many_bad_lines_do_not_fill_the_log(capsys, monkeypatch, table):
    rows = rows_of(2500)
    for row in rows[1:-1]:
        row["load"] = "x"
    piped(monkeypatch, as_csv(rows))
    code, _, err = streamed(capsys, table[0], "-")
    assert code == 0
    numbers = [line.split()[2] for line in err.splitlines() if " skipped: " in line]
    assert numbers == ["3", "4", "5", "6", "7", "12", "102", "1002"]
    assert "nystream: 2,498 of 2,500 lines skipped" in err


def test_a_last_line_that_was_half_written_is_read_again(capsys, table, tmp_path):
    path, state, rows = tmp_path / "a.csv", str(tmp_path / "state"), rows_of(8)
    text = as_csv(rows).replace("\r\n", "\n")
    arguments = [table[0], str(path), "--save-state", state, "--load-state", state]
    path.write_text(text)
    _, whole, _ = streamed(capsys, table[0], str(path))
    found = []
    for cut in (len("when,lo"), 70, 72, len(text) - 3, len(text)):
        path.write_text(text[:cut])
        code, lines, _ = streamed(capsys, *arguments)
        assert code in (0, 2)  # where there is no line yet
        found += lines
    assert found == whole


def test_a_session_is_not_written_over_what_is_read(capsys, table, tmp_path):
    source, beside = tmp_path / "t.csv", tmp_path / "t.state.partial"
    beside.write_text("mine")
    for target in (source, beside):
        code, lines, err = streamed(capsys, table[0], str(source), "--save-state", str(target))
        assert (code, lines, err.count("\n")) == (2, [], 1)
    assert streamed(capsys, *table, "--save-state", str(tmp_path / "t.state"))[0] == 0
    assert source.read_text() == TABLE
    assert beside.read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "t.csv", "t.state", "t.state.partial"]


@pytest.mark.parametrize("text", ["", "\n\n", "when,load,sky\n"])
def test_an_empty_source_is_an_error(capsys, monkeypatch, table, tmp_path, text):
    piped(monkeypatch, text)
    assert streamed(capsys, table[0], "-") == (2, [], "nystream: error: standard input has no lines\n")
    (tmp_path / "a.csv").write_text(as_csv(rows_of(3)))
    state = str(tmp_path / "state")
    for words in ("", "nothing new in"):
        code, _, err = streamed(capsys, table[0], str(tmp_path / "a.csv"), "--save-state", state, "--load-state", state)
        assert code == 0
        assert words in err


def test_times_with_a_zone_stay_so(capsys, monkeypatch, tmp_path):
    reader = TableReader((Column("load"),), ("load",), time="when", step=3600.0, zoned=True)
    saved(tmp_path / "model", reader, 1, task="forecasting", labels=("load",), horizon=1, seconds=3600.0)
    piped(monkeypatch, "when,load\n2024-01-01T02:00:00+02:00,1\n2024-01-01T01:00:00,2\n2024-01-01T01:00:00Z,3\n")
    code, lines, err = streamed(capsys, str(tmp_path / "model"), "-")
    assert code == 0
    assert [(line["time"], line["for"]) for line in lines] == [
        ("2024-01-01T00:00:00Z", "2024-01-01T01:00:00Z"),
        ("2024-01-01T01:00:00Z", "2024-01-01T02:00:00Z"),
    ]
    assert "line 3 skipped: 'when' is '2024-01-01T01:00:00', but times must have a time zone" in err


def test_features_by_place_by_name_and_in_folders(capsys, monkeypatch, tmp_path):
    reader, folder = FramesReader(2), tmp_path / "files"
    saved(tmp_path / "model", reader, 2, task="detection", labels=("a", "b"))
    model, x = str(tmp_path / "model"), np.random.default_rng(0).normal(size=(20, 2)).astype(np.float32)
    folder.mkdir()
    np.save(folder / "one.npy", x[:12])
    np.savez(folder / "two.npz", x=x[12:], y=np.zeros(8, int))
    alone = [streamed(capsys, model, str(folder / name))[1] for name in ("one.npy", "two.npz")]
    code, lines, err = streamed(capsys, model, str(folder))
    assert (code, err) == (0, "")
    assert [line.pop("file") for line in lines] == ["one.npy"] * 12 + ["two.npz"] * 8
    assert lines == alone[0] + alone[1]  # each is a stream of its own
    parts, state = [], ["--load-state", str(tmp_path / "state"), "--save-state", str(tmp_path / "state")]
    for _ in range(3):
        parts += streamed(capsys, model, str(folder), *state, "--limit", "7")[1]
    assert [{name: value for name, value in line.items() if name != "file"} for line in parts] == lines
    named = [{"feature 1": float(b), "feature 0": float(a)} for a, b in x[:12]]
    piped(monkeypatch, "\n".join(map(json.dumps, named)))
    assert streamed(capsys, model, "-")[1] == alone[0]
    np.save(tmp_path / "wide.npy", np.zeros((50, 3)))
    code, lines, err = streamed(capsys, model, str(tmp_path / "wide.npy"))
    assert (code, lines, err.count("\n")) == (2, [], 1)
    assert "records have 3 numbers, but the model takes 2" in err
    saved(tmp_path / "untimed", TableReader((Column("load"),), ("load",)), 1, task="forecasting", labels=("load",))
    for model in (tmp_path / "model", tmp_path / "untimed"):
        code, _, err = streamed(capsys, str(model), str(folder), "--gaps", "fill")
        assert code == 2
        assert "records have no time" in err
