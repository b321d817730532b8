"""The default window of a run.

For a table with times, it follows the step of the rows. Demand, traffic or sales repeat every day, so attention should
see each phase of the day equally often: the window is the smallest whole number of days that has at least 48 rows
(hourly: two days, 48 rows; every 15 minutes: one day, 96 rows), of weeks for daily rows (49 rows), or of years for
weekly or monthly ones (52 or 48 rows). If that is more than 96 rows, the steps are short beside a day, and ridge
regression on lags, which the model starts from, already reads the last days; the window is then 64 rows, as for tables
without times and for files.

On two years of hourly demand of two areas, 1 and 24 hours ahead, forecasts were as good with 48 rows as with 64 or 168,
and somewhat worse with 24; with 168, training took three to four times as long.
"""

from __future__ import annotations

from nystream.data.forecast_problem import Forecast
from nystream.data.problem import Problem

WINDOW, MIN_WINDOW = 64, 4
LEAST, MOST = 48, 96  # rows of a whole number of cycles
DAY, WEEK, YEAR = 86400.0, 7 * 86400.0, 365.25 * 86400.0  # seconds


def default_window(problem: Problem) -> int:
    """The window for a source, shorter for little data."""
    seconds = problem.info.seconds if isinstance(problem, Forecast) else None
    return _fitting(WINDOW if seconds is None else window_of(seconds), problem)


def older_default(problem: Problem) -> int:
    """The default of versions in which it did not depend on the step of the rows."""
    return _fitting(WINDOW, problem)


def window_of(seconds: float) -> int:
    """The window for rows that are this far apart, if there are enough of them."""
    cycle = DAY if seconds < DAY else WEEK if seconds < WEEK else YEAR
    rows = round(cycle / seconds)
    drift = abs(rows * seconds / cycle - 1)
    if rows < 2 or drift > (0.02 if cycle == YEAR else 1e-6):  # no year is a whole number of weeks or months
        return WINDOW
    window = rows * -(-LEAST // rows)
    return window if window <= MOST else WINDOW


def _fitting(window: int, problem: Problem) -> int:
    """The window, or a shorter one: if the first window of a stream is not scored, it needs several."""
    if problem.short:
        return min(window, problem.longest)
    while window > MIN_WINDOW and 4 * window > problem.usual:
        window = max(MIN_WINDOW, window // 2)
    return window
