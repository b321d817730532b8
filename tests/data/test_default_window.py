from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nystream.data.default_window import LEAST, MOST, WINDOW, default_window, older_default, window_of
from nystream.data.open_source import forecast_table
from nystream.data.settings import Settings
from nystream.estimators.inputs import as_table

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0


@pytest.mark.parametrize(
    ("seconds", "window"),
    [
        (MINUTE, 64),
        (5 * MINUTE, 64),
        (15 * MINUTE, 96),
        (20 * MINUTE, 72),
        (30 * MINUTE, 48),
        (HOUR, 48),
        (3 * HOUR, 48),
        (5 * HOUR, 64),
        (12 * HOUR, 48),
        (DAY, 49),
        (2 * DAY, 64),
        (7 * DAY, 52),
        (365.25 / 12 * DAY, 48),
        (366 * DAY, 64),
    ],
)
def test_the_window_follows_the_step_of_the_rows(seconds, window):
    assert window_of(seconds) == window


@given(st.floats(1e-3, 1e9))
def test_any_step_has_a_window(seconds):
    assert LEAST <= window_of(seconds) <= MOST


def problem(rows, step):
    values = 50 + 10 * np.sin(np.arange(rows) / 24 * 2 * np.pi) + np.random.default_rng(0).normal(size=rows)
    times = {} if step is None else {"time": [datetime(2020, 1, 1) + i * step for i in range(rows)]}
    return forecast_table(Settings(source="data", target="load"), as_table(pl.DataFrame({**times, "load": values})))


@pytest.mark.parametrize(
    ("rows", "step", "window"),
    [
        (400, timedelta(hours=1), 48),
        (400, timedelta(days=1), 49),
        (400, timedelta(minutes=1), WINDOW),
        (400, None, WINDOW),
        (150, timedelta(hours=1), 24),  # a shorter window leaves more rows to train on
        (60, timedelta(hours=1), 6),
    ],
)
def test_tables(rows, step, window):
    assert default_window(problem(rows, step)) == window


def test_older_versions_had_one_window_for_all_steps():
    assert older_default(problem(400, timedelta(hours=1))) == WINDOW
