"""Several series in one model: reading, splits, scores."""

from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nystream.data import read_table
from nystream.data.forecast import forecast
from nystream.data.forecast_scores import ERRORS, PINBALL, pinball_loss
from nystream.data.known import with_ahead
from nystream.data.ordered_rows import series_in_order
from nystream.data.reader import reader_from_dict
from nystream.data.records import RecordRows
from nystream.data.run import train
from nystream.data.series import FILE, as_series, read_for, read_series, read_tables, series_in
from nystream.data.series_scores import MIN_ROWS, RELATIVE, mean_errors, series_errors
from nystream.data.settings import Settings
from nystream.data.table import Table
from nystream.data.table_reader import Column, TableReader

START = datetime(2024, 1, 1)
READER = TableReader(
    (Column("load", usual=10.0), Column("kind", ("a", "b")), Column("area", usual=3.0), Column("wind", usual=1.0)),
    ("load", "wind"),
    time="time",
    step=3600.0,
    periods=(24.0,),
    lags=(1, 3),
    ahead=2,
    centred=True,
    gaps="fill",
    series="meter",
    static=("area",),
    series_rows=7,
)


def rows_of(name, hours, random, **fields):
    size = 10.0 ** random.integers(-2, 5)
    return [
        {
            "time": (START + timedelta(hours=int(hour))).isoformat(),
            "meter": name,
            "load": float(size * (5 + random.normal())),
            "kind": str(random.choice(["a", "b"])),
            "area": float(len(name)),
            "wind": float(random.normal()),
            **fields,
        }
        for hour in hours
    ]


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 14), min_size=1, max_size=7),
    lags=st.sampled_from([(), (1, 3), (5,)]),
    seed=st.integers(0, 1000),
)
def test_whole_tables_single_records_and_batches_agree_in_every_bit(lengths, lags, seed):
    random, reader = np.random.default_rng(seed), replace(READER, lags=lags)
    series = {}
    for number, length in enumerate(lengths):
        hours = np.cumsum(random.choice([1, 1, 1, 2], length)) + random.integers(0, 50)  # gaps, and starts of their own
        series["m" * (number + 1)] = rows_of("m" * (number + 1), hours, random)
    places = random.permutation([name for name, rows in series.items() for _ in rows])
    left = {name: iter(rows) for name, rows in series.items()}
    table = Table("rows.csv", pl.DataFrame([next(left[name]) for name in places]))
    found = series_in(table, "meter")
    assert sorted(found.series) == sorted(series)
    rows, starts, _ = series_in_order(reader, found)
    ends = [*starts[1:], len(rows.x)]
    live = reader.live()
    for name, start, end in zip(found.series, starts, ends, strict=True):
        live = reader.live()
        tokens = [token for record in series[name] for token in live.read(record)]
        assert len(tokens) == end - start
        for token, row in zip(tokens, range(start, end), strict=True):
            assert token.x.tobytes() == rows.x[row].tobytes()
            assert token.scale.tobytes() == rows.scale[row].tobytes()
            assert token.base.tobytes() == rows.base[row].tobytes()
    states, one = live.states(), reader.live()
    states.grow(len(series))
    fresh, expected = one.state, [one.state] * len(series)
    for slot in range(len(series)):
        states.store(slot, fresh)
    for step in range(max(lengths)):
        slots = np.array([slot for slot, name in enumerate(series) if step < len(series[name])])
        records = [series[name][step] for name in series if step < len(series[name])]
        batch = states.batch(slots, RecordRows(records))
        usual = [] if batch is None else batch.places.tolist()
        for place, (slot, record) in enumerate(zip(slots.tolist(), records, strict=True)):
            one.state = expected[slot]
            tokens = one.read(record)
            expected[slot] = one.state
            if place in usual:
                (token,) = tokens
                assert batch.x[usual.index(place), 0].tobytes() == token.x.tobytes()
                assert batch.scale[usual.index(place)].tobytes() == token.scale.tobytes()
            else:
                states.store(slot, one.state)
        if batch is not None:
            states.advance(slots[batch.places], batch)
        for slot, state in enumerate(expected):
            loaded = states.load(slot)
            assert all(a.tobytes() == b.tobytes() for a, b in zip(loaded.running, state.running, strict=True))


def test_memory_is_restored_with_the_statistics():
    random = np.random.default_rng(0)
    records, live, other = rows_of("m", range(20), random), READER.live(), READER.live()
    for record in records[:12]:
        live.read(record)
    other.remember(live.memory())
    for record in records[12:]:
        assert live.read(record)[0].x.tobytes() == other.read(record)[0].x.tobytes()
    with pytest.raises(ValueError, match="statistics of 1 columns, but the reader has 2"):
        other.remember(live.memory() | {"running": [3, [1.0], [1.0]]})
    plain = replace(READER, series=None, static=(), series_rows=0)
    assert "running" not in plain.live().memory()


def test_reader_is_saved_with_the_series_and_without_one_as_before():
    assert reader_from_dict(READER.to_dict()) == READER
    plain = replace(READER, series=None, static=(), series_rows=0)
    assert not {"series", "static", "series_rows"} & set(plain.to_dict())
    assert reader_from_dict(plain.to_dict()) == plain


def test_numbers_are_scaled_by_their_own_series_and_static_columns_are_not():
    random = np.random.default_rng(0)
    base = rows_of("small", range(30), random)
    large = [{**row, "meter": "large", "load": 1e6 * row["load"] + 1e7, "area": 9.0} for row in base]
    mixed = [row for pair in zip(base, large, strict=True) for row in pair]
    rows, starts, _ = series_in_order(READER, series_in(Table("t", pl.DataFrame(mixed)), "meter"))
    small, big = np.split(rows.x, starts[1:])
    columns = READER.names
    for place, name in enumerate(columns):
        if name == "area":
            assert set(small[:, place]) == {2.0}
            assert set(big[:, place]) == {6.0}
        else:
            np.testing.assert_allclose(small[:, place], big[:, place], atol=1e-4)


def long_table(lengths, static=False, seed=0, interleaved=True):
    random, frames = np.random.default_rng(seed), []
    for number, length in enumerate(lengths):
        hours = np.arange(length)
        load = 10.0**number * (5 + np.sin(2 * np.pi * hours / 24 + number) + 0.1 * random.normal(size=length))
        columns = {
            "time": [START + timedelta(hours=int(hour) + 100 * number) for hour in hours],
            "meter": [f"m{number}"] * length,
            "load": load,
        }
        if static:
            columns |= {"size": [float(number)] * length, "region": ["north" if number % 2 else "south"] * length}
        frames.append(pl.DataFrame(columns))
    frame = pl.concat(frames)
    return frame.sort("time", maintain_order=True) if interleaved else frame


def problem_of(frame, horizon=3, **options):
    table = Table("meters.csv", frame)
    return forecast(series_in(table, "meter"), ["load"], horizon, **options)


def test_each_series_is_split_by_shares_and_short_ones_are_trained_on():
    problem = problem_of(long_table([200, 400, 6, 2]))
    assert problem.split.series == ("m0", "m1", "m2")
    assert problem.split.tables == (0, 200, 600)
    assert problem.ranges("train") == ((0, 157), (200, 517), (600, 603))
    assert problem.ranges("valid") == ((157, 177), (517, 557))
    assert problem.ranges("test") == ((177, 197), (557, 597))
    assert "4 series by 'meter', 2 to 400 rows each" in problem.notes
    assert "1 series dropped: no more than 3 rows" in problem.notes
    assert problem.scored("test", 9).tolist() == [*range(177, 197), *range(557, 597)]
    assert len(problem.part("valid", 9).length) == 2
    assert problem.longest == 317
    assert np.isnan(problem.y[197:200]).all()  # nothing is known after the end of a series
    assert np.isnan(problem.y[200 : 200 + MIN_ROWS]).all()
    change = problem.rows.base[303] - problem.rows.base[300]
    assert problem.y[300, 0] == pytest.approx(change / problem.rows.scale[300, 0], rel=1e-6)


def test_series_are_split_by_times():
    problem = problem_of(long_table([300, 300]), split=("2024-01-10", "2024-01-12"))
    assert problem.ranges("train") == ((0, 213), (300, 413))  # the second one begins 100 hours later
    assert problem.ranges("test") == ((261, 297), (461, 597))
    with pytest.raises(ValueError, match="leaves a part without rows"):
        problem_of(long_table([300, 300]), split=("2025-01-10", "2025-01-12"))


def test_other_tables_are_validated_on():
    other = as_series(Table("late.csv", long_table([100, 150], seed=5)), "meter")
    problem = forecast(series_in(Table("t", long_table([200, 300])), "meter"), ["load"], 3, held_out={"test": other})
    assert problem.ranges("test") == ((500, 597), (600, 747))
    assert problem.split.series == ("m0", "m1", "m0", "m1")
    assert problem.scored("test", 50).tolist() == [*range(550, 597), *range(650, 747)]
    same = as_series(Table("same.csv", long_table([200, 300])), "meter")
    flattered = forecast(series_in(Table("t", long_table([200, 300])), "meter"), ["load"], 3, held_out={"test": same})
    assert any(note.startswith("500 rows of same.csv are also in the source") for note in flattered.notes)


def test_static_columns_are_found():
    problem = problem_of(long_table([200, 200, 300], static=True), linear=True, columns=("size", "region"))
    assert problem.reader.static == ("size",)
    assert problem.reader.column_names == ("load", "size", "region")
    assert problem.reader.series_rows == 8 * 7 * 24
    assert any("'size'" in note and "same in all rows of a series" in note for note in problem.notes)
    size = problem.rows.x[:, problem.reader.names.index("size")]
    assert len(set(size[:200])) == 1
    assert len(set(size)) == 3


def test_long_table_folder_and_list_of_files_have_the_same_tokens(tmp_path):
    frame = long_table([150, 220, 180])
    frame.write_csv(tmp_path / "long.csv", datetime_format="%Y-%m-%dT%H:%M:%S")
    folder = tmp_path / "meters"
    folder.mkdir()
    for (name,), part in frame.partition_by("meter", as_dict=True).items():
        part.drop("meter").write_csv(folder / f"{name}.csv", datetime_format="%Y-%m-%dT%H:%M:%S")
    long = read_tables([tmp_path / "long.csv"], "meter")
    files = sorted(folder.glob("*.csv"))
    problems = [forecast(source, ["load"], 3) for source in (long, read_tables([folder]), read_tables(files))]
    first, *others = problems
    assert first.split.series == ("m0", "m1", "m2")
    for problem in others:
        assert problem.rows.x.tobytes() == first.rows.x.tobytes()
        assert problem.y.tobytes() == first.y.tobytes()
        assert problem.split.series == first.split.series
        assert problem.reader == replace(first.reader, series=FILE)
    # A long table in several files.
    frame[:200].write_csv(tmp_path / "1.csv", datetime_format="%Y-%m-%dT%H:%M:%S")
    frame[200:].write_csv(tmp_path / "2.csv", datetime_format="%Y-%m-%dT%H:%M:%S")
    parts = forecast(read_tables([tmp_path / "1.csv", tmp_path / "2.csv"], "meter"), ["load"], 3)
    assert parts.rows.x.tobytes() == first.rows.x.tobytes()
    with pytest.raises(ValueError, match=r"trained on one series, so it reads one table, but .*meters is a folder"):
        read_for(replace(READER, series=None, static=(), series_rows=0), [folder])
    # A model of one form reads the other: without the column, each file is a series.
    assert read_series([folder], "meter").series == ("m0", "m1", "m2")
    assert read_series([files[0]], "meter").series == ("m0",)


def test_errors_name_the_series_and_the_file(tmp_path):
    frame = long_table([50, 50])
    table = Table("meters.csv", frame, first_line=2)
    with pytest.raises(ValueError, match=r"series='x': meters.csv has no such column; it has 'time', 'meter', 'load'"):
        series_in(table, "x")
    for options in ({"targets": ["meter"]}, {"targets": ["load"], "columns": ["meter"]}):
        with pytest.raises(ValueError, match="'meter' is also the series column"):
            forecast(series_in(table, "meter"), **options)
    twice = Table("meters.csv", pl.concat([frame, frame.filter(pl.col("meter") == "m1")[-1:]]), first_line=2)
    with pytest.raises(ValueError, match=r"meters.csv, series 'm1' is not regular in time, line 102"):
        forecast(series_in(twice, "meter"), ["load"])
    empty = frame.with_columns(meter=pl.when(pl.int_range(pl.len()) == 7).then(None).otherwise(pl.col("meter")))
    with pytest.raises(ValueError, match="line 9: 'meter' is empty, so the series of the row is unknown"):
        series_in(Table("meters.csv", empty, first_line=2), "meter")
    (tmp_path / "a.csv").write_text("time,load\n2024-01-01,1\n")
    (tmp_path / "b.csv").write_text("time,other\n2024-01-01,1\n")
    with pytest.raises(ValueError, match=r"b.csv has no column 'load', but a.csv does"):
        read_tables([tmp_path])
    (tmp_path / "b.csv").write_text(
        "time,load\n2024-01-01,1\n2024-01-02,2\n2024-01-03,3\n2024-01-04,oops\n2024-01-05,5"
    )
    with pytest.raises(ValueError, match=r"line 5 of b.csv has 'oops'"):
        forecast(read_tables([tmp_path]), ["load"])
    (tmp_path / "b.csv").rename(tmp_path / "a.tsv")
    with pytest.raises(ValueError, match="the same name but for the suffix"):
        read_tables([tmp_path])


def test_errors_by_series_are_those_of_each_series_alone():
    random = np.random.default_rng(0)
    numbers = np.repeat([0, 2, 3], [5, 9, 4])
    y, output = random.normal(size=(18, 2, 3)), random.normal(size=(18, 2, 3, 2))
    y[3, 0] = np.nan
    errors = series_errors(output, y, np.zeros_like(y), numbers, (0.3, 0.7))
    assert errors.numbers.tolist() == [0, 2, 3]
    absolute, squared = ERRORS
    for place, number in enumerate(errors.numbers):
        of_series = numbers == number
        error = (output.mean(-1) - y)[of_series]  # of the middle of both quantiles
        np.testing.assert_allclose(errors.ours[absolute][place], np.nanmean(np.abs(error), 0), rtol=1e-14)
        np.testing.assert_allclose(errors.ours[squared][place], np.sqrt(np.nanmean(error**2, 0)), rtol=1e-14)
        loss = pinball_loss(output[of_series], y[of_series], (0.3, 0.7))
        np.testing.assert_allclose(errors.ours[PINBALL][place], loss, rtol=1e-14)
        naive = np.nanmean(np.abs(y[of_series]), 0)
        ratio = errors.ours[absolute][place] / naive
        np.testing.assert_allclose(errors.relative[absolute][place], ratio, rtol=1e-14)
    scores = mean_errors(errors, ["a", "b"], (1, 2, 3))
    assert scores["mean absolute error of b, mean over series"] == pytest.approx(errors.ours[absolute][:, 1].mean())
    second = scores["pinball loss relative to persistence, geometric mean over series (2 rows ahead)"]
    assert second == pytest.approx(np.exp(np.log(errors.relative[PINBALL][..., 1]).mean()))


def test_series_have_quantiles_at_several_horizons(tmp_path):
    frame = long_table([300, 260, 320])
    problem = problem_of(frame, linear=True, horizon="1..3", quantiles=(0.1, 0.9), minimum=-3.0)
    result = train(Settings(source="frame", epochs=2, window=16), problem, tmp_path / "run", log=print, show=False)
    scores = result.scores["test"]
    assert next(iter(scores["model"])).startswith("pinball loss relative to persistence")
    assert scores["model"].keys() == scores["ridge"].keys()
    assert 0.5 < scores["model"]["share from quantile 0.1 to 0.9"] < 1
    by_series = problem.series_scores("test", result.warm, result.output)
    assert len(by_series) == 3


def test_scores_do_not_depend_on_the_units_of_a_series():
    problem, scaled = (problem_of(frame, linear=True) for frame in _in_two_units())
    for name in ("persistence", "a day ago"):
        ours, theirs = (each.baselines("test", 20)[name] for each in (problem, scaled))
        first = next(iter(ours))
        assert RELATIVE in first
        assert ours[first] == pytest.approx(theirs[first], rel=1e-6)
    assert problem.baselines("test", 20)["persistence"][first] == 1.0


def _in_two_units():
    frame = long_table([300, 300, 40])
    yield frame
    yield frame.with_columns(
        load=pl.when(pl.col("meter") == "m1").then(1000 * pl.col("load")).otherwise(pl.col("load"))
    )


def test_what_is_known_in_advance_is_that_of_the_same_series():
    frame = long_table([60, 60]).with_columns(plan=pl.int_range(pl.len()).cast(pl.Float64) ** 1.5)
    problem = problem_of(frame, known=("plan",), columns=("plan",))
    ahead = with_ahead(Table("t", frame), problem.reader).frame
    for name in ("m0", "m1"):
        part = ahead.filter(pl.col("meter") == name)
        assert part["plan ahead"].to_list() == part["plan"].shift(-3).to_list()


def test_rows_of_a_series_may_be_newest_first():
    frame = long_table([80, 90], interleaved=False)
    turned = pl.concat([frame[:80].reverse(), frame[80:]])
    problem = problem_of(turned)
    assert problem.rows.x.tobytes() == problem_of(frame).rows.x.tobytes()
    assert "1 series newest first: sorted by time" in problem.notes


def test_a_table_read_from_a_file_keeps_its_lines(tmp_path):
    frame = long_table([40, 40]).with_columns(pl.col("load").cast(pl.String))
    frame[13, "load"] = "oops"
    frame.write_csv(tmp_path / "meters.csv", datetime_format="%Y-%m-%dT%H:%M:%S")
    with pytest.raises(ValueError, match="line 15"):
        forecast(series_in(read_table(tmp_path / "meters.csv"), "meter"), ["load"])


def test_a_constant_series_is_scored_and_has_its_truth():
    frame = long_table([300, 300]).with_columns(
        pl.when(pl.col("meter") == "m1").then(7.0).otherwise(pl.col("load")).alias("load")
    )
    problem = problem_of(frame)
    rows = problem.scored("test", 20)
    of_constant = problem.split.table_of(rows) == 1
    assert (problem.truth(rows)[of_constant] == 7.0).all()
    assert np.isnan(problem.y[rows][of_constant]).all()  # there is nothing to learn


def test_persistence_with_a_minimum_is_relative_to_itself():
    frame = long_table([300, 300])
    problem = problem_of(frame, minimum=float(frame["load"].median()))
    first, second, *_ = problem.baselines("test", 20)["persistence"].values()
    assert (first, second) == (1.0, 1.0)
    assert any("below minimum" in note for note in problem.notes)


def test_a_day_ago_at_later_horizons_is_the_last_known_day():
    problem = problem_of(long_table([400]), horizon=(1, 24, 30))
    rows = problem.scored("test", 20)
    scores = problem.baselines("test", 20)["a day ago"]
    base = problem.rows.base[:, 0]
    truth, naive = problem.truth(rows)[:, 0], np.stack([base[rows - 23], base[rows], base[rows - 18]], 1)
    expected = np.abs(naive - truth).mean()
    assert scores["mean absolute error, mean over series"] == pytest.approx(expected)
