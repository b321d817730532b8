"""What `nystream train` makes of tables with all its defaults, beside simple baselines.

    python benchmarks/own_data.py --data FOLDER

Tables of the packaged sample and of EIA-930 (docs/data.md): single areas, totals, and totals with all their areas as
columns. Written to results/own_data.json.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from _common import write_results

from nystream.data import sample
from nystream.data.open_source import open_for_training
from nystream.data.run import train
from nystream.data.settings import Settings
from nystream.lab.tasks.electricity import eia930

ROWS = 17_000  # two years
AREAS = ("BPAT", "TEPC", "ISNE-4003", "GCPD")
ERRORS = ("mean absolute error", "root mean squared error")


def tables(folder: Path) -> Iterator[tuple[str, list[str], int]]:
    """Names, lines and horizons of tables whose target is the column `total`."""
    yield "packaged sample, total of 24 areas with the areas", list(sample.csv_lines()), 24
    series = eia930.load(folder / "eia930_117x43848_hourly.npz")
    starts = range(0, len(series.time) - ROWS, (len(series.time) - ROWS) // (len(AREAS) + 1))
    for start, area in zip(starts, AREAS, strict=False):
        rows = slice(start, start + ROWS)
        values = series.values[rows, series.names.index(area)]
        for horizon in (1, 24):
            yield f"EIA-930, {area}", lines(series.time[rows], {"total": values}), horizon
    rows = slice(starts[-1], starts[-1] + ROWS)
    total = {"total": series.values[rows].sum(1)}
    yield "EIA-930, total", lines(series.time[rows], total), 1
    some = {name: series.values[rows, place] for place, name in enumerate(series.names) if place % 4 == 0}
    yield f"EIA-930, total with {len(some)} areas", lines(series.time[rows], total | some), 1


def lines(times: Any, columns: dict[str, Any]) -> list[str]:
    values = np.column_stack(list(columns.values())).round(1).tolist()
    stamps = np.datetime_as_string(np.asarray(times).astype("datetime64[s]"))
    return [
        ",".join(["time", *columns]),
        *(",".join(map(str, [t, *row])) for t, row in zip(stamps, values, strict=True)),
    ]


def scored(text: list[str], horizon: int) -> dict[str, Any]:
    """Test errors of the model and the baselines, and the time of the training with its baselines."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        path.write_text("\n".join(text))
        settings = Settings(source=str(path), target="total", horizon=horizon)
        began = time.monotonic()
        result = train(settings, open_for_training(settings), Path(folder) / "run", log=lambda line: None, show=False)
        seconds = time.monotonic() - began
    return {"rows": len(text) - 1, "horizon": horizon, "test": result.scores["test"], "seconds": round(seconds)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("NYSTREAM_DATA"))
    found = []
    for name, text, horizon in tables(Path(parser.parse_args().data)):
        found.append({"table": name, **scored(text, horizon)})
        errors = {model: [round(scores[error], 3) for error in ERRORS] for model, scores in found[-1]["test"].items()}
        print(f"{name}, {horizon} ahead, {found[-1]['seconds']} s: {errors}", flush=True)
    write_results("own_data", {"tables": found})


if __name__ == "__main__":
    main()
