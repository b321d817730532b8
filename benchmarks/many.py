"""The cost of training many models at once: an epoch of 1, 5 and 25 models of GTZAN's table.

    python benchmarks/many.py --data FOLDER --device cuda

Each number is the second of two epochs: the first warms up. Written to results/many.json.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import torch
from _common import write_results

from nystream.lab.reproduce.problems import problem
from nystream.lab.reproduce.train import build
from nystream.train import TrainConfig, fit_many


def cost(folder: Path, device: str) -> dict[str, Any]:
    task = problem("gtzan")
    cell = task.usual(model="co-cont-single", landmarks=task.landmarks)
    runs = task.load(folder, cell).runs(splits=1, seeds=25)
    usual = task.training(cell)
    updates = len(runs[0].train) // usual.batch_size
    config = TrainConfig(epochs=1, batch_size=usual.batch_size, lr=usual.lr, steps_per_epoch=updates)
    seconds = {}
    for count in (1, 5, 25):
        for _ in range(2):
            models = [build(cell, run).to(device) for run in runs[:count]]
            began = time.monotonic()
            fit_many(models, runs[0].train, None, config, task=task.task(cell))
            seconds[str(count)] = time.monotonic() - began
        print(f"{count} models at once: {seconds[str(count)]:.2f} s an epoch", flush=True)
    return {"updates_per_epoch": updates, "seconds_per_epoch": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("NYSTREAM_DATA"))
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    if args.data is None:
        parser.error("say where the data sets are: --data FOLDER, or NYSTREAM_DATA")
    device = torch.cuda.get_device_name() if args.device == "cuda" else args.device
    print(write_results("many", {"device": device} | cost(args.data, args.device)))


if __name__ == "__main__":
    main()
