"""How a record becomes a token, number by number, as plain data: for clients that cannot run the reader itself.

Each number of a token is described by a dictionary with a `kind`; docs/export.md lists the kinds. Tests compute tokens
from these rules alone, and compare them with those of the readers.
"""

from __future__ import annotations

from typing import Any

from nystream.data.frames import FramesReader
from nystream.data.hops import STATISTICS
from nystream.data.mel import BANDS, FRAME, HIGHEST, HOP, LOWEST, POINTS, YAMNET_OFFSET
from nystream.data.reader import Reader
from nystream.data.sounds import SoundReader
from nystream.data.table_reader import TableReader

Rule = dict[str, Any]


def token_rules(reader: Reader) -> list[Rule]:
    """One rule for each number of a token, in order."""
    if isinstance(reader, TableReader):
        return _of_table(reader)
    if isinstance(reader, SoundReader):
        return _of_sound(reader)
    if isinstance(reader, FramesReader):
        if reader.hop == 1:
            return [{"kind": "number", "field": name} for name in reader.fields]
        return [
            {"kind": statistic, "field": name, "records": reader.hop}
            for statistic in STATISTICS
            for name in reader.fields
        ]
    raise TypeError(f"reader is a {type(reader).__name__}, whose rules are not known")


def _of_table(reader: TableReader) -> list[Rule]:
    rules: list[Rule] = []
    by_series = {"of_series": True} if reader.series is not None else {}
    for place, column in enumerate(reader.live_form.columns):
        if column.categories:
            rules += [{"kind": "is", "field": column.name, "value": category} for category in column.categories]
        elif place in reader.scaled_places:
            rules.append({"kind": "number", "field": column.name, **by_series})
        else:
            rules.append({"kind": "number", "field": column.name, "minus": column.usual if reader.centred else 0.0})
    for target in reader.targets:
        if reader.lags:
            rules += [{"kind": "earlier", "field": target, "rows": lag, **by_series} for lag in reader.lags]
        else:
            rules.append({"kind": "change", "field": target, **by_series})
    if reader.time is not None:
        later = reader.ahead * (reader.step or 0.0)
        rules += [
            {"kind": wave, "hours": period, "seconds_later": later}
            for period in reader.periods
            for wave in ("sine", "cosine")
        ]
    return rules


def _of_sound(reader: SoundReader) -> list[Rule]:
    sound = {
        "rate": reader.rate,
        "frames": reader.frames,
        "samples": FRAME,
        "hop": HOP,
        "points": POINTS,
        "bands": BANDS,
        "lowest": LOWEST,
        "highest": HIGHEST,
        "offset": YAMNET_OFFSET,
    }
    return [
        {"kind": f"{statistic} of log-mel band", "band": band, **sound}
        for statistic in ("mean", "standard deviation")
        for band in range(BANDS)
    ]
