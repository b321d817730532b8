"""What `nystream train` makes of folders of feature files with all its defaults, beside logistic regression.

    python benchmarks/own_folders.py --data FOLDER

Tokens of GTZAN with one genre per file, and of THUMOS14 with the actions of every frame (docs/data.md), as folders.
Written to results/own_folders.json.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from _common import write_results

from nystream.data.open_source import open_for_training
from nystream.data.run import train
from nystream.data.settings import Settings
from nystream.lab.tasks import actions, audio


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


def scored(options: dict[str, str], folder: Path) -> dict[str, Any]:
    """Test scores of the model and the baselines, and the time of the training with its baselines."""
    settings = Settings(**options)
    began = time.monotonic()
    result = train(settings, open_for_training(settings), folder / "run", log=print, show=False)
    return {"test": result.scores["test"], "seconds": round(time.monotonic() - began)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("NYSTREAM_DATA"))
    data, found = Path(parser.parse_args().data), []
    for name, write in (("GTZAN, one genre per file", gtzan), ("THUMOS14, actions in every frame", thumos14)):
        with tempfile.TemporaryDirectory() as folder:
            found.append({"folder": name, **scored(write(data, Path(folder)), Path(folder))})
        print(found[-1], flush=True)
    write_results("own_folders", {"folders": found})


if __name__ == "__main__":
    main()
