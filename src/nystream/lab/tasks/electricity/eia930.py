"""EIA-930: hourly demand of 117 areas of the United States, 2020 to 2024.

The file `eia930_117x43848_hourly.npz` holds the hours of five years, one after another with none missing:

| key | what |
|---|---|
| `x` | [43848, 117] float32, megawatts: whole numbers, none below 1 |
| `time` | [43848] int64, minutes since 1970-01-01 00:00 UTC; 60 from one row to the next |
| `region` | [117] names: a balancing authority ("TVA"), or one and a part of it ("ERCO-COAS") |
| `ok` | [43848, 15] uint8, one bit an area, most significant first: 1 measured, 0 an estimate |

About 0.7 percent of the values are estimates. CC BY 4.0; T. H. Ruggles et al., Developing reliable hourly electricity
demand data through screening and imputation, Scientific Data 7, 155, 2020.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from nystream import files
from nystream.lab.tasks.electricity.series import Series

FILE = "eia930_117x43848_hourly.npz"
KEYS = ("x", "time", "region", "ok")


def load(path: str | Path) -> Series:
    """The series in the file, or in the folder that holds the file. Times are UTC."""
    path = Path(path)
    file = path / FILE if path.is_dir() else path
    if not file.is_file():
        raise FileNotFoundError(f"there is no {file}; path must be {FILE} or the folder that holds it")
    return read(file)


def read(file: Any) -> Series:
    """The series in an open file or a path of this layout, whatever its areas and hours."""
    with np.load(file, allow_pickle=False) as held:
        if missing := [key for key in KEYS if key not in held]:
            raise ValueError(f"{file} has no {', '.join(missing)}; it must have {', '.join(KEYS)}")
        x, minutes, region, ok = (held[key] for key in KEYS)
    if x.ndim != 2 or minutes.shape != x.shape[:1] or region.shape != x.shape[1:]:
        raise ValueError(
            f"{file} has x {list(x.shape)}, time {list(minutes.shape)} and region {list(region.shape)}, "
            f"but they must be [N, areas], [N] and [areas]"
        )
    if ok.dtype != np.uint8 or ok.shape != (x.shape[0], -(-x.shape[1] // 8)):
        raise ValueError(f"{file} has ok {ok.dtype} {list(ok.shape)}, but it must be uint8, one bit an area")
    known = np.unpackbits(ok, axis=1, count=x.shape[1]).astype(np.bool_)
    time = minutes.astype("datetime64[m]")
    return Series(x.astype(np.float32), time, tuple(str(name) for name in region), known)


def write(file: str | Path, series: Series) -> None:
    """Write a series of whole numbers below 65536 in this layout, x as uint16."""
    x = series.values.astype(np.uint16)
    if not np.array_equal(x, series.values):
        raise ValueError("series has values that are not whole numbers from 0 to 65535")
    minutes = series.time.astype("datetime64[m]").astype(np.int64)
    ok = np.packbits(series.known, axis=1)

    def save(partial: Path) -> None:
        with partial.open("wb") as opened:  # given a path, NumPy would add a suffix
            np.savez_compressed(opened, x=x, time=minutes, region=np.array(series.names), ok=ok)

    files.replace(Path(file), save)
