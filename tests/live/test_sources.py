"""Arrays, sound and the microphone as sources, and what a name means."""

import sys
import types

import numpy as np
import pytest

from nystream.live.sources import Feed, open_source
from nystream.live.sources.frames import FrameFile
from nystream.live.sources.lines import LineFile, PipedLines

RATE = 16000


def test_names(tmp_path):
    for name in ("a.csv", "a.jsonl", "a.txt", "a"):
        (tmp_path / name).touch()
        assert isinstance(open_source(str(tmp_path / name)), LineFile)
    assert isinstance(open_source("-"), PipedLines)
    np.save(tmp_path / "a.npy", np.zeros((2, 3)))
    assert isinstance(open_source(str(tmp_path / "a.npy")), FrameFile)


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("none.csv", {}, "does not exist; a source is"),
        (".", {}, "is a folder"),
        ("mic", {}, "was not trained to read sound"),
        ("a.wav", {}, "was not trained to read sound"),
        ("a.wav", {"rate": RATE}, "cannot be read as sound"),
        ("a.parquet", {}, "is not a file of lines"),
        ("-", {"follow": True}, "only a file of lines can be followed"),
        ("mic", {"follow": True}, "only a file of lines can be followed"),
        ("a.npy", {"follow": True}, "only a file of lines can be followed"),
        ("a.npy", {"form": "csv"}, "format='csv' is for lines"),
        ("a.npy", {}, "cannot be read as an array"),
        ("object.npy", {}, "cannot be read as an array"),
        ("flat.npy", {}, r"float64 \[3\], but must be numbers \[T, width\]"),
    ],
)
def test_what_cannot_be_read(tmp_path, monkeypatch, name, options, words):
    monkeypatch.chdir(tmp_path)
    for file in ("a.wav", "a.parquet", "a.npy"):
        (tmp_path / file).write_bytes(b"nothing of the kind")
    np.save("object.npy", np.array([{}]), allow_pickle=True)
    np.save("flat.npy", np.zeros(3))
    with pytest.raises((ValueError, OSError), match=words):
        list(open_source(name, **options).items())


def test_rows_of_an_array(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.arange(12, dtype=np.int16).reshape(4, 3))
    feed = Feed(open_source(str(path)))
    records = [item.record.tolist() for item in feed]
    assert records == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
    half = Feed(open_source(str(path)))
    items = iter(half)
    assert [next(items).number, next(items).number] == [1, 2]
    assert [item.number for item in Feed(open_source(str(path)), half.position)] == [3, 4]


@pytest.mark.parametrize("given", [RATE, 44100, 8000])
def test_sound_is_mixed_and_resampled(tmp_path, given):
    soundfile, soxr = pytest.importorskip("soundfile"), pytest.importorskip("soxr")
    samples = np.random.default_rng(0).uniform(-0.5, 0.5, (given * 3 // 7, 2)).astype(np.float32)
    path = tmp_path / "a.wav"
    soundfile.write(path, samples, given, subtype="FLOAT")
    feed, chunks, places = Feed(open_source(str(path), rate=RATE)), [], []
    for item in feed:
        chunks.append(item.record)
        places.append(feed.position)
    assert {len(chunk) for chunk in chunks[:-1]} == {RATE // 10}
    whole = soxr.resample(samples.mean(1), given, RATE, quality="HQ")
    np.testing.assert_allclose(np.concatenate(chunks), whole, atol=1e-6)
    rest = list(Feed(open_source(str(path), rate=RATE), places[1]))
    assert [item.number for item in rest] == [3, 4, 5]
    np.testing.assert_array_equal(np.concatenate([item.record for item in rest]), np.concatenate(chunks[2:]))


class PortAudioError(Exception):
    pass


class InputStream:
    """Two chunks, the second after a loss; then it is unplugged."""

    def __init__(self, samplerate, channels, dtype, blocksize):
        assert (samplerate, channels, dtype, blocksize) == (RATE, 1, "float32", RATE // 10)
        self.reads = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def read(self, frames):
        self.reads += 1
        if self.reads > 2:
            raise PortAudioError("unplugged")
        return np.full((frames, 1), self.reads, np.float32), self.reads == 2


def no_device(**_):
    raise PortAudioError("Error querying device -1")


def fake(stream):
    module = types.ModuleType("sounddevice")
    module.PortAudioError, module.InputStream = PortAudioError, stream
    return module


def test_the_microphone(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "sounddevice", fake(InputStream))
    items = iter(Feed(open_source("mic", rate=RATE)))
    assert [next(items).record[0], next(items).record[-1]] == [1, 2]
    assert "samples were lost" in caplog.text
    with pytest.raises(OSError, match="has stopped: unplugged"):
        next(items)


def test_without_a_microphone(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "sounddevice", fake(no_device))
    with pytest.raises(OSError, match="no microphone that gives 16000 samples a second: Error querying"):
        next(open_source("mic", rate=RATE).items())
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    with pytest.raises(ModuleNotFoundError, match="sounddevice"):
        open_source("mic", rate=RATE)
    monkeypatch.delitem(sys.modules, "sounddevice")
    (tmp_path / "sounddevice.py").write_text("raise OSError('PortAudio library not found')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(OSError, match=r"needs the PortAudio library, .*: PortAudio library not found"):
        open_source("mic", rate=RATE)
