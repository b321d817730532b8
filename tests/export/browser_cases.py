"""Records with the tokens that Python's readers make of them, for the page's reader to be compared with."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from nystream.config import ModelInfo
from nystream.data.columns import Column
from nystream.data.forecast_values import forecasts, layout_of
from nystream.data.frames import FramesReader
from nystream.data.known import with_ahead
from nystream.data.reader import LiveReader, Reader, RecordError
from nystream.data.sounds import SoundReader
from nystream.data.table import read_table
from nystream.data.table_reader import TableReader
from nystream.data.timestamps.parse import parse_time
from nystream.data.vectors import LiveVectors
from nystream.live.answers import sigmoid, softmax

LOAD, TEMPERATURE = Column("load", usual=20.0), Column("temperature", usual=3.5)
WEATHER = Column("weather", ("fair", "rain", "true"), usual=1.0)
HOURLY = TableReader(
    columns=(LOAD, TEMPERATURE, WEATHER),
    targets=("load",),
    time="time",
    step=3600.0,
    periods=(24.0, 12.0, 168.0),
    centred=True,
    missing="fill",
    gaps="fill",
    lags=(1, 2, 24),
    ahead=3,
)

TIMES = [
    *(("iso", text) for text in ("2024-02-29", "2024-01-01 12:30", "2024-01-01T12:30:15.25", "2024-01-01T24:00")),
    *(
        ("iso", text)
        for text in ("2024-01-01T10:00Z", "2024-01-01 10:00 +0130", "2024-01-01 10:00 UTC", "20240101T1030")
    ),
    *(
        ("iso", text)
        for text in ("2023-02-29", "1704067200", "yesterday", "2024-01-01T25:00", "2024-01-01T10:00-05:30")
    ),
    *(
        ("%d.%m.%Y %H:%M", text)
        for text in ("31.12.2024 23:45", "1.2.2024 24:00", "2024-12-31 10:00", "31.2.2024 1:00")
    ),
    *(("%m/%d/%y %I:%M %p", text) for text in ("12/31/24 11:45 PM", "1/2/70 12:05 am", "13/1/24 1:00 PM")),
    *(("%d %b %Y", "5 Mar 2021"), ("%Y-%m", "2024-11"), ("%Y%m%d%H", "2024123123"), ("%Y%m%d%H", "202412312")),
    *(("seconds", "1704067200.5"), ("seconds", "12"), ("milliseconds", "1704067200000"), ("seconds", "x")),
]


def all_cases(folder: Any) -> dict[str, Any]:
    return {
        "readers": list(_readers(folder)),
        "times": [_time(form, text) for form, text in TIMES],
        "forecasts": list(_forecasts()),
        "probabilities": list(_probabilities()),
        "refused": list(_refused()),
    }


def _readers(folder: Any) -> Iterator[dict[str, Any]]:
    rows = _hours(200)
    yield _case("filled", HOURLY, rows)
    yield _case("skipped", dataclasses.replace(HOURLY, missing="skip", gaps="skip"), rows)
    yield _case("strict", dataclasses.replace(HOURLY, missing="fail", gaps="fail", lags=()), rows)
    yield _case("inexact clock", dataclasses.replace(HOURLY, missing="fail", gaps="fail"), _inexact())
    yield _case("UTC", dataclasses.replace(HOURLY, zoned=True), [row | {"time": f"{row['time']}Z"} for row in rows])
    yield _case(
        "zones mixed", dataclasses.replace(HOURLY, zoned=False), [*rows[:5], rows[5] | {"time": "2024-01-01T05Z"}]
    )
    yield _case("no time", dataclasses.replace(HOURLY, time=None, step=None, ahead=0), rows)
    yield _case("two targets", dataclasses.replace(HOURLY, targets=("temperature", "load"), lags=(2, 5)), rows)
    series = dataclasses.replace(HOURLY, series="site", series_rows=40, static=("temperature",))
    yield _case("series", series, rows)
    yield _case("series, no lags", dataclasses.replace(series, lags=(), static=()), rows)
    monthly = dataclasses.replace(HOURLY, step=2_629_746.0, months=1, day=31, periods=(), ahead=0)
    days = ["2023-12-31", "2024-01-31", "2024-02-29", "2024-04-30", "2024-05-31", "2024-05-31", "2024-06-30"]
    yield _case(
        "months",
        monthly,
        [{"time": day, "load": i, "temperature": "", "weather": "fair"} for i, day in enumerate(days)],
    )
    german = dataclasses.replace(HOURLY, decimal=",.", form="%d.%m.%Y %H:%M", clock="hour", lags=())
    fields = [
        ("1.2.2024", "7", "1.013,5"),
        ("1.2.2024 00:00", "8:00", "12,25"),
        ("1.2.2024", "0900", "1.5"),
        ("1.2.2024", "", "2"),
    ]
    yield _case(
        "date and clock",
        german,
        [{"time": d, "hour": h, "load": v, "temperature": "1", "weather": "rain"} for d, h, v in fields],
    )
    yield _known(folder)
    numbers = [["1", "2.5"], ["3", "1e2"], ["nan", "1"], ["x", "1"], ["4", "inf"], ["5", "6"]]
    yield _case("vectors", LiveVectors(2), numbers, ordered=True)
    named = [{"a": a, "b": b, "c": "0"} for a, b in numbers]
    yield _case("names", LiveVectors(2, ("b", "a")), named)
    yield _case("frames", FramesReader(2), [{"feature 1": a, "feature 0": b} for a, b in numbers])
    yield _case("hops", FramesReader(2, ("a", "b"), hop=3), named * 3)
    yield _case("groups", LiveVectors(2, together=2), [["1", "2", "3", "4"], ["5", "6", "7", "8"]], ordered=True)
    yield _case("audio", SoundReader(), _wave(), tolerance=1e-4)


def _case(
    name: str, reader: Reader | LiveReader, records: Sequence[Any], tolerance: float = 1e-6, ordered: bool = False
) -> dict[str, Any]:
    live = reader.live() if isinstance(reader, Reader) else reader
    answers = [_answer(live, record) for record in records]
    if isinstance(reader, Reader):
        info, width, together = {"reader": reader.to_dict()}, len(reader.names), 1
    else:
        assert isinstance(live, LiveVectors)
        info, width, together = {"inputs": list(live.names)}, live.width, live.together
    card = {"x": {"shape": ["streams", width]}, "update_size": together, "info": info}
    given = [record.tolist() if isinstance(record, np.ndarray) else record for record in records]
    return {
        "name": name,
        "card": card,
        "records": given,
        "expected": answers,
        "tolerance": tolerance,
        "ordered": ordered,
    }


def _answer(live: LiveReader, record: Any) -> list[dict[str, Any]] | None:
    """The tokens of a record; None if it cannot be read."""
    try:
        tokens = live.read(record)
    except RecordError:
        return None
    timed = [None if token.time is None else int(token.time.astype(np.int64)) for token in tokens]
    due = [None if token.time is None else live.ahead(token.time, 3) for token in tokens]
    return [
        {
            "x": token.x.astype(float).tolist(),
            "time": time,
            "gap": token.gap,
            "filled": list(token.filled),
            "base": None if token.base is None else token.base.tolist(),
            "scale": None if token.scale is None else token.scale.tolist(),
            "due": None if later is None else int(later.astype(np.int64)),
        }
        for token, time, later in zip(tokens, timed, due, strict=True)
    ]


def _hours(count: int) -> list[dict[str, Any]]:
    """Rows with everything that can happen to rows: empty fields, gaps, jitter, repeats, jumps, wrong times."""
    rng = np.random.default_rng(0)
    time, rows = np.datetime64("2024-01-01T00:00:00", "s"), list[dict[str, Any]]()
    for number in range(count):
        time += np.timedelta64(1, "h") * (1 + (number % 17 == 16) * 3 + (number == 120) * 500)
        jitter = np.timedelta64(int(rng.integers(-300, 300)), "s") if number % 5 == 0 else np.timedelta64(0, "s")
        row = {
            "time": str(time + jitter).replace("T", " " if number % 2 else "T"),
            "load": f"{1e4 + 100 * np.sin(number / 4) + rng.normal():.3f}",
            "temperature": str(number % 9 - 4),
            "weather": ["fair", " rain", "TRUE", "hail"][number % 4 if number % 11 else 3],
        }
        for name, every in (("load", 13), ("temperature", 7), ("weather", 19), ("time", 29)):
            if number % every == every - 1:
                row[name] = ["", "NA", "-"][number % 3]
        rows.append(row)
    rows[0]["load"] = ""
    rows[40] = rows[39]
    rows[60] |= {"time": "2031-01-01"}
    rows[70] |= {"time": "2011-01-01"}
    rows[80] |= {"time": "soon"}
    rows[85] |= {"load": "many"}
    rows[86] |= {"load": "inf"}
    return rows


def _inexact() -> list[dict[str, Any]]:
    """Complete rows whose times are off by up to a fifth of a step, and one that is off by more."""
    minutes = [0, 70, 110, 190, 235, 319, 360, 441, 480]
    start = np.datetime64("2024-03-01T00:00")
    return [{"time": str(start + minute), "load": "1", "temperature": "2", "weather": "fair"} for minute in minutes]


def _known(folder: Any) -> dict[str, Any]:
    """A column that is known in advance, read ahead from later rows."""
    reader = dataclasses.replace(HOURLY, known=("temperature",), known_rows=3)
    rows = _hours(100)
    lines = ["time,load,temperature,weather", *(",".join(row.values()) for row in rows)]
    path = folder / "known.csv"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    table = with_ahead(read_table(path), reader)
    records = [dict(record) for record in table.records()]
    return _case("known in advance", reader, records) | {"records": rows, "ahead": True}


def _wave() -> list[Any]:
    """Two seconds of a rising tone with noise and silence, in chunks of any length."""
    rng = np.random.default_rng(0)
    t = np.arange(32_000) / 16_000
    wave = 0.5 * np.sin(2 * np.pi * (200 + 1500 * t) * t) + 0.01 * rng.normal(size=len(t))
    wave[20_000:24_000] = 0
    return np.split(wave.astype(np.float32), [100, 3000, 3001, 9000, 20_500])


def _time(form: str, text: str) -> dict[str, Any]:
    try:
        time, zoned = parse_time(text, form)
    except (ValueError, OverflowError):
        return {"form": form, "text": text, "time": None}
    return {"form": form, "text": text, "time": time, "zoned": zoned}


def _forecasts() -> Iterator[dict[str, Any]]:
    rng = np.random.default_rng(0)
    for horizons, quantiles, minimum, scaled in (
        ((), (), None, False),
        ((1, 6), (), 0.0, False),
        ((), (0.1, 0.5, 0.9), None, True),
        ((1, 2, 3), (0.05, 0.95), -1.0, True),
    ):
        info = ModelInfo(
            "forecasting",
            ("a", "b"),
            horizon=horizons[-1] if horizons else 1,
            horizons=horizons,
            quantiles=quantiles,
            minimum=minimum,
        )
        count = 2 * max(1, len(horizons)) * max(1, len(quantiles))
        y, base = rng.normal(size=count).astype(np.float32), rng.normal(size=2)
        scale = rng.random(2) if scaled else None
        expected = forecasts(y, layout_of(info, count), base, scale)
        yield {
            "y": y.astype(float).tolist(),
            "meaning": {"names": ["a", "b"], "horizons": list(horizons) or [1], "quantiles": list(quantiles)},
            "base": base.tolist(),
            "scale": None if scale is None else scale.tolist(),
            "minimum": minimum,
            "expected": expected.ravel().tolist(),
        }


def _probabilities() -> Iterator[dict[str, Any]]:
    y = np.array([-30.0, 2.0, 0.5, 88.0])
    for several, function in ((True, sigmoid), (False, softmax)):
        yield {"y": y.tolist(), "several": several, "expected": function(y).tolist()}


def _refused() -> Iterator[dict[str, Any]]:
    """Settings that the page says it cannot follow."""
    known = HOURLY.to_dict()
    for change, setting in (
        ({"timezone": "Europe/Berlin"}, "reader.timezone='Europe/Berlin'"),
        ({"form": "%A %d"}, "%A"),
        ({"fancy": 1}, "reader.fancy"),
        ({"kind": "video"}, "reader.kind='video'"),
    ):
        card = {"x": {"shape": ["streams", len(HOURLY.names)]}, "update_size": 1, "info": {"reader": known | change}}
        yield {"card": card, "setting": setting}
