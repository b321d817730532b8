"""Tokens computed from the rules in a card, and from nothing else, are those of the reader."""

import math

import numpy as np
import pytest

from nystream.data.columns import Column
from nystream.data.frames import FramesReader
from nystream.data.sounds import SoundReader
from nystream.data.table_reader import TableReader
from nystream.data.token_rules import token_rules

COLUMNS = (Column("load", usual=100.0), Column("day", ("mon", "tue")), Column("heat", usual=5.0))
TIMED = {"time": "time", "step": 3600.0, "periods": (24.0, 168.0)}
READERS = {
    "plain": TableReader(COLUMNS, ("load",)),
    "centred, lags": TableReader(COLUMNS, ("load", "heat"), **TIMED, centred=True, lags=(1, 3), ahead=5),
    "series": TableReader(COLUMNS, ("load",), **TIMED, lags=(1, 2), series="meter", static=("heat",), series_rows=4),
    "series, changes": TableReader(COLUMNS, ("load",), series="meter", series_rows=100),
    "known": TableReader(COLUMNS, ("load",), **TIMED, known=("heat",), known_rows=2),
}


class Statistics:
    """The running mean and deviation of a column of a series."""

    def __init__(self, limit):
        self.limit, self.seen, self.mean, self.variance = limit, 0, 0.0, 0.0

    def take(self, value):
        self.seen = min(self.seen + 1, self.limit)
        off = value - self.mean
        self.mean += off / self.seen
        self.variance += (off * (value - self.mean) - self.variance) / self.seen

    def scaled(self, difference):
        return difference / math.sqrt(self.variance) if self.variance > 0 else 0.0


def number(rule, records, statistics, seconds):
    """One number of the token of the last of some records of a table."""
    kind, now = rule["kind"], records[-1]
    if kind in ("sine", "cosine"):
        length = rule["hours"] * 3600
        angle = 2 * math.pi * ((seconds + rule["seconds_later"]) % length) / length
        return math.sin(angle) if kind == "sine" else math.cos(angle)
    field = rule["field"]
    if kind == "is":
        return float(now[field] == rule["value"])
    own = statistics.get(field)
    if kind == "number":
        return own.scaled(now[field] - own.mean) if rule.get("of_series") else now[field] - rule["minus"]
    rows = rule.get("rows", 1)
    if len(records) <= rows:
        return 0.0
    difference = records[-1 - rows][field] - now[field]
    difference = difference if kind == "earlier" else -difference
    return own.scaled(difference) if rule.get("of_series") else difference


@pytest.mark.parametrize("name", READERS)
def test_tables(name):
    reader, rng = READERS[name], np.random.default_rng(0)
    rules, live = token_rules(reader), reader.live()
    assert len(rules) == len(reader.names)
    fields = {rule["field"] for rule in rules if rule.get("of_series")}
    statistics, records = {field: Statistics(reader.series_rows) for field in fields}, []
    for hour in range(30):
        record = {"load": rng.normal(100, 10), "day": "mon" if hour % 3 else "tue", "heat": rng.normal(), "meter": "a"}
        record |= {"heat ahead": rng.normal(), "time": f"2024-01-{1 + hour // 24:02}T{hour % 24:02}:00:00"}
        records.append(record)
        for field, own in statistics.items():
            own.take(record[field])
        (token,) = live.read(record)
        seconds = 1704067200 + 3600 * hour  # since 1970
        wanted = [number(rule, records, statistics, seconds) for rule in rules]
        np.testing.assert_allclose(token.x, wanted, rtol=1e-6, atol=1e-6)


def test_features():
    assert token_rules(FramesReader(2, ("a", "b")))[1] == {"kind": "number", "field": "b"}
    rules = token_rules(FramesReader(2, ("a", "b"), hop=4))
    x = np.random.default_rng(0).normal(size=(4, 2)).astype(np.float32)
    live = FramesReader(2, ("a", "b"), hop=4).live()
    tokens = [token for record in x for token in live.read(record)]
    functions = {"mean": np.mean, "standard deviation": np.std, "minimum": np.min, "maximum": np.max}
    wanted = [functions[rule["kind"]](x[:, "ab".index(rule["field"])]) for rule in rules]
    np.testing.assert_allclose(tokens[0].x, wanted, rtol=1e-6)


def test_sound():
    reader = SoundReader(frames=3)
    rules, rule = token_rules(reader), token_rules(reader)[0]
    assert [each["band"] for each in rules] == [*range(64), *range(64)]
    samples = np.random.default_rng(0).normal(size=(rule["frames"] - 1) * rule["hop"] + rule["samples"])
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(rule["samples"]) / rule["samples"])
    frames = [samples[k * rule["hop"] :][: rule["samples"]] * hann for k in range(rule["frames"])]
    magnitudes = np.abs(np.fft.rfft(frames, rule["points"]))

    def mel(frequency):
        return 1127 * np.log1p(np.asarray(frequency) / 700)

    edges = np.linspace(mel(rule["lowest"]), mel(rule["highest"]), rule["bands"] + 2)
    at = mel(np.linspace(0, rule["rate"] / 2, rule["points"] // 2 + 1))[:, None]
    rising, falling = (at - edges[:-2]) / np.diff(edges)[:-1], (edges[2:] - at) / np.diff(edges)[1:]
    bands = np.maximum(0, np.minimum(rising, falling))
    bands[0] = 0
    log_mel = np.log(magnitudes @ bands + rule["offset"])
    wanted = [(np.mean if each["kind"].startswith("mean") else np.std)(log_mel[:, each["band"]]) for each in rules]
    np.testing.assert_allclose(reader.tokens(samples.astype(np.float32))[0], wanted, rtol=1e-3, atol=1e-3)
