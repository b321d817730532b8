"""The demonstration: what it streams is what the model says, and what it writes needs nothing else."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest
import torch
from rich.console import Console

from nystream.demo import page, screen
from nystream.demo.hours import Stream, Tally
from nystream.demo.models import WINDOW, errors
from nystream.demo.summary import NAMES, summarise


@pytest.fixture(scope="module")
def lines(trained):
    return summarise(trained, rounds=2, show=False)


@pytest.fixture
def tally(trained):
    stream, found = Stream(trained, weeks=2), Tally(trained.problem.deviation)
    for hour in stream:
        found.add(hour)
    return found


def console(width=80):
    return Console(file=io.StringIO(), width=width, height=24, color_system=None, force_terminal=False)


def test_the_stream_is_the_model_and_the_truth_is_the_series(trained, tally):
    problem, model = trained.problem, trained.models["co-fixed-single"]
    start = problem.edges[1]
    with torch.no_grad():
        y, _ = model.steps(problem.x[None, start - WINDOW + 1 : start + 336], model.init_state(1))
    total = problem.series.total()[problem.first + start + problem.ahead :][:336]
    assert len(tally.hours) == 336
    # In megawatts, of some 2e5: float32 has six digits.
    np.testing.assert_allclose([hour.truth for hour in tally.hours], total, rtol=1e-6)
    want = problem.last[start : start + 336, 0] + y[0, -336:, 0].numpy()
    np.testing.assert_allclose([hour.forecast for hour in tally.hours], want, rtol=1e-5)
    times = problem.series.time[problem.first + start + problem.ahead :][:336]
    assert [hour.time for hour in tally.hours] == list(times)


def test_the_tally_is_the_mean_so_far(trained, tally):
    missed = [(hour.forecast - hour.truth) / trained.problem.deviation for hour in tally.hours]
    assert tally.mse == pytest.approx(np.square(missed).mean())
    still = [(hour.before - hour.truth) / trained.problem.deviation for hour in tally.hours]
    assert tally.persistence == pytest.approx(np.square(still).mean())
    assert tally.microseconds > 0


def test_more_weeks_than_there_are_give_all_of_them(trained):
    assert len(Stream(trained, weeks=1000)) == len(trained.problem.test.x)


def test_full_attention_and_its_continual_twin_answer_the_same(trained):
    found = errors(trained)
    assert found["full"]["mse"] == pytest.approx(found["co-full-single"]["mse"], rel=1e-3)


def test_the_summary_has_every_model_and_baseline(lines):
    assert [line.name for line in lines] == [*NAMES.values(), "persistence", "ridge"]
    models = lines[: len(NAMES)]
    assert all(line.operations and line.microseconds and line.bytes for line in models)
    assert models[-1].operations < models[0].operations / 100


@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 60), (40, 12)])
def test_a_frame_fits_the_terminal(trained, tally, width, height):
    stream = Stream(trained, weeks=2)
    held = Console(file=io.StringIO(), width=width, height=height, color_system=None)
    held.print(screen.frame(tally, stream, (100.0, 400.0), width, height))
    rows = held.file.getvalue().rstrip("\n").split("\n")
    assert len(rows) <= height
    assert max(map(len, rows)) <= width
    assert "q quits" in rows[-1]


def test_the_log_has_a_line_a_week(trained):
    held = console()
    found = screen.tell(Stream(trained, weeks=2), held)
    assert len(found.hours) == 336
    assert held.file.getvalue().count("µs a step") == 2


def test_following_ends_by_itself_and_leaves_all_hours(trained):
    held = Console(file=io.StringIO(), width=80, height=24, force_terminal=True)
    assert len(screen.follow(Stream(trained, weeks=1), held, seconds=0.3).hours) == 168


def test_q_ends_it_early(trained, monkeypatch):
    from contextlib import contextmanager

    @contextmanager
    def pressed():
        yield lambda: "q"

    monkeypatch.setattr(screen, "pressed", pressed)
    held = Console(file=io.StringIO(), width=80, height=24, force_terminal=True)
    assert len(screen.follow(Stream(trained, weeks=8), held, seconds=60.0).hours) < 168


def test_the_page_needs_nothing_else(lines, tally):
    text = page.render(lines, tally, "nystream demo")
    assert not re.search(r"(src|href)=[\"']?https?:", text)
    assert "<script" not in text
    assert text.count("<svg") == 3
    for line in lines:
        assert line.name in text
