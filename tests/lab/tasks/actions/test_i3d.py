"""The I3D file: its contents, errors for invalid files, and the real file."""

import numpy as np
import pytest
import torch

from nystream.lab.tasks.actions import AMBIGUOUS, BACKGROUND, CLASSES, Actions, i3d, load
from nystream.train import Detection


def test_tokens_and_targets(ready_file, make):
    held, found = make.ready(), load(ready_file)
    assert isinstance(found, Actions)
    assert found.classes == CLASSES
    assert found.token_seconds == 0.64
    assert found.train.names == tuple(f"video_train_{i}" for i in range(7))
    assert found.train.data.length.tolist() == list(range(2, 9))
    assert found.test.data.length.tolist() == [2, 3]
    assert torch.equal(found.test.data.x, torch.tensor(held["x_test"] * held["scale"]))
    unknown = held["y_test"][:, AMBIGUOUS] > 0
    assert unknown.any()
    assert found.test.data.y[unknown].isnan().all()
    assert np.array_equal(found.test.data.y[~unknown], held["y_test"][~unknown])


def test_the_split_is_by_video_and_seed(ready_file):
    videos = load(ready_file)
    train, valid = videos.split_videos(seed=0, valid=0.3)
    assert len(valid.names) == 2
    assert set(train.names) | set(valid.names) == set(videos.train.names)
    assert not set(train.names) & set(valid.names)
    again = videos.split_videos(seed=0, valid=0.3)
    assert again[0].names == train.names
    assert len({videos.split_videos(seed, 0.3)[1].names for seed in range(10)}) > 3
    parts = videos.split(seed=0, valid=0.3)
    assert [part.fingerprint for part in parts[:2]] == [train.data.fingerprint, valid.data.fingerprint]
    assert parts[2] is videos.test.data
    at = videos.train.names.index(valid.names[0])
    assert torch.equal(valid.data.stream(0)[0], videos.train.data.stream(at)[0])


@pytest.mark.parametrize("valid", [0.0, 0.01, 0.99, 1.0, -1.0, float("nan")])
def test_a_split_with_an_empty_side_is_refused(ready_file, valid):
    with pytest.raises(ValueError, match=r"valid=.* must leave some of the 7 training videos"):
        load(ready_file).split(0, valid)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"y_test": None, "scale": None}, "has no scale, y_test; it has classes, token_sec, x_train"),
        ({"classes": np.array(["walk", "run"])}, r"has the classes \['walk', 'run'\], but THUMOS14 has"),
        ({"scale": np.ones(4, np.float32)}, r"x_train int8 \[35, 3\], but it must be int8 \[N, 4\]"),
        ({"scale": np.ones(3, np.int64)}, "scale int64"),
        ({"token_sec": np.float32(0)}, "token_sec"),
        ({"x_test": np.zeros((5, 3), np.float32)}, r"x_test float32 \[5, 3\]"),
        ({"x_test": np.zeros((4, 3), np.int8)}, "has 4 tokens x_test and 5 labels y_test, but .* len_test have 5"),
        ({"y_test": np.ones((5, 20), np.uint8)}, r"y_test of .* has labels \[5, 20\], but they must be \[T, 22\]"),
        ({"y_test": np.full((5, 22), 2, np.uint8)}, "not all zeros and ones"),
        ({"y_test": np.zeros((5, 22), np.uint8)}, "has no class in frame 0; frames without an action need a one"),
        ({"len_test": np.array([5], np.int32)}, r"len_test int32 \[1\] and vid_test \[2\]"),
        ({"len_test": np.array([5, 0], np.int32)}, "whole numbers greater than 0"),
        ({"len_test": np.array([2, 4], np.int32)}, "videos of len_test have 6"),
    ],
)
def test_wrong_files_are_refused(tmp_path, make, changed, message):
    path = tmp_path / "wrong.npz"
    np.savez(path, **make.ready(**changed))
    with pytest.raises(ValueError, match=message):
        load(path)


def test_files_of_other_kinds_are_refused(ready_file, tmp_path, make):
    with pytest.raises(FileNotFoundError, match=r"none\.npz is not a file"):
        i3d.read(tmp_path / "none.npz")
    other = tmp_path / "other.npz"
    other.write_bytes(b"something else")
    with pytest.raises(ValueError, match=r"other\.npz is not an \.npz file"):
        i3d.read(other)
    whole = ready_file.read_bytes()
    middle = len(whole) // 2
    for damaged in (whole[:10], whole[:middle], whole[:-5], whole[:100] + bytes(100) + whole[200:]):
        other.write_bytes(damaged)
        with pytest.raises(ValueError, match="is damaged, cut short"):
            i3d.read(other)
    np.savez(other, **make.ready(classes=np.array([object()])))
    with pytest.raises(ValueError, match="not of plain arrays: Object arrays cannot be loaded"):
        i3d.read(other)


@pytest.fixture(scope="module")
def thumos(data_dir):
    path = data_dir / "thumos14_i3d_pca256_i8.npz"
    if not path.is_file():
        pytest.skip(f"{path.name} is not among the data sets")
    return load(data_dir)


def test_real_shapes(thumos):
    assert (len(thumos.train.names), len(thumos.test.names)) == (188, 200)
    assert all(name.startswith("video_validation_") for name in thumos.train.names)
    assert all(name.startswith("video_test_") for name in thumos.test.names)
    assert thumos.train.data.x.shape == (48610, 256)
    assert thumos.test.data.x.shape == (52997, 256)
    assert thumos.token_seconds == 0.64
    train, valid, test = thumos.split(seed=0)
    assert (len(train), len(valid), len(test)) == (160, 28, 200)


def test_real_labels(thumos):
    for part, ambiguous in ((thumos.train, 784), (thumos.test, 1052)):
        y = part.data.y
        unknown = y.isnan().all(1)
        assert torch.equal(unknown, y.isnan().any(1))
        assert int(unknown.sum()) == ambiguous
        assert (y[~unknown].sum(1) == 1).all()
        assert y[~unknown, AMBIGUOUS].sum() == 0
        assert 0.6 < y[~unknown, BACKGROUND].mean() < 0.75
        assert (y[~unknown, 1:AMBIGUOUS].sum(0) > 100).all()


@pytest.mark.parametrize("kind", ["softmax", "sigmoid"])
def test_real_scores_of_a_constant_and_of_an_oracle(thumos, kind):
    task, y = Detection(kind), thumos.test.data.y
    known = ~y.isnan().any(1)
    constant = task.scores(torch.zeros_like(y), y)
    assert constant["map"] == pytest.approx(float(y[known, 1:AMBIGUOUS].mean()), abs=1e-6)
    assert constant["cmap"] == pytest.approx(0.5)
    oracle = torch.where(known[:, None], 20 * y, torch.randn(y.shape) * 50)  # what is ambiguous does not count
    assert task.scores(oracle, y)["map"] == pytest.approx(1.0)
    assert task.scores(oracle, y)["cmap"] == pytest.approx(1.0)
    chance = task.scores(torch.randn(y.shape), y)
    assert chance["map"] == pytest.approx(constant["map"], abs=0.01)
    assert chance["cmap"] == pytest.approx(0.5, abs=0.03)
