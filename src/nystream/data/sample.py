"""The sample data set of the package: hourly electricity demand of 24 areas of the United States."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

FILE = Path(__file__).with_name("sample.npz")  # made by tools/electricity_sample.py; see sample.LICENSE.txt


def csv_lines(share: float = 1.0) -> Iterator[str]:
    """Yield a header and the last share of the hours: time, demand of every area and total, in megawatts."""
    with np.load(FILE, allow_pickle=False) as arrays:
        areas, minutes, demand = arrays["region"], arrays["time"], arrays["x"].astype(int)  # [24], [N], [N, 24]
    yield ",".join(["time", *areas, "total"])
    first = len(demand) - round(share * len(demand))
    for time, row in zip(minutes[first:].astype("datetime64[m]"), demand[first:], strict=True):
        yield ",".join(map(str, [time, *row, row.sum()]))
