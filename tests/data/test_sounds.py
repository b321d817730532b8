"""Folders of audio files."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nystream.data import RecordError, reader_from_dict
from nystream.data.sounds import SoundReader, read_sounds

soundfile = pytest.importorskip("soundfile")
pytest.importorskip("soxr")

RATE = 16000
NOISE = np.random.default_rng(0).normal(size=RATE).astype(np.float32) * 0.1


@given(cuts=st.lists(st.integers(0, RATE), max_size=8), frames=st.sampled_from([1, 3, 10]), at=st.integers(0, 8))
def test_live_is_offline(cuts, frames, at):
    reader = SoundReader(frames)
    live, tokens = reader.live(), []
    for i, chunk in enumerate(np.split(NOISE, sorted(cuts))):
        if i == at:
            memory = json.loads(json.dumps(live.memory()))
            live = reader_from_dict(json.loads(json.dumps(reader.to_dict()))).live()
            live.remember(memory)
        tokens += [token.x for token in live.read(chunk)]
    offline = reader.tokens(NOISE)
    assert offline.shape == (len(tokens), len(reader.names))
    np.testing.assert_allclose(np.array(tokens), offline, rtol=1e-5, atol=1e-5)


def test_a_tone_is_in_its_band():
    tone = np.sin(2 * np.pi * 1000 * np.arange(RATE) / RATE).astype(np.float32)
    x = SoundReader().tokens(tone)
    assert (x[:, :64].argmax(1) == x[0, :64].argmax()).all()
    assert SoundReader().tokens(tone[:100]).shape == (0, 128)
    assert SoundReader().seconds == 0.1


def test_bad_samples():
    reader = SoundReader()
    live = reader.live()
    for bad in (["x"], np.zeros((2, 2)), [0.0, np.nan]):
        with pytest.raises(RecordError):
            live.read(bad)
        assert live.memory() == {"samples": []}
    assert reader.live(missing="skip").read([np.nan]) == []
    (token,) = reader.live(missing="fill").read(np.where(np.arange(2000) == 5, np.nan, 0.0))
    assert token.filled == ("samples",)
    with pytest.raises(ValueError, match="rate=8000 must be 16000"):
        SoundReader(rate=8000)


def test_a_folder(tmp_path):
    for label, pitch in (("low", 200), ("high", 3000)):
        (tmp_path / label).mkdir()
        for i, seconds in enumerate((1.0, 0.5)):
            wave = 0.5 * np.sin(2 * np.pi * (pitch + i) * np.arange(int(seconds * 22050)) / 22050)
            soundfile.write(tmp_path / label / f"{i}.wav", np.column_stack([wave, wave]), 22050)
    (tmp_path / "low" / "bad.wav").write_text("x")
    soundfile.write(tmp_path / "low" / "short.wav", np.zeros(50), RATE)
    (tmp_path / "low" / "copy.wav").write_bytes((tmp_path / "low" / "0.wav").read_bytes())
    clips = read_sounds(tmp_path, seconds=0.8, show=False)
    assert clips.classes == ("high", "low")
    assert [clip.name for clip in clips.clips] == ["high/0.wav", "high/1.wav", "low/0.wav", "low/1.wav"]
    assert [len(clip.x) for clip in clips.clips] == [7, 4, 7, 4]
    assert clips.bad == {
        "low/bad.wav": "broken: Format not recognised",
        "low/copy.wav": "it is a copy of low/0.wav",
        "low/short.wav": "too short: 0.00 s",
    }
    with pytest.raises(ValueError, match="seconds=0 must be greater than 0"):
        read_sounds(tmp_path, 0)
    with pytest.raises(ValueError, match=r"no usable file; high/0\.wav: class 'high' is not one of x"):
        read_sounds(tmp_path, 1.0, ("x",), show=False)
