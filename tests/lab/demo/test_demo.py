"""The demo: it shows the outputs of the model, and its page is self-contained."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from nystream import costs
from nystream.lab.demo import page, summary
from nystream.lab.demo.hours import DemandStream, Tally
from nystream.lab.demo.models import WINDOW, errors
from nystream.lab.demo.summary import NAMES


@pytest.fixture(scope="module")
def scored(problem, learned):
    return summary.scored(problem, learned, show=False)


@pytest.fixture(scope="module")
def lines(scored, learned):
    return summary.timed(scored, learned, rounds=2, show=False)


def test_the_stream_is_the_model_and_the_truth_is_the_series(problem, learned, tally):
    model = learned["co-fixed-single"]
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


def test_the_tally_is_the_mean_so_far(tally):
    truth = np.array([hour.truth for hour in tally.hours])
    missed = np.abs([hour.forecast for hour in tally.hours] - truth)
    assert tally.error == pytest.approx(missed.mean())
    assert tally.share == pytest.approx((missed / truth).mean())
    assert tally.widest == pytest.approx((missed / truth).max())
    assert tally.persistence == pytest.approx(np.abs([hour.before for hour in tally.hours] - truth).mean())
    assert tally.microseconds > 0


def test_more_weeks_than_there_are_give_all_of_them(problem, learned):
    assert len(DemandStream(problem, learned["co-fixed-single"], weeks=1000)) == len(problem.test.x)


def test_full_attention_and_its_continual_twin_answer_the_same(problem, learned):
    one, other = (errors(problem, learned[variant]) for variant in ("full", "co-full-single"))
    assert one["mse"] == pytest.approx(other["mse"], rel=1e-3)


def test_the_summary_has_every_model_and_baseline(lines):
    assert [line.name for line in lines] == [*NAMES.values(), "persistence", "ridge"]
    assert all(line.cost is not None for line in lines[: len(NAMES)])
    assert all(line.cost is None for line in lines[len(NAMES) :])


def test_the_operations_are_those_that_run(lines):
    found = {line.variant: line.cost.operations for line in lines if line.cost}
    for variant in ("co-cont-single", "co-fixed-single"):
        assert found[variant] == costs.executed(variant, 64, 64, 4, 1, 4, form="partials").total
    assert found["full"] == 2 * 64 * 64 * 64
    assert found["co-full-single"] == 2 * 64 * 64


def test_what_was_not_timed_has_errors_and_no_costs(problem, scored, lines):
    assert [line.mse for line in scored] == [line.mse for line in lines]
    assert all(line.cells("-")[2:] == ("-", "-", "-") for line in scored)
    assert len(summary.notes(problem, scored)) < len(summary.notes(problem, lines))


def test_the_notes_say_what_is_counted(problem, lines):
    said = " ".join(summary.notes(problem, lines))
    assert f"{len(problem.test.x) - WINDOW + 1:,} held-out hours" in said
    assert "the first 63" in said
    assert "tokens alone would be 16 kB" in said


@pytest.fixture(scope="module")
def text(problem, learned, lines):
    tally = Tally()
    for hour in DemandStream(problem, learned["co-fixed-single"], weeks=1):
        tally.add(hour)
    return page.render(lines, tally, summary.notes(problem, lines), "nystream demo")


def test_the_page_needs_nothing_else(text, lines):
    assert not re.search(r"(src|href)=[\"']?https?:", text)
    assert "<script" not in text
    for line in lines:
        assert line.name in text


def test_the_page_has_every_plot_for_a_desk_and_for_a_phone(text):
    assert text.count('<div class="broad"><svg') == text.count('<div class="slim"><svg') == 3
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
