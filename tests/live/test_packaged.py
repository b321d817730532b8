"""The packaged model streams the packaged data, and beats persistence."""

from __future__ import annotations

import json

import numpy as np
import pytest

from nystream.cli import main
from nystream.data.sample import csv_lines
from nystream.lab.tasks.electricity import sample
from nystream.live.sources import open_source
from nystream.live.sources.lines import SAMPLE_SHARE


def test_the_sample_is_its_last_hours():
    lines = list(csv_lines(SAMPLE_SHARE))
    series = sample()
    assert lines[0].split(",") == ["time", *series.names, "total"]
    assert len(lines) == 1 + round(SAMPLE_SHARE * len(series))
    last = lines[-1].split(",")
    assert np.datetime64(last[0]) == series.time[-1]
    np.testing.assert_allclose([float(word) for word in last[1:]], [*series.values[-1], series.total()[-1]])


def test_the_packaged_model_is_far_ahead_of_saying_that_nothing_changes(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["stream", "demand", "sample", "--json"]) == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    total = sample().total()[-len(answers) :]
    forecast = np.array([answer["forecast"]["total"] for answer in answers])
    warm = 72  # its window
    missed = np.abs(forecast[warm:-1] - total[warm + 1 :]).mean()
    still = np.abs(total[warm:-1] - total[warm + 1 :]).mean()
    assert missed < 0.25 * still


def test_a_file_of_that_name_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert open_source("sample").name == "sample"
    (tmp_path / "sample").write_text("[1, 2]\n")
    assert open_source("sample").name == str(tmp_path / "sample")


@pytest.mark.parametrize("options", [{"follow": True}, {"form": "json"}])
def test_what_the_sample_is_not(options, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="sample is CSV and ends"):
        open_source("sample", **options)
