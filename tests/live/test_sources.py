"""Arrays, audio and the microphone as sources, and the names of sources."""

import json
import sys
import types
from datetime import datetime

import numpy as np
import polars as pl
import pytest

from nystream.data.table_reader import Column, TableReader
from nystream.live.saving import Position
from nystream.live.sources import Feed, open_source
from nystream.live.sources.lines import LineFile, PipedLines
from nystream.live.sources.rows import FrameFile

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
        ("empty", {}, "is a folder with no feature files"),
        ("empty", {"rate": RATE}, "is a folder with no audio files in subfolders"),
        ("mic", {}, "was not trained on audio"),
        ("a.wav", {}, "was not trained on audio"),
        ("a.wav", {"rate": RATE}, "cannot be read as audio"),
        ("a.parquet", {}, "cannot be read"),
        ("a.npz", {}, "a.npz cannot be streamed: a.npz is not a complete file of numeric arrays"),
        ("a.zip", {}, "cannot be streamed; give .jsonl"),
        ("a.parquet", {"form": "csv"}, "format='csv' is for lines"),
        ("-", {"follow": True}, "only a file of lines can be followed"),
        ("mic", {"follow": True}, "only a file of lines can be followed"),
        ("a.npy", {"follow": True}, "only a file of lines can be followed"),
        ("a.npy", {"form": "csv"}, "format='csv' is for lines"),
        ("a.npy", {}, "a.npy cannot be streamed: a.npy is not a complete file of numeric arrays"),
        ("object.npy", {}, "object.npy is not a complete file of numeric arrays"),
        ("flat.npy", {}, r"float64 \[3\], but must be numbers \[T, width\]"),
    ],
)
def test_what_cannot_be_read(tmp_path, monkeypatch, name, options, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    for file in ("a.wav", "a.parquet", "a.npy", "a.npz", "a.zip"):
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


def test_rows_of_an_npz_are_those_of_x(tmp_path):
    x = np.arange(6.0).reshape(2, 3)
    np.savez(tmp_path / "a.npz", x=x, y=np.zeros(2))
    np.savez(tmp_path / "b.npz", features=x)
    for name in ("a.npz", "b.npz"):
        source = open_source(str(tmp_path / name))
        assert source.shape() == (None, 3)
        assert [item.record.tolist() for item in Feed(source)] == x.tolist()


def test_rows_of_a_parquet_file(tmp_path):
    path = tmp_path / "a.parquet"
    rows = [{"time": datetime(2024, 1, day), "load": day / 3, "on": None, "word": "x"} for day in (1, 2, 3)]
    pl.DataFrame(rows).write_parquet(path)
    feed = Feed(open_source(str(path)))
    assert feed.source.shape() == (("time", "load", "on", "word"), 4)
    items = iter(feed)
    assert next(items).record == rows[0]
    place = feed.position
    assert [item.record for item in items] == rows[1:]
    again = Feed(open_source(str(path)), Position(*json.loads(json.dumps(place))))
    assert [(item.number, item.record) for item in again] == [(2, rows[1]), (3, rows[2])]
    pl.DataFrame([rows[0] | {"load": 0.5}, *rows[1:]]).write_parquet(path)
    with pytest.raises(ValueError, match="does not begin with the 1 rows"):
        Feed(open_source(str(path)), place)


def test_files_of_a_folder(tmp_path):
    (tmp_path / "b").mkdir()
    for name, rows in (("a.npy", 2), ("b/c.npz", 3)):
        (np.save if name.endswith("y") else np.savez)(tmp_path / name, np.full((rows, 2), rows))
    np.save(tmp_path / "a.labels.npy", np.zeros(2))
    feed, places = Feed(open_source(str(tmp_path))), []
    found = [("a.npy", 1), ("a.npy", 2), ("b/c.npz", 1), ("b/c.npz", 2), ("b/c.npz", 3)]
    for item, expected in zip(feed, found, strict=True):
        assert (item.file, item.number) == expected
        assert item.record.tolist() == [2 if item.file == "a.npy" else 3] * 2
        places.append(feed.position)
    for done, place in enumerate(places, 1):
        rest = Feed(open_source(str(tmp_path)), place)
        assert rest.source.file == found[done - 1][0]
        assert [(item.file, item.number) for item in rest] == found[done:]


def test_a_bad_file_of_a_folder_is_one_bad_item(tmp_path):
    for name in ("a.npy", "c.npy"):
        np.save(tmp_path / name, np.zeros((2, 2)))
    (tmp_path / "b.npy").write_bytes(b"nothing of the kind")
    found = [(item.file, item.number, item.error is None) for item in Feed(open_source(str(tmp_path)))]
    assert found == [
        ("a.npy", 1, True),
        ("a.npy", 2, True),
        ("b.npy", 1, False),
        ("c.npy", 1, True),
        ("c.npy", 2, True),
    ]


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
    """Two chunks, the second after lost samples; then the microphone is unplugged."""

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
    with pytest.raises(OSError, match="no microphone provides 16000 samples per second: Error querying"):
        next(open_source("mic", rate=RATE).items())
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    with pytest.raises(ModuleNotFoundError, match=r"needs sounddevice: pip install -c constraints.txt '\.\[mic\]'"):
        open_source("mic", rate=RATE)
    monkeypatch.delitem(sys.modules, "sounddevice")
    (tmp_path / "sounddevice.py").write_text("raise OSError('PortAudio library not found')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(OSError, match=r"needs the PortAudio library, .*: PortAudio library not found"):
        open_source("mic", rate=RATE)


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_what_is_known_in_advance_is_read_ahead(tmp_path, name):
    reader = TableReader((Column("load"), Column("wind")), ("load",), known=("wind",), known_rows=1)
    frame = pl.DataFrame({"load": [1, 2, 3], "wind": [4, 5, 6]})
    path = tmp_path / name
    frame.write_csv(path) if name.endswith("csv") else frame.write_parquet(path)

    def ahead(source):
        return [item.record.get("wind ahead") and int(item.record["wind ahead"]) for item in Feed(source)]

    source = open_source(str(path), reader=reader)
    assert source.shape() == (("load", "wind", "wind ahead"), 3)
    assert ahead(source) == [5, 6, None]
    assert ahead(open_source(str(path))) == [None] * 3  # another model
    live = frame.rename({"wind": "wind ahead"})  # as live records have it
    live.write_csv(path) if name.endswith("csv") else live.write_parquet(path)
    assert ahead(open_source(str(path), reader=reader)) == [4, 5, 6]
    neither = frame.drop("wind")
    neither.write_csv(path) if name.endswith("csv") else neither.write_parquet(path)
    with pytest.raises(
        ValueError, match="'wind ahead' must be the value of 'wind' at the time that is forecast, 1 row"
    ):
        reader.live().check(*open_source(str(path), reader=reader).shape())
