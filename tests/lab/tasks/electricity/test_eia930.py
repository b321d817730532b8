"""The EIA-930 file, and the sample of it in the package."""

import numpy as np
import pytest
import torch

from nystream.data.sample import FILE
from nystream.lab.tasks.electricity import eia930, forecast, sample


@pytest.fixture(scope="module")
def full(data_dir):
    return eia930.load(data_dir)


def small(rows=5, areas=11):
    random = np.random.default_rng(0)
    return {
        "x": random.integers(1, 60000, (rows, areas)).astype(np.float32),
        "time": 26297280 + 60 * np.arange(rows),
        "region": np.array([f"area{j}" for j in range(areas)]),
        "ok": np.packbits(random.random((rows, areas)) < 0.8, axis=1),
    }


def save(folder, **held):
    file = folder / eia930.FILE
    np.savez(file, **held)
    return file


def test_reads_the_layout_and_writes_it(tmp_path):
    held = small()
    found = eia930.load(save(tmp_path, **held))
    np.testing.assert_array_equal(found.values, held["x"])
    np.testing.assert_array_equal(np.packbits(found.known, axis=1), held["ok"])
    assert found.time[0] == np.datetime64("2020-01-01T00:00")
    assert found.step == np.timedelta64(1, "h")
    assert found.names == tuple(held["region"])
    eia930.write(tmp_path / "again.npz", found)
    again = eia930.load(tmp_path / "again.npz")
    for name in ("values", "time", "known", "names"):
        np.testing.assert_array_equal(getattr(again, name), getattr(found, name))


def test_refuses_other_files(tmp_path):
    with pytest.raises(FileNotFoundError, match=eia930.FILE):
        eia930.load(tmp_path)
    held = small()
    for change, what in [
        ({"x": held["x"][:4]}, "x \\[4, 11\\], time \\[5\\]"),
        ({"ok": held["ok"][:, :1]}, "ok uint8 \\[5, 1\\]"),
        ({"time": held["time"] * np.array([1, 1, 1, 1, 2])}, "even steps"),
    ]:
        with pytest.raises(ValueError, match=what):
            eia930.load(save(tmp_path, **(held | change)))
    del held["ok"]
    with pytest.raises(ValueError, match="has no ok"):
        eia930.load(save(tmp_path, **held))


def test_writes_whole_numbers_alone(tmp_path):
    held = small()
    held["x"][0, 0] = 1.5
    found = eia930.load(save(tmp_path, **held))
    with pytest.raises(ValueError, match="whole numbers"):
        eia930.write(tmp_path / "again.npz", found)


def test_the_sample_needs_no_data_set(monkeypatch):
    monkeypatch.delenv("NYSTREAM_DATA", raising=False)
    held = sample()
    assert held.values.shape == (3 * 365 * 24 + 24, 24)
    assert held.names == eia930.AREAS
    assert (held.time[0], held.time[-1]) == (np.datetime64("2022-01-01T00:00"), np.datetime64("2024-12-31T23:00"))
    assert 0.98 < held.known.mean() < 1
    assert float(held.values.min()) >= 1
    problem = forecast(held)
    assert problem.train.input_dim == 28
    assert bool(torch.cat([part.y for part in problem.parts]).isfinite().all())


def test_the_sample_is_small_and_attributed():
    assert len(FILE.read_bytes()) < 1_500_000
    words = FILE.with_name("sample.LICENSE.txt").read_text()
    assert "CC BY 4.0" in words
    assert "Scientific Data 7, 155" in words
    assert "CC BY 4.0" in (sample.__doc__ or "")


def test_the_sample_is_what_the_full_file_says(full):
    held = sample()
    start = int(np.searchsorted(full.time, held.time[0]))
    same = full.select(held.names, slice(start, start + len(held)))
    for name in ("values", "time", "known"):
        np.testing.assert_array_equal(getattr(held, name), getattr(same, name))


def test_the_full_file_is_as_documented(full):
    assert full.values.shape == (43848, 117)
    assert full.step == np.timedelta64(1, "h")
    assert (full.time[0], full.time[-1]) == (np.datetime64("2020-01-01T00:00"), np.datetime64("2024-12-31T23:00"))
    assert full.names[:2] == ("AECI", "AVA")
    assert abs(full.known.mean() - 0.993) < 0.001
    by_hour = full.total().reshape(-1, 24).mean(0)
    assert by_hour.argmin() == 9  # the small hours of the east, so the clock is UTC
    problem = forecast(full)
    assert problem.edges == (35077, 39462)
    assert [tuple(part.x.shape) for part in problem.parts] == [(35077, 121), (4385, 121), (4385, 121)]
