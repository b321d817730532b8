import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nystream.data.frames import FramesReader, read_frames
from nystream.data.hops import choose_hop, tokens
from nystream.data.reader import reader_from_dict


@given(st.integers(0, 40), st.integers(1, 7), st.integers(1, 3))
def test_a_live_stream_gives_the_tokens_of_the_file(extra, hop, width):
    frames = np.random.default_rng(extra).normal(size=(hop + extra, width)).astype(np.float32)
    whole = tokens(frames, hop)
    assert whole.shape == ((hop + extra) // hop, 4 * width)
    np.testing.assert_allclose(whole[0, :width], frames[:hop].mean(0), atol=1e-6)
    np.testing.assert_allclose(whole[0, width : 2 * width], frames[:hop].std(0), atol=1e-6)
    np.testing.assert_array_equal(whole[0, 2 * width :], np.r_[frames[:hop].min(0), frames[:hop].max(0)])
    reader = FramesReader(width, hop=hop)
    live, found = reader.live(), []
    for frame in frames:
        if len(found) == 1 and hop > 1:  # the state is part of a snapshot
            other = reader.live()
            other.remember(json.loads(json.dumps(live.memory())))
            live = other
        found += live.read(frame.tolist())
    if hop > 1:
        np.testing.assert_array_equal(np.stack([token.x for token in found]), whole)
        assert len(reader.names) == 4 * width


def test_a_reader_without_hops_is_saved_as_before():
    assert FramesReader(3).to_dict() == {"kind": "frames", "width": 3}
    reader = FramesReader(2, ("x", "y"), 4)
    assert reader_from_dict(json.loads(json.dumps(reader.to_dict()))) == reader
    assert reader.names[:3] == ("mean of x", "mean of y", "standard deviation of x")


def test_a_bad_record_changes_nothing():
    live = FramesReader(2, hop=2).live()
    live.read([1, 2])
    before = live.state
    with pytest.raises(ValueError, match="the model takes 2"):
        live.read([1, 2, 3])
    live.state = before
    assert len(live.read([3, 4])) == 1
    with pytest.raises(ValueError, match="do not fit a token of 2"):
        live.remember({"last": None, "frames": [[1.0, 2.0], [1.0, 2.0]]})


@pytest.mark.parametrize(
    ("width", "stretch", "hop"), [(6, 1000, 8), (6, 500, 4), (6, 200, 1), (200, 1000, 1), (3, 50_000, 64)]
)
def test_the_default_makes_a_class_last_about_two_windows(width, stretch, hop):
    assert choose_hop(width, [np.repeat([0, 1, 0], [stretch, stretch, 7])]) == hop


def test_frames_in_which_several_classes_can_be():
    y = np.repeat([[0, 1], [1, 1]], 600, 0)
    assert choose_hop(4, [y]) == 4


def test_files(tmp_path):
    rng = np.random.default_rng(0)
    for i in range(4):
        y = np.repeat([i % 2, 1 - i % 2], 300)
        np.savez(tmp_path / f"{i}.npz", x=rng.normal(size=(600, 3)), y=y)
    np.savez(tmp_path / "short.npz", x=rng.normal(size=(1, 3)), y=np.zeros(1, int))
    clips = read_frames(tmp_path, hop=0)
    assert clips.reader == FramesReader(3, hop=2)
    assert clips.clips[0].x.shape == (300, 12)
    assert clips.clips[0].y.tolist() == [0] * 150 + [1] * 150
    assert "short.npz" in clips.bad
    assert "each of 2 frames (`hop`)" in clips.notes[0]
    assert read_frames(tmp_path).clips[0].x.shape == (600, 3)
    with pytest.raises(ValueError, match="hop=1000: no file"):
        read_frames(tmp_path, hop=1000)
