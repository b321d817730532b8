"""Finding the time column, and what can be wrong with it."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest

from nystream.data.table import Table, read_table
from nystream.data.timestamps.column import find_time, oldest_first

BEGIN = datetime(2024, 1, 1)


@pytest.fixture
def table(write_csv):
    return lambda **columns: read_table(write_csv(columns))


def rows(count=40, seconds=3600.0):
    return [(BEGIN + timedelta(seconds=seconds * i)).isoformat() for i in range(count)]


def test_the_first_one_is_taken_and_the_others_are_named(table):
    found, others = find_time(table(a=range(40), when=rows(), later=rows()))
    assert (found.name, found.note) == ("when", "time column 'when', one row every hour")
    assert others == ["later"]
    assert find_time(table(a=range(40), when=rows()), "none") == (None, ["when"])
    assert find_time(table(a=range(40)))[0] is None


def test_numbers_are_times_where_the_name_says_so(table):
    seconds = [1_700_000_000 + 60 * i for i in range(40)]
    again = [*seconds[:10], seconds[9], *seconds[10:-1]]
    for name in ("timestamp", "ts", "MESS_DATUM"):
        assert find_time(table(**{name: again, "a": range(40)}))[0].time_format == "seconds"
    assert find_time(table(counter=seconds, a=range(40)))[0] is None
    assert find_time(table(counter=seconds, a=range(40)), "counter")[0].note.endswith("every minute")
    found, others = find_time(table(epoch_us=[1_000_000 * second for second in seconds], when=rows()), "when")
    assert (found.name, others) == ("when", ["epoch_us"])


def test_columns_of_a_parquet_file():
    stamps = [BEGIN + timedelta(hours=i) for i in range(9)]
    frame = pl.DataFrame({"day": [stamp.date() for stamp in stamps], "length": [timedelta(1)] * 9, "when": stamps})
    found, others = find_time(Table("t.parquet", frame), "when")
    assert (found.time_format, found.spacing.step) == ("iso", np.timedelta64(1, "h"))
    assert others == ["day"]


def test_a_form_that_is_told(table):
    days = [(BEGIN + timedelta(days=i)).strftime("%d %b %Y") for i in range(40)]
    assert find_time(table(a=range(40), day=days))[0] is None
    assert (
        find_time(table(a=range(40), day=days), time_format="%d %b %Y")[0].note
        == "time column 'day', one row every day"
    )
    with pytest.raises(ValueError, match=r"matches no column of data\.csv; name the column with `time`"):
        find_time(table(a=range(40), day=days), time_format="%d %B, %Y")
    with pytest.raises(ValueError, match=r"data.csv, line 2: 'a' is '0', which is not a time"):
        find_time(table(a=range(40), day=days), "a", "%d %b %Y")


def test_a_clock_that_is_not_exact(table):
    jitter = np.random.default_rng(0).uniform(-0.4, 0.4, 200)
    stamps = [(BEGIN + timedelta(seconds=10 * i + float(jitter[i]))).isoformat() for i in range(200)]
    assert find_time(table(t=stamps, a=range(200)))[0].note == "time column 't', one row about every 10 seconds"


def test_a_time_that_never_changes_is_not_when_rows_were_measured(table):
    written = table(start=["2024-01-01"] * 20, when=rows(20), a=range(20))
    found, others = find_time(written)
    assert (found.name, others) == ("when", ["start"])


def test_a_date_and_a_time_of_day(table):
    days, clocks = zip(*(stamp.split("T") for stamp in rows(60)), strict=True)
    german = [".".join(day.split("-")[::-1]) for day in days]
    short = [clock[:5] for clock in clocks]
    for named in (None, "day,clock", ("day", "clock")):
        found, others = find_time(table(day=german, clock=short, a=range(60)), named)
        assert (found.name, found.clock, found.time_format) == ("day", "clock", "%d.%m.%Y %H:%M")
        assert found.note == "time columns 'day' and 'clock', one row every hour"
        assert others == []
    found, _ = find_time(table(clock=clocks, a=range(60), day=days))
    assert (found.name, found.clock, found.time_format) == ("day", "clock", "iso")
    found, _ = find_time(table(day=days[:20], clock=short[:20]))  # of one day
    assert (found.name, found.clock) == ("day", "clock")
    assert find_time(table(day=german, clock=short), time_format="%d.%m.%Y %H:%M")[0].clock == "clock"
    once = [(BEGIN + timedelta(days=i)).date().isoformat() for i in range(60)]
    assert find_time(table(day=once, opened=short))[0].clock is None  # a date per row is the time


def test_hours_of_the_day_are_joined_if_they_are_named(table):
    days, hours = [stamp[:10] for stamp in rows(72)], [i % 24 + 1 for i in range(72)]
    written = table(date=days, hour=hours, a=range(72))
    found, _ = find_time(written, "date,hour")
    assert found.spacing.step == np.timedelta64(1, "h")
    assert str(written.times("date", "iso", "hour")[23])[:16] == "2024-01-02T00:00"  # hour 24
    with pytest.raises(ValueError, match=r"repeats a time in 69 rows; .* name both: `time='date,hour'`;"):
        find_time(written)
    with pytest.raises(ValueError, match=r"time='date,hour,a' must name one column, or two"):
        find_time(written, "date,hour,a")
    with pytest.raises(ValueError, match=r"time='date,minute': data.csv has no column 'minute'; it has"):
        find_time(written, "date,minute")
    with pytest.raises(ValueError, match=r"time='a,hour' are not a date and a time of day .* first value is '0 01:00'"):
        find_time(written, "a,hour")
    with pytest.raises(ValueError, match=r"line 2: 'date' and 'a' is '2024-01-01 99:00', which is not a time"):
        find_time(table(date=days, a=[99, *hours[1:]]), "date,a")


def test_a_parquet_file_of_dates_and_times_of_day():
    stamps = [BEGIN + timedelta(minutes=30 * i) for i in range(99)]
    frame = pl.DataFrame({"day": [s.date() for s in stamps], "at": [s.time() for s in stamps], "a": range(99)})
    found, _ = find_time(Table("t.parquet", frame))
    assert (found.name, found.clock, str(found.spacing)) == ("day", "at", "30 minutes")


def test_newest_first(table):
    found, _ = find_time(table(t=rows()[::-1], a=range(40)))
    assert found.note == "time column 't', one row every hour"
    halves = [(BEGIN + timedelta(hours=12 * i)).strftime("%d/%m/%Y %H:%M") for i in range(12)]
    assert find_time(table(t=halves[::-1], a=range(12)))[0].time_format == "%d/%m/%Y %H:%M"  # evenly spaced as such
    written = table(t=[*rows()[:20:-1], rows()[21], None, *rows()[20::-1]], a=range(42))  # one twice, one empty
    turned = oldest_first(written, "t", "iso")
    assert turned.raw("a", 0) == "41"
    assert (turned.line(0), turned.line(41)) == ("line 43", "line 2")
    assert oldest_first(turned, "t", "iso") is turned
    fresh = Table(turned.name, turned.frame)
    np.testing.assert_array_equal(turned.times("t", "iso"), fresh.times("t", "iso"))


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("begin", ["2024-03-30T12:00", "2024-10-26T12:00"])
def test_local_times(table, begin, backwards):
    moments = [datetime.fromisoformat(begin).replace(tzinfo=UTC) + timedelta(minutes=15 * i) for i in range(120)]
    stamps = [moment.astimezone(ZoneInfo("Europe/Berlin")).strftime("%Y-%m-%d %H:%M") for moment in moments]
    written = table(t=stamps[::-1] if backwards else stamps, a=range(120))
    found, _ = find_time(written, timezone="Europe/Berlin")
    assert found.note == "time column 't', one row every 15 minutes, local time of Europe/Berlin"
    assert (oldest_first(written, "t", "iso", None, "Europe/Berlin") is not written) is backwards


def test_months_of_local_time(table):
    moments = [f"2024-{month:02d}-01T00:00:00+0{1 + (4 <= month <= 10)}:00" for month in range(1, 13)]
    found, _ = find_time(table(t=moments, a=range(12)), timezone="Europe/Berlin")
    assert str(found.spacing) == "1 month"


def test_time_zones_that_are_refused(table):
    with pytest.raises(ValueError, match=r"timezone='UTC': data.csv has no time column; name it with `time`"):
        find_time(table(a=range(9)), timezone="UTC")
    stamps = ["2024-03-31 01:00", "2024-03-31 02:00", "2024-03-31 03:00"]
    with pytest.raises(
        ValueError, match=r"data.csv, line 3: 't' is '2024-03-31 02:00', which is not a time: clocks in"
    ):
        find_time(table(t=stamps, a=range(3)), timezone="Europe/Berlin")


def test_what_is_refused(table):
    def refused(words, stamps, named=None):
        with pytest.raises(ValueError, match=words):
            find_time(table(t=stamps, a=range(len(stamps))), named)

    refused(
        "'t' repeats a time in 26 rows; if the table has several series, name",
        [*rows(14), *rows(14), *rows(12)],
    )
    refused("'t' is not in order, see line 3; sort the rows by time, oldest first", [*rows()[1::-1], *rows()[:1:-1]])
    refused("'t' is not in order", np.random.default_rng(0).permutation(rows()).tolist())
    days = [rows(240)[24 * day : 24 * day + 24] for day in range(10)]
    refused("'t' is not in order, see line 26; sort", [stamp for day in days[::-1] for stamp in day])
    refused("has fewer than two different times", rows(1))
    random = np.random.default_rng(0).exponential(10, 200).cumsum()
    refused(
        r"'t' is irregular: rows are .* apart, .* in the median; `time='none'` takes the rows in order",
        [(BEGIN + timedelta(seconds=float(second))).isoformat() for second in random],
    )
    refused("time column 't' is ambiguous: '03/04/2024' can be read in several ways", ["03/04/2024", "04/04/2024"])
    refused("not a column of times in a known format .*: its first value is 'x'; `time_format` gives", ["x", "y"], "t")
    refused("it is empty; `time_format`", ["", ""], "t")
    refused(r"line 12: 't' is 'x', which is not a time", [*rows(10), "x", *rows(40)[11:]])
