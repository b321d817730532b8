"""Tiny files in the two public layouts."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest

from nystream.lab.tasks.actions import CLASSES


def labels(draw, frames, ambiguous=()):
    """[frames, 22], one class per frame; only the named frames are ambiguous."""
    hot = np.zeros((frames, 22), np.uint8)
    hot[np.arange(frames), draw.integers(0, 21, frames)] = 1
    for i in ambiguous:
        hot[i] = np.eye(22)[21]
    return hot


def ready(**changed):
    """The arrays of an I3D file: 7 training videos and 2 test videos with 3 numbers per token; None drops an array."""
    draw = np.random.default_rng(0)
    arrays = {
        "scale": np.array([0.5, 1.0, 2.0], np.float32),
        "classes": np.array(CLASSES),
        "token_sec": np.float32(0.64),
    }
    for part, count in (("train", 7), ("test", 2)):
        length = np.arange(2, 2 + count, dtype=np.int32)
        total = int(length.sum())
        arrays[f"x_{part}"] = draw.integers(-127, 128, (total, 3)).astype(np.int8)
        arrays[f"y_{part}"] = labels(draw, total, ambiguous=[1])
        arrays[f"len_{part}"] = length
        arrays[f"vid_{part}"] = np.array([f"video_{part}_{i}" for i in range(count)])
    return {name: value for name, value in (arrays | changed).items() if value is not None}


def features(part, frames=(4, 3, 5), anno=False, seed=0):
    """A part of the TSN pickles."""
    draw = np.random.default_rng(seed)
    return {
        f"video_{part}_{i}": {
            "rgb": draw.random((count, 2048), np.float32),
            "flow": draw.random((count, 1024), np.float32),
            **({"anno": labels(draw, count, ambiguous=[0])} if anno else {}),
        }
        for i, count in enumerate(frames)
    }


def annotation(part, frames=(4, 3, 5), seed=1):
    """The labels of a part as in their own pickle, next to a number that is not needed."""
    draw = np.random.default_rng(seed)
    return {
        f"video_{part}_{i}": {"anno": labels(draw, count, ambiguous=[0]), "feature_length": count}
        for i, count in enumerate(frames)
    }


def bits(val, test):
    """The arrays of an .npz file with the labels of both parts, eight per byte."""
    arrays = {"classes": np.array(CLASSES)}
    for part, held in (("val", val), ("test", test)):
        hot = [video["anno"] for video in held.values()]
        arrays[f"vid_{part}"] = np.array(list(held))
        arrays[f"len_{part}"] = np.array([len(y) for y in hot], np.int32)
        arrays[f"y_{part}"] = np.packbits(np.concatenate(hot), axis=1)
    return arrays


def dump(path, held, protocol=4):
    path.write_bytes(pickle.dumps(held, protocol=protocol))
    return path


@pytest.fixture(scope="session")
def make():
    """The functions that write these files, by name."""
    return SimpleNamespace(ready=ready, features=features, annotation=annotation, bits=bits, dump=dump)


@pytest.fixture
def ready_file(tmp_path):
    path = tmp_path / "thumos14_i3d_pca256_i8.npz"
    np.savez(path, **ready())
    return path


@pytest.fixture
def tsn_folder(tmp_path):
    """A folder like OadTR's, with features and labels in separate files."""
    folder = tmp_path / "tsn"
    folder.mkdir()
    for part in ("val", "test"):
        dump(folder / f"thumos_all_feature_{part}_V3.pickle", features(part))
        dump(folder / f"thumos_{part}_anno.pickle", annotation(part))
    return folder
