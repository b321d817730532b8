"""Tables as they come: trained on, scored and streamed by the commands."""

import json
import math
import runpy
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from nystream.cli import main
from nystream.data import run as running

small_run = runpy.run_path(str(Path(__file__).with_name("small_run.py")))
SMALL = small_run["SMALL"]
COUNT = 200
PREAMBLE, FOOTER = ["A station, of ours", ""], ["", "Source: us", "Total,,1"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(running, "MIN_UPDATES_PER_EPOCH", 2)


def local_rows():
    """Local times across the end of daylight saving time, as date and time of day, with a load and a wind."""
    moments = [datetime(2024, 10, 22, tzinfo=UTC) + timedelta(hours=i) for i in range(COUNT)]
    local = [moment.astimezone(ZoneInfo("Europe/Berlin")) for moment in moments]
    return [
        f"{time:%d.%m.%Y},{time:%H:%M},{100 + 10 * math.sin(i / 4) + i * 7 % 5:.2f},{i * 11 % 13}"
        for i, time in enumerate(local)
    ]


def test_a_table_as_it_comes(capsys, refused):
    header, rows = "day,clock,load,wind", local_rows()
    Path("data.csv").write_text("\n".join([*PREAMBLE, header, *rows[::-1], *FOOTER]))
    command = [
        "train",
        "data.csv",
        "--target",
        "load",
        "--horizon",
        "2",
        "--columns",
        "wind",
        "--known",
        "wind",
        *SMALL,
    ]
    assert "has 2 lines before line 3, which looks like its header" in refused(*command)
    command += ["--skip-lines", "2"]
    assert "the last 2 lines look like a footer: --skip-end 2 skips them" in refused(*command)
    command += ["--skip-end", "2"]
    assert "daylight saving time? train with --timezone" in refused(*command)
    command += ["--timezone", "Europe/Berlin"]
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "time columns 'day' and 'clock', one row every hour, local time of Europe/Berlin" in out
    assert "newest first: sorted by time" in out
    assert "'wind' is known in advance: live records have it as 'wind ahead'" in out

    edges = ["--skip-lines", "2", "--skip-end", "2"]
    assert main(["eval", "runs/data", "data.csv", *edges, "--json", "scores.json", "--plain"]) == 0
    capsys.readouterr()
    assert "data.csv is newest first" in refused("stream", "runs/data", "data.csv", "--skip-lines", "2")

    Path("ordered.csv").write_text("\n".join([*PREAMBLE, header, *rows, *FOOTER]))
    assert main(["stream", "runs/data", "ordered.csv", "--skip-lines", "2", "--json"]) == 0
    out, err = capsys.readouterr()
    assert "'day' and 'clock' is" not in out
    assert "5 of 203 rows skipped" in err  # an empty line, the footer, and two rows without a wind ahead
    answers = [json.loads(line) for line in out.splitlines()]
    assert len(answers) == COUNT - 2
    times = [answer["time"] for answer in answers]
    at = times.index("2024-10-27T02:00:00+02:00")
    assert times[at : at + 3] == [answers[at]["time"], "2024-10-27T02:00:00+01:00", "2024-10-27T03:00:00+01:00"]
    assert answers[at]["for"] == "2024-10-27T03:00:00+01:00"

    # Live records give the same answers.
    for place, row in enumerate(rows[:-2]):
        day, clock, load, _ = row.split(",")
        record = {"day": day, "clock": clock, "load": float(load), "wind ahead": rows[place + 2].split(",")[3]}
        with Path("live.jsonl").open("a") as file:
            file.write(json.dumps(record) + "\n")
    assert main(["stream", "runs/data", "live.jsonl", "--json"]) == 0
    live = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [answer["forecast"] for answer in live] == [answer["forecast"] for answer in answers]
    assert [answer["time"] for answer in live] == times


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--timezone", "Mars"], "timezone='Mars' is not the name of a time zone, such as Europe/Berlin or UTC"),
        (["--timezone", "UTC", "--time", "none"], "timezone='UTC': data.csv has no time column"),
        (["--skip-lines", "-1"], "skip_lines=-1"),
        (["--skip-end", "900"], "skip_end=900 leaves no rows"),
        (["--known", "rain"], "has no known column 'rain'"),
        (["--time", "time,total,b"], "time='time,total,b' must name one column, or two"),
    ],
)
def test_what_is_refused(refused, options, words):
    small_run["table"]()
    assert words in refused("train", "data.csv", "--target", "total", *options)
