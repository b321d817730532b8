"""Which files are for training, validation and testing."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nystream.data.clips import Clip, Clips
from nystream.data.file_splits import describe, joined, split, with_groups
from nystream.data.frames import FramesReader, read_frames
from nystream.data.labelled import labelled, with_split
from nystream.data.open_source import open_for, open_for_training
from nystream.data.settings import Settings


def clips_of(folder, groups, classes, seed=0):
    """Files of one frame each, of these groups and classes."""
    rng = np.random.default_rng(seed)
    made = tuple(
        Clip(f"{i}.npy", rng.normal(size=(2, 2)).astype(np.float32), np.full(2, number))
        for i, number in enumerate(classes)
    )
    names = tuple(map(str, range(max(classes) + 1)))
    return Clips(folder, made, names, "classification", FramesReader(2), groups=tuple(groups), group="subject")


@settings(max_examples=50, deadline=None)
@given(st.integers(3, 12), st.integers(1, 6), st.integers(0, 9))
def test_groups_are_not_split(subjects, each, seed):
    groups = [f"s{i}" for i in range(subjects) for _ in range(each + i % 3)]
    clips = clips_of(None, groups, [i % 2 for i in range(len(groups))] if each > 1 else [0] * (len(groups) - 1) + [0])
    parts = split(clips, seed)
    assert sorted(i for part in parts for i in part) == list(range(len(groups)))
    held = [{groups[i] for i in part} for part in parts]
    assert all(held)
    assert sum(map(len, held)) == subjects
    assert {clips.clips[i].y[0] for i in parts[0]} == {clip.y[0] for clip in clips.clips}


def test_a_class_in_one_group_is_trained_on(tmp_path):
    groups, classes = ["a", "b", "c", "d", "e"] * 2, [0] * 5 + [0, 0, 1, 0, 0]
    for seed in range(20):
        train, _, _ = split(clips_of(tmp_path, groups, classes), seed)
        assert 7 in train


def test_many_groups_are_stratified_by_class(tmp_path):
    classes = [0] * 20 + [1] * 10 + [2] * 80
    clips = clips_of(tmp_path, map(str, range(110)), classes)
    for seed in range(5):
        counts = [np.bincount([classes[i] for i in part], minlength=3).tolist() for part in split(clips, seed)]
        assert counts == [[16, 8, 64], [2, 1, 8], [2, 1, 8]]


def test_groups_that_cannot_be_split(tmp_path):
    with pytest.raises(ValueError, match="has 2 'subject' groups, but a split needs 3 or more"):
        split(clips_of(tmp_path, ["a", "b"] * 3, [0, 1] * 3), 0)
    with pytest.raises(
        ValueError, match="no split found with all classes in the training data: '0' is only in 1 group"
    ):
        split(clips_of(tmp_path, ["a", "b", "c"] * 3, [0, 1, 2] * 3), 0)


@pytest.fixture
def write(tmp_path):
    """A folder of files labelled per frame, in subfolders."""

    def write(name, subjects=("s1", "s2", "s3", "s4"), each=2, seed=0, width=3, classes=2, **arrays):
        rng = np.random.default_rng(seed)
        for subject in subjects:
            (tmp_path / name / subject).mkdir(parents=True)
            for i in range(each):
                x, y = rng.normal(size=(12, width)), np.arange(12) % classes
                np.savez(tmp_path / name / subject / f"{subject}{i}.npz", x=x, y=y, **arrays)
        return tmp_path / name

    return write


def test_groups_by_folder_and_by_column(write):
    folder = write("source")
    clips = with_groups(read_frames(folder), "folder")
    assert clips.groups == ("s1", "s1", "s2", "s2", "s3", "s3", "s4", "s4")
    lines = [f"{clip.name},{'ab'[i % 2]}" for i, clip in enumerate(clips.clips)]
    (folder / "labels.csv").write_text("\n".join(["file,camera", *lines]))
    clips = with_groups(read_frames(folder), "camera")
    assert (clips.groups, clips.labelling) == (("a", "b") * 4, "detection")
    with pytest.raises(
        ValueError, match=r"group='room' cannot be used: .* has no column 'room'; it has 'file', 'camera'"
    ):
        with_groups(read_frames(folder), "room")
    (folder / "labels.csv").write_text("\n".join(["file,camera", *lines[1:]]))
    with pytest.raises(ValueError, match=r"group='camera' is not given in .* for 's1/s10\.npz'"):
        with_groups(read_frames(folder), "camera")
    (folder / "labels.csv").unlink()
    with pytest.raises(ValueError, match=r"group='camera' needs a column of that name in .*, which does not exist"):
        with_groups(read_frames(folder), "camera")
    np.savez(folder / "alone.npz", x=np.ones((5, 3)), y=np.zeros(5, int))
    with pytest.raises(ValueError, match=r"every file in a subfolder of .*, but 'alone\.npz' is in none"):
        with_groups(read_frames(folder), "folder")


def test_other_folders(write):
    source, test = write("source"), write("new", ("n1", "n2"), seed=1)
    problem = open_for_training(Settings(source=str(source), test=str(test)), show=False)
    assert [problem.clips.clips[i].name for i in problem.numbers("test")] == [
        "new/n1/n10.npz", "new/n1/n11.npz", "new/n2/n20.npz", "new/n2/n21.npz",
    ]  # fmt: skip
    assert (len(problem.numbers("train")), len(problem.numbers("valid"))) == (7, 1)
    note = "7 files for training, 1 file for validation, 4 files for testing, drawn with seed 0; --test is as given"
    assert problem.notes[-1] == note
    both = open_for_training(Settings(source=str(source), test=str(test), valid=str(write("va", seed=2))), show=False)
    assert [len(both.numbers(name)) for name in ("train", "valid", "test")] == [8, 8, 4]
    assert both.notes[-1].endswith("for testing; --valid and --test are as given")
    assert len({problem.fingerprint, both.fingerprint, labelled(read_frames(source)).fingerprint}) == 3
    alone = open_for(problem.info, test, show=False)
    np.testing.assert_array_equal(problem.part("test", 0).x, alone.part("all", 0).x)


def test_groups_of_other_folders(write):
    source, test = write("source"), write("new", ("n1", "s2"), seed=1)
    settings = Settings(source=str(source), test=str(test), group="folder")
    with pytest.raises(ValueError, match="'s2' is in the source and --test, but a group must be in one part only"):
        open_for_training(settings, show=False)
    settings = dataclasses.replace(settings, test=str(write("newer", ("n1", "n2"), seed=1)))
    problem = open_for_training(settings, show=False)
    assert "; none of the 6 groups of 'folder' is in two parts" in problem.notes[-1]
    assert len(problem.numbers("valid")) == 2


def test_copies_are_held_out_once(write):
    source, test = write("source"), write("new")  # the same seed: the same files
    clips = read_frames(source)
    with pytest.raises(ValueError, match=r"source=.* has no file that is not also among the held-out files"):
        joined(clips, {"test": read_frames(test)})
    write("more", ("n1",), seed=0, each=3)
    new = joined(clips, {"test": read_frames(test.with_name("more"))})
    assert (len(new.clips), new.copies) == (8 - 3 + 3, 3)
    assert "3 files dropped: also among the held-out files" in describe(new, split(new, 0), 0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"width": 4}, "test=.*new has tokens of 4 numbers, but the model reads 3"),
        ({"classes": 3}, "test=.*new cannot be used: labels of frames have 3 classes, but only 2 have names"),
    ],
)
def test_folders_that_do_not_match(write, options, words):
    source, test = write("source"), write("new", seed=1, **options)
    with pytest.raises(ValueError, match=words):
        open_for_training(Settings(source=str(source), test=str(test)), show=False)


def test_the_usual_split_is_as_before(write):
    """That of runs of older versions, which must be resumed with the same files."""
    clips = read_frames(write("source", each=10))
    assert [part[:4] for part in split(clips, 0)] == [[0, 1, 5, 6], [4, 11, 24, 27], [2, 3, 23, 34]]
    assert with_split(labelled(clips)).fingerprint == labelled(clips).part("all", 0).fingerprint
