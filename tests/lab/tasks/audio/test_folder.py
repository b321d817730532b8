import logging
import math
import sys

import numpy as np
import pytest
import soundfile
import torch
from hypothesis import given
from hypothesis import strategies as st

from nystream.data.audio_file import read
from nystream.lab.tasks import audio

from .conftest import RATE, Means, tone


def write(path, samples, rate=22050, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, samples, rate, **options)


@pytest.fixture
def collection(tmp_path):
    """Two genres, named as in GTZAN and otherwise, and every kind of file that cannot be used."""
    root = tmp_path / "genres"
    write(root / "blues" / "blues.00000.au", tone(440, 30.1, 22050), subtype="PCM_16")
    stereo = np.column_stack([tone(1000, 29.9, 22050), np.zeros(len(tone(1000, 29.9, 22050)), np.float32)])
    write(root / "blues" / "blues.00001.wav", stereo, subtype="PCM_16")
    write(root / "jazz" / "jazz.00000.WAV", tone(2000, 30, RATE), RATE, subtype="PCM_16")
    write(root / "jazz" / "copy.wav", tone(2000, 30, RATE), RATE, subtype="PCM_16")
    write(root / "jazz" / "jazz.00001.wav", tone(2000, 5, RATE), RATE)
    write(root / "jazz" / "jazz.00002.wav", np.zeros(0, np.float32), RATE)
    write(root / "jazz" / "jazz.00003.wav", np.full(30 * RATE, np.nan, np.float32), RATE, subtype="FLOAT")
    (root / "jazz" / "jazz.00054.wav").write_bytes(b"not a sound")
    (root / "jazz" / "jazz.00055.au").write_bytes(b"")
    (root / "jazz" / "._jazz.00000.wav").write_bytes(b"a trace of another system")
    (root / "jazz" / "notes.txt").write_text("no sound")
    (root / "readme.wav").write_bytes(b"not in a genre")
    return root


def test_reads_what_can_be_read_and_reports_the_rest(collection, means, caplog):
    with caplog.at_level(logging.WARNING, logger="nystream"):
        data = audio.load(collection, means, show=False)
    assert data.genres == ("blues", "jazz")
    assert data.tracks == ("blues.00000", "blues.00001", "jazz/copy", "jazz.00000")
    assert data.y.tolist() == [0, 0, 1, 1]
    assert data.x.shape == (4, 120, 64)
    assert data.x.isfinite().all()
    assert data.copies[2] == data.copies[3]
    assert len(set(data.copies)) == 3
    assert data.filtered.tolist() == [1, 1, -1, 0]
    reasons = {path.name: reason for path, reason in data.skipped}
    unusable = ("00001.wav", "00002.wav", "00003.wav", "00054.wav", "00055.au")
    assert reasons.keys() == {f"jazz.{name}" for name in unusable}
    assert reasons["jazz.00001.wav"] == "too short: 5.00 s of 30 s, and 90% are needed"
    assert reasons["jazz.00002.wav"] == "empty: it has no samples"
    assert "not finite" in reasons["jazz.00003.wav"]
    assert reasons["jazz.00054.wav"] == "broken: Format not recognised"
    assert reasons["jazz.00055.au"].startswith(("broken: ", "empty: "))  # as libsndfile's versions have it
    assert len(caplog.records) == 5
    assert "skipped" in caplog.text
    assert "jazz.00054.wav: broken" in caplog.text


def test_a_track_is_mono_at_16_khz_and_as_long_as_all(collection):
    folder = audio.AudioFolder(collection, show=False)
    tracks = {track.name: track for track in folder}
    assert len(folder) == 9
    assert tracks.keys() == {"blues.00000", "blues.00001", "jazz/copy", "jazz.00000"}
    tones = (("blues.00000", 440, 0.5), ("blues.00001", 1000, 0.25), ("jazz.00000", 2000, 0.5))
    for name, frequency, amplitude in tones:
        samples = tracks[name].samples
        assert samples.shape == (480000,)
        assert samples.dtype == np.float32
        inside = slice(4000, 470000)  # away from the ends of the resampler
        np.testing.assert_allclose(samples[inside], tone(frequency, 30, amplitude=amplitude)[inside], atol=2e-3)
    assert not tracks["blues.00001"].samples[-1000:].any()
    again = list(folder)
    assert len(again) == 4
    assert len(folder.skipped) == 5


def test_lengths(tmp_path):
    write(tmp_path / "one.wav", tone(440, 1.0), RATE)
    assert len(read(tmp_path / "one.wav", 8000)) == 8000
    assert len(read(tmp_path / "one.wav", 17000)) == 17000
    with pytest.raises(ValueError, match="too short"):
        read(tmp_path / "one.wav", 18000)


@given(st.integers(4000, 20000))
def test_a_token_for_every_whole_quarter_second(length):
    assert Means()(torch.zeros(length)).shape == (length // 4000, 64)


@pytest.mark.parametrize("token", [0, 1, 3, 5])
def test_a_token_hears_the_second_that_ends_with_it(token):
    """A click is in the tokens whose 15600 samples it falls in, and in no other."""
    length, embed = 8 * 4000, Means()
    silence = embed(torch.zeros(length))
    assert torch.allclose(silence, torch.tensor(math.log(0.01)), atol=1e-5)
    end = (token + 1) * 4000
    for place in (end - 50, end, max(0, end - 15550), end - 15650):
        if not 0 <= place < length:
            continue
        samples = torch.zeros(length)
        samples[place] = 1
        heard = bool((embed(samples) - silence)[token].abs().max() > 1e-6)
        assert heard == (end - 15600 <= place < end), place


def test_samples_that_do_not_fit(means):
    for shape in ((3999,), (2, 8000)):
        with pytest.raises(ValueError, match=r"must be \[T\] with T at least 4000"):
            means(torch.zeros(shape))


def test_wrong_folders(tmp_path, means):
    with pytest.raises(NotADirectoryError, match="nowhere is not a folder"):
        audio.AudioFolder(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"no \.au or \.wav files"):
        audio.load(tmp_path, means)
    (tmp_path / "blues").mkdir()
    (tmp_path / "blues" / "a.wav").write_bytes(b"")
    with pytest.raises(ValueError, match="seconds is 0, but must be greater than 0"):
        audio.AudioFolder(tmp_path, seconds=0)
    with pytest.raises(ValueError, match=r"none of the 1 files can be used; a\.wav is (broken|empty)"):
        audio.load(tmp_path, means)


@pytest.mark.parametrize("package", ["soundfile", "soxr"])
def test_a_missing_package_is_named_with_its_extra(tmp_path, monkeypatch, means, package):
    (tmp_path / "blues").mkdir()
    (tmp_path / "blues" / "a.wav").write_bytes(b"")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ModuleNotFoundError, match=rf"needs {package}: pip install -c constraints.txt '\.\[audio\]'"):
        audio.load(tmp_path, means)
