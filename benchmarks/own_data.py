"""What `nystream train` makes of tables and folders with all its defaults, beside simple baselines.

    python benchmarks/own_data.py --data FOLDER

Tables of the packaged sample and of EIA-930 (docs/data.md): single areas, totals, and totals with their areas as
columns, one of them with all 117, the tokens of the paper. Tokens of GTZAN with one genre per file, and of THUMOS14
with the actions of every frame, as folders. A quarter of the areas as series of one model. Written to
results/own_data.json.
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
from nystream.lab.tasks import actions, audio
from nystream.lab.tasks.electricity import eia930

ROWS = 17_000  # two years
AREAS = ("BPAT", "TEPC", "ISNE-4003", "GCPD")


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
    areas = {name: series.values[:, place] for place, name in enumerate(series.names)}
    yield "EIA-930, total with all 117 areas", lines(series.time, {"total": series.values.sum(1)} | areas), 1


def lines(times: Any, columns: dict[str, Any]) -> list[str]:
    values = np.column_stack(list(columns.values())).round(1).tolist()
    stamps = np.datetime_as_string(np.asarray(times).astype("datetime64[s]"))
    return [
        ",".join(["time", *columns]),
        *(",".join(map(str, [t, *row])) for t, row in zip(stamps, values, strict=True)),
    ]


def scored_table(text: list[str], horizon: int, **options: str) -> dict[str, Any]:
    """Test errors of the model and the baselines, and the time of the training with its baselines."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        path.write_text("\n".join(text))
        found = scored({"source": str(path), "target": "total", "horizon": horizon, **options}, Path(folder))
    return {"rows": len(text) - 1, "horizon": horizon, **found}


def series(folder: Path) -> Iterator[tuple[str, list[str], int]]:
    """Names, lines and horizons of long tables, whose column `area` names the series and `load` is the target."""
    data = eia930.load(folder / "eia930_117x43848_hourly.npz")
    stamps = np.datetime_as_string(np.asarray(data.time[:ROWS]).astype("datetime64[s]"))
    areas = data.names[::4]
    columns = [data.values[:ROWS, data.names.index(area)].round(1).tolist() for area in areas]
    text = ["area,time,load"]
    text += [
        f"{area},{t},{x}"
        for area, values in zip(areas, columns, strict=True)
        for t, x in zip(stamps, values, strict=True)
    ]
    yield f"EIA-930, {len(areas)} areas as series", text, 24


def gtzan(data: Path, folder: Path) -> dict[str, str]:
    """Write the tracks into one subfolder per genre; return the options."""
    tokens = audio.load(data / "gtzan_yamnet_tokens.npz")
    for x, genre, track in zip(tokens.x.numpy(), tokens.y.tolist(), tokens.tracks, strict=True):
        place = folder / "tracks" / tokens.genres[genre]
        place.mkdir(parents=True, exist_ok=True)
        np.save(place / f"{track}.npy", x)
    return {"source": str(folder / "tracks")}


def thumos14(data: Path, folder: Path) -> dict[str, str]:
    """Write training and test videos into two folders; return the options."""
    videos = actions.load(data / "thumos14_i3d_pca256_i8.npz")
    for name, part in (("videos", videos.train), ("test", videos.test)):
        (folder / name).mkdir()
        (folder / name / "classes.txt").write_text("\n".join(actions.CLASSES))
        for i in range(len(part.data)):
            x, y = part.data.stream(i)
            np.savez(folder / name / f"{i}.npz", x=x.numpy(), y=y.numpy())
    return {"source": str(folder / "videos"), "test": str(folder / "test")}


def scored(options: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Test scores of the model and the baselines, and the time of the training with its baselines."""
    settings = Settings(**options)
    began = time.monotonic()
    result = train(settings, open_for_training(settings), folder / "run", log=lambda line: None, show=False)
    return {"test": result.scores["test"], "seconds": round(time.monotonic() - began)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("NYSTREAM_DATA"))
    data = Path(parser.parse_args().data)
    forecasts, many, classes = [], [], []
    for name, text, horizon in tables(data):
        forecasts.append({"table": name, **scored_table(text, horizon)})
        print(forecasts[-1], flush=True)
    for name, text, horizon in series(data):
        many.append({"table": name, **scored_table(text, horizon, target="load", series="area")})
        print(many[-1], flush=True)
    for name, write in (("GTZAN, one genre per file", gtzan), ("THUMOS14, actions in every frame", thumos14)):
        with tempfile.TemporaryDirectory() as folder:
            classes.append({"folder": name, **scored(write(data, Path(folder)), Path(folder))})
        print(classes[-1], flush=True)
    write_results("own_data", {"tables": forecasts, "series": many, "folders": classes})


if __name__ == "__main__":
    main()
