"""A small GTZAN: the real file layout, the real code, tiny models. Its scores have no meaning.

As a script: train and score a cell, slowly, for tests that kill it. tiny.py DATA WORK RESULTS MODEL LAYERS
"""

import os
import sys
import time
from pathlib import Path

import numpy as np

from nystream.lab.reproduce.problems import gtzan
from nystream.train import TrainConfig

GENRES, TRACKS, TOKENS, WIDTH = 10, 10, 8, 4
EPOCHS = 8


class Tiny(gtzan.Gtzan):
    window, embed_dim, num_heads, landmarks = TOKENS, 8, 2, 2
    landmark_tokens = 200
    sweep = (2, 4)

    def training(self, cell):
        return TrainConfig(epochs=EPOCHS, batch_size=16, lr=1e-2, checkpoint_every=2)

    def options(self, cell):
        return {"dropout": 0.1} if cell.recurrent else {"ff_dim": 8, "dropout": 0.1}


def write(folder, tokens=TOKENS, width=WIDTH, tracks=TRACKS, seed=0):
    """The file of the data set; genres differ in the mean of their tokens."""
    draw = np.random.default_rng(seed)
    labels = np.repeat(np.arange(GENRES), tracks)
    means = draw.integers(60, 196, (GENRES, width))
    x = means[labels][:, None] + draw.integers(-50, 51, (len(labels), tokens, width))
    part = np.tile(np.array([0, 0, 0, 0, 0, 1, 1, 2, 2, -1], np.int8), GENRES * tracks // 10)
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(
        folder / gtzan.Gtzan.file,
        tokens=x.astype(np.uint8),
        dequant_scale=np.float32(4 / 255),
        dequant_offset=np.float32(-2),
        labels=labels,
        genre_names=np.array([f"genre{i}" for i in range(GENRES)]),
        track_names=np.array([f"genre{y}.{i % tracks:05d}" for i, y in enumerate(labels)]),
        duplicate_group=np.arange(len(labels), dtype=np.int32),
        split_filtered=part,
    )
    return folder


def job(cell, data, work, splits=1, seeds=2, **options):
    from nystream.lab.reproduce.job import Job

    fields = {"device": "cpu", "command": "nystream reproduce gtzan", "show": False, **options}
    return Job(cell, splits, seeds, Path(data), Path(work), **fields)


def main(data, work, results, model, layers):
    import torch

    from nystream.lab.reproduce import store
    from nystream.train.many import Many

    step = Many.step

    def slow(*args):
        time.sleep(0.02)
        return step(*args)

    Many.step = slow

    torch.set_num_threads(1)
    gtzan.PROBLEM = Tiny()
    few = None if "full" in model else Tiny.landmarks
    cell = gtzan.PROBLEM.usual(model=model, layers=int(layers), landmarks=few)
    store.write(Path(results), job(cell, data, work).run())


if __name__ == "__main__":
    os.environ.setdefault("GIT_COMMIT", "unknown")
    main(*sys.argv[1:])
