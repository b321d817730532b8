"""Classes of frames: one per frame, or several at once."""

import numpy as np
import pytest
import torch

from nystream.data.clips import Clip, Clips
from nystream.data.frames import FramesReader
from nystream.data.labelled import labelled
from nystream.train import Detection


def clips(tmp_path, hot):
    """Files of frames with these labels, [files, T, classes]."""
    rng = np.random.default_rng(0)
    made = tuple(Clip(str(i), rng.normal(size=(len(y), 2)).astype(np.float32), y) for i, y in enumerate(hot))
    return Clips(tmp_path, made, tuple("abc"), "detection", FramesReader(2))


def zeros_and_ones(several):
    hot = np.eye(3, dtype=np.float32)[np.random.default_rng(0).integers(3, size=(9, 20))]
    hot[0, :3] = np.nan  # not known
    if several:
        hot[4, 5], hot[4, 6] = 0.0, 1.0
    return hot


@pytest.mark.parametrize("several", [False, True])
def test_several_classes_at_once(tmp_path, several):
    problem = labelled(clips(tmp_path, zeros_and_ones(several)), background="a")
    assert problem.task == Detection("sigmoid" if several else "softmax", background=0)
    assert (problem.info.task, problem.info.several) == ("detection", several)
    assert ("several at once" in problem.notes[0]) is several
    y = problem.part("test", 0).y
    scores = problem.scores("test", 0, torch.randn(len(y), 3), y)
    assert ("accuracy of frames" in scores) is not several  # of no use where a frame may have none
    assert set(problem.baselines("test", 0)["most frequent class"]) == set(scores)


def test_a_model_says_how_its_outputs_are_read(tmp_path):
    assert labelled(clips(tmp_path, zeros_and_ones(several=False)), several=True).task == Detection("sigmoid", None)


def test_one_class_a_frame(tmp_path):
    labels = [np.random.default_rng(i).integers(-1, 3, size=20) for i in range(9)]
    problem = labelled(clips(tmp_path, labels))
    assert problem.task == Detection(background=None)
    assert not problem.info.several
