"""Folders of feature files."""

import json

import numpy as np
import pytest

from nystream.data import RecordError, reader_from_dict
from nystream.data.file_splits import split
from nystream.data.frames import FramesReader, read_frames
from nystream.data.labelled import labelled
from nystream.data.open_source import open_for

RNG = np.random.default_rng(0)


def frames(length=20, width=3):
    return RNG.normal(size=(length, width)).astype(np.float32)


def test_labels_of_frames(tmp_path):
    np.savez(tmp_path / "a.npz", x=frames(5), y=np.array([0, 1, 2, -1, 0]))
    np.save(tmp_path / "b.npy", frames(4).astype(np.float64))
    np.save(tmp_path / "b.labels.npy", np.array([1, 1, 0, 0]))
    (tmp_path / "classes.txt").write_text("nothing\nrun\njump")
    clips = read_frames(tmp_path, show=False)
    assert [clip.name for clip in clips.clips] == ["a.npz", "b.npy"]
    assert clips.clips[0].y.tolist() == [0, 1, 2, -1, 0]
    assert clips.classes == ("nothing", "run", "jump")
    assert clips.labelling == "detection"
    problem = labelled(clips, "nothing")
    assert problem.task.background == 0
    assert problem.info.labels == clips.classes


def test_labels_by_name_and_several_at_once(tmp_path):
    np.savez(tmp_path / "a.npz", x=frames(3), y=np.array(["run", "no", "no"]))
    assert read_frames(tmp_path, show=False).classes == ("no", "run")
    np.savez(tmp_path / "a.npz", x=frames(3), y=np.eye(3))
    clips = read_frames(tmp_path, show=False)
    assert clips.clips[0].y.dtype == np.float32
    assert clips.classes == ("0", "1", "2")


@pytest.mark.parametrize("way", ["folders", "csv", "arrays"])
def test_labels_of_files(tmp_path, way):
    rows = ["file,label"]
    for i in range(6):
        label = "ab"[i % 2]
        folder = tmp_path / (label if way == "folders" else "")
        folder.mkdir(exist_ok=True)
        if way == "arrays":
            np.savez(folder / f"{i}.npz", features=frames(), y=label)
        else:
            np.save(folder / f"{i}.npy", frames())
        rows.append(f"{i}.npy,{label}")
    if way == "csv":
        (tmp_path / "labels.csv").write_text("\n".join(rows))
    clips = read_frames(tmp_path, show=False)
    assert clips.labelling == "classification"
    assert clips.classes == ("a", "b")
    assert sorted(clip.y[0] for clip in clips.clips) == [0, 0, 0, 1, 1, 1]
    with pytest.raises(ValueError, match="task=detection needs labels of frames"):
        read_frames(tmp_path, "detection", show=False)


def test_bad_files_are_reported(tmp_path):
    good = frames()
    np.savez(tmp_path / "a.npz", x=good, y=np.zeros(20, int))
    np.savez(tmp_path / "b.npz", x=good, y=np.ones(20, int))
    np.savez(tmp_path / "c.npz", x=frames(), y=np.ones(19, int))
    np.savez(tmp_path / "d.npz", x=np.full((2, 3), np.nan), y=[0, 1])
    np.savez(tmp_path / "e.npz", x=frames(20, 4), y=np.zeros(20, int))
    np.savez(tmp_path / "f.npz", p=frames(), q=frames())
    np.savez(tmp_path / "g.npz", x=frames()[0], y=0)
    np.savez(tmp_path / "h.npz", x=frames(), y=np.ones(20, int))
    np.save(tmp_path / "i.npy", np.array([{}], object), allow_pickle=True)
    np.save(tmp_path / "j.npy", frames())
    (tmp_path / "k.npz").write_bytes((tmp_path / "a.npz").read_bytes()[:200])
    clips = read_frames(tmp_path, show=False)
    assert [clip.name for clip in clips.clips] == ["a.npz", "h.npz"]
    reasons = {name[0]: reason for name, reason in clips.bad.items()}
    assert reasons["b"] == "it is a copy of a.npz"
    assert reasons["c"] == "its labels are [19], but it has 20 frames"
    assert "not finite" in reasons["d"]
    assert reasons["e"] == "width 4, but most files have 3"
    assert reasons["f"] == "it has the arrays p, q, but needs one named x"
    assert reasons["g"] == "it is float32 [3], but must be numbers [T, width], one row per token"
    assert reasons["i"] == "i.npy is not a complete file of numeric arrays"
    assert reasons["j"] == "it has no label"
    assert "k" in reasons
    assert "9 files dropped: " in clips.notes[1]
    assert "and 6 more" in clips.notes[1]


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (np.array([0.5, 1, 1]), "whole numbers"),
        (np.array([0, -2, 1]), "range from -2 to 1"),
        (np.full((3, 2), 3), "zeros"),
    ],
)
def test_bad_labels(tmp_path, y, words):
    np.savez(tmp_path / "a.npz", x=frames(3), y=y)
    with pytest.raises(ValueError, match=words):
        read_frames(tmp_path, show=False)


def test_labels_of_files_that_are_not_there(tmp_path):
    for i in range(3):
        np.save(tmp_path / f"{i}.npy", frames())
    (tmp_path / "labels.csv").write_text("file,label\n0.npy,a\n1,b\n2.npy,a\ngone.npy,a\n")
    assert read_frames(tmp_path).bad == {"gone.npy": "it is in labels.csv, but does not exist"}
    (tmp_path / "labels.csv").write_text("file,label\n0.npy,a\n0.npy,b\n")
    with pytest.raises(ValueError, match=r"has two labels for '0\.npy': 'a' and 'b'"):
        read_frames(tmp_path)


def test_no_labels_at_all(tmp_path):
    np.save(tmp_path / "a.npy", frames())
    with pytest.raises(ValueError, match="has no labels: for labels per frame, give `y`"):
        read_frames(tmp_path, show=False)
    (tmp_path / "labels.csv").write_text("name,label\n")
    with pytest.raises(ValueError, match="must have the columns file and label"):
        read_frames(tmp_path, show=False)


def test_classes_that_are_known(tmp_path):
    (tmp_path / "2").mkdir()
    np.save(tmp_path / "2" / "a.npy", frames())
    assert read_frames(tmp_path, classes=("1", "2"), show=False).clips[0].y[0] == 1
    with pytest.raises(ValueError, match="class '2' is not known; the classes are x, y"):
        read_frames(tmp_path, classes=("x", "y"), show=False)


def test_the_split_has_every_class_in_every_part(tmp_path):
    for label, count in (("a", 20), ("b", 3), ("c", 5)):
        (tmp_path / label).mkdir()
        for i in range(count):
            np.save(tmp_path / label / f"{i}.npy", frames())
    clips = read_frames(tmp_path, show=False)
    parts = split(clips, seed=0)
    assert sorted(i for part in parts for i in part) == list(range(28))
    assert parts == split(clips, seed=0) != split(clips, seed=1)
    for part in parts:
        assert {int(clips.clips[i].y[0]) for i in part} == {0, 1, 2}
    (tmp_path / "b" / "0.npy").unlink()
    with pytest.raises(ValueError, match="class 'b' has 2 usable files, but needs 3"):
        split(read_frames(tmp_path, show=False), 0)


def test_live():
    reader = reader_from_dict(json.loads(json.dumps(FramesReader(3).to_dict())))
    live = reader.live(missing="fill")
    assert live.read([1, 2.5, "3"])[0].x.tolist() == [1.0, 2.5, 3.0]
    (token,) = live.read(np.array([np.nan, 1, 2]))
    assert token.x.tolist() == [1.0, 1.0, 2.0]
    assert token.filled == ("feature 0",)
    other = reader.live(missing="skip")
    other.remember(json.loads(json.dumps(live.memory())))
    assert other.memory() == live.memory()
    assert other.read([None, 1, 2]) == []
    for bad in ([1, 2], 5, ["x", 1, 2], [[1, 2, 3]], [1, 2, np.inf], [1, 2, None]):
        before = reader.live().memory()
        fresh = reader.live()
        with pytest.raises(RecordError):
            fresh.read(bad)
        assert fresh.memory() == before


def test_names_of_features(tmp_path):
    for i in range(3):
        np.savez(tmp_path / f"{i}.npz", x=frames(), y=np.arange(20) % 2, names=np.array(["x", "y", "speed"]))
    np.savez(tmp_path / "plain.npz", x=frames(), y=np.arange(20) % 2)
    np.savez(tmp_path / "other.npz", x=frames(), y=np.arange(20) % 2, names=np.array(["x", "speed", "y"]))
    np.savez(tmp_path / "two.npz", x=frames(), y=np.arange(20) % 2, names=np.array(["x", "x", "y"]))
    np.savez(tmp_path / "few.npz", x=frames(), y=np.arange(20) % 2, names=np.array(["x"]))
    np.savez(tmp_path / "numbers.npz", x=frames(), y=np.arange(20) % 2, names=np.arange(3))
    clips = read_frames(tmp_path, show=False)
    assert clips.reader.names == ("x", "y", "speed")
    assert [clip.name for clip in clips.clips] == ["0.npz", "1.npz", "2.npz", "plain.npz"]
    assert clips.bad == {
        "other.npz": "feature 1 is 'speed', but 'y' in other files",
        "two.npz": "names has the name 'x' twice",
        "few.npz": "names has 1 names, but there are 3 features",
        "numbers.npz": "its names are int64 [3], but must be text [3]",
    }
    saved = json.loads(json.dumps(clips.reader.to_dict()))
    assert reader_from_dict(saved) == clips.reader
    assert reader_from_dict({"kind": "frames", "width": 3}).names == ("feature 0", "feature 1", "feature 2")
    assert FramesReader(3).to_dict() == {"kind": "frames", "width": 3}  # as models of older versions have it
    live = clips.reader.live()
    assert live.read({"speed": 3, "x": 1, "y": 2})[0].x.tolist() == [1, 2, 3]


def test_names_of_features_in_a_file(tmp_path):
    np.savez(tmp_path / "a.npz", x=frames(), y=np.arange(20) % 2)
    (tmp_path / "features.txt").write_text("left\nright\n\nmiddle\n")
    assert read_frames(tmp_path, show=False).reader.names == ("left", "right", "middle")
    (tmp_path / "features.txt").write_text("left\nright\n")
    with pytest.raises(ValueError, match=r"features\.txt has 2 names, but there are 3 features"):
        read_frames(tmp_path, show=False)


def test_a_model_reads_features_of_the_same_names(tmp_path):
    names = np.array(["x", "y", "z"])
    for folder, given in (("with", {"names": names}), ("other", {"names": names[::-1]}), ("without", {})):
        (tmp_path / folder).mkdir()
        for i in range(3):
            np.savez(tmp_path / folder / f"{i}.npz", x=frames() + i, y=np.arange(20) % 2, **given)
    named, plain = (labelled(read_frames(tmp_path / name)).info for name in ("with", "without"))
    assert named.inputs == ("x", "y", "z")
    with pytest.raises(ValueError, match="feature 0 is 'z', but the model reads 'x' there"):
        open_for(named, tmp_path / "other")
    for info, folder in ((named, "with"), (named, "without"), (plain, "with")):  # older models have no names
        assert open_for(info, tmp_path / folder).input_dim == 3
