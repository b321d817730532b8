"""EIA-930: hourly demand of 117 areas of the United States, 2020 to 2024.

The file `eia930_117x43848_hourly.npz` has every hour of five years:

| key | what |
|---|---|
| `x` | [43848, 117] float32, megawatts: whole numbers, none below 1 |
| `time` | [43848] int64, minutes since 1970-01-01 00:00 UTC; 60 from one row to the next |
| `region` | [117] names: a balancing authority ("TVA"), or one and a part of it ("ERCO-COAS") |
| `ok` | [43848, 15] uint8, one bit per area, most significant first: 1 measured, 0 estimated |

About 0.7 percent of the values are estimates. CC BY 4.0; T. H. Ruggles et al., Developing reliable hourly electricity
demand data through screening and imputation, Scientific Data 7, 155, 2020.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from nystream import files
from nystream.data import sample as sample_file
from nystream.lab.tasks.archive import read_archive
from nystream.lab.tasks.electricity.series import Series

FILE = "eia930_117x43848_hourly.npz"
KEYS = ("x", "time", "region", "ok")

# The sample that comes with the package.
# fmt: off
AREAS = (
    "SOCO", "TVA", "DUK", "FPL",  # the south-east
    "PJM-AEP", "PJM-CE", "PJM-DOM",  # the middle Atlantic and Chicago
    "MISO-0001", "MISO-0027", "MISO-8910",  # the Mississippi, from north to south
    "SWPP-OKGE", "ERCO-COAS", "ERCO-FWES", "ERCO-NCEN",  # Oklahoma and Texas
    "ISNE-4008", "NYIS-ZONJ", "NYIS-ZONK",  # Boston and New York
    "AZPS", "BPAT", "CISO-PGAE", "CISO-SCE", "NEVP", "PACE", "PSCO",  # the west
)
# fmt: on
YEARS = (2022, 2024)  # first and last


def load(path: str | Path) -> Series:
    """Read the series from the file, or from the folder that contains it. Times are UTC."""
    path = Path(path)
    file = path / FILE if path.is_dir() else path
    if not file.is_file():
        raise FileNotFoundError(f"{file} does not exist; path must be {FILE} or its folder")
    return read(file)


def read(file: Path) -> Series:
    """Read a series from a file of this layout, with any areas and hours."""
    x, minutes, region, ok = read_archive(file, KEYS).values()
    if x.ndim != 2 or minutes.shape != x.shape[:1] or region.shape != x.shape[1:]:
        raise ValueError(
            f"{file} has x {list(x.shape)}, time {list(minutes.shape)} and region {list(region.shape)}, "
            f"but they must be [N, areas], [N] and [areas]"
        )
    if ok.dtype != np.uint8 or ok.shape != (x.shape[0], -(-x.shape[1] // 8)):
        raise ValueError(f"{file} has ok {ok.dtype} {list(ok.shape)}, but it must be uint8, one bit per area")
    known = np.unpackbits(ok, axis=1, count=x.shape[1]).astype(np.bool_)
    time = minutes.astype("datetime64[m]")
    return Series(x.astype(np.float32), time, tuple(str(name) for name in region), known)


def sample() -> Series:
    """Hourly demand of 24 areas of the United States, 2022 to 2024, in megawatts; times are UTC.

    A slice of EIA-930 in the same layout, with unchanged numbers: the cleaned demand of T. H. Ruggles et al.,
    Developing reliable hourly electricity demand data through screening and imputation, Scientific Data 7, 155, 2020.
    Licensed CC BY 4.0, unlike the code: https://creativecommons.org/licenses/by/4.0/

    Example:
        >>> from nystream.lab.tasks import electricity
        >>> series = electricity.sample()
        >>> series.values.shape, str(series.time[0])
        ((26304, 24), '2022-01-01T00:00')
    """
    return read(sample_file.FILE)


def write(file: str | Path, series: Series) -> None:
    """Write a series of whole numbers below 65536 in this layout, with x as uint16."""
    x = series.values.astype(np.uint16)
    if not np.array_equal(x, series.values):
        raise ValueError("series has values that are not whole numbers from 0 to 65535")
    minutes = series.time.astype("datetime64[m]").astype(np.int64)
    ok = np.packbits(series.known, axis=1)

    def save(partial: Path) -> None:
        with partial.open("wb") as opened:  # given a path, NumPy would add a suffix
            np.savez_compressed(opened, x=x, time=minutes, region=np.array(series.names), ok=ok)

    files.replace(Path(file), save)
