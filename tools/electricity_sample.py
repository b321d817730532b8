"""Make the electricity sample that comes with the package, from the full EIA-930 file.

    python tools/electricity_sample.py FOLDER      # the folder that holds eia930_117x43848_hourly.npz

Writes src/nystream/data/sample.npz: 24 large or telling areas from all over the country, the last three years, every
number as in the full file. Attribution and licence are in sample.LICENSE.txt beside it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from nystream.data.sample import FILE
from nystream.lab.tasks.electricity import eia930

MOST = 1_500_000  # bytes


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the electricity sample that comes with the package.")
    parser.add_argument("folder", type=Path, help=f"holds {eia930.FILE}")
    full = eia930.load(parser.parse_args().folder)
    year = full.time.astype("datetime64[Y]").astype(int) + 1970
    first, last = np.searchsorted(year, [eia930.YEARS[0], eia930.YEARS[1] + 1])
    eia930.write(FILE, full.select(eia930.AREAS, slice(int(first), int(last))))
    if FILE.stat().st_size > MOST:
        raise SystemExit(f"{FILE} has {FILE.stat().st_size} bytes, more than {MOST}")


if __name__ == "__main__":
    main()
