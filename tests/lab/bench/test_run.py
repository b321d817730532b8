"""A whole run at tiny sizes: the record has every field, the tables fit, the figure is drawn."""

import dataclasses
import io
import json

import pytest
from rich.console import Console

from nystream.cli import bench_tables, screen
from nystream.lab.bench import alone, exported, plot, pool, window
from nystream.lab.bench.run import run
from nystream.lab.bench.settings import PARTS, BenchSettings, target
from nystream.lab.bench.sizes import ModelSizes

TINY = ModelSizes(window=6, embed_dim=8, num_heads=2, landmarks=3, ff_dim=12, input_dim=5, output_dim=3)
LARGE = ModelSizes(window=20, embed_dim=8, num_heads=2, landmarks=3, ff_dim=8)


@pytest.fixture(scope="module")
def record(kernel_in_torch):
    with pytest.MonkeyPatch.context() as patch:
        for module in (alone, window):
            patch.setattr(module, "LARGE", LARGE)
        patch.setattr("nystream.stream.cpu.alone.AttentionKernel", kernel_in_torch)
        for module in (window, exported):
            patch.setattr(module, "WINDOWS", (8, 20))
        return run(BenchSettings(TINY, streams=(1, 3), rounds=8, threads=1, backend="torch"))


def test_every_part_is_in_the_record(record):
    assert set(record) == {*PARTS, "settings", "targets", "seconds"}
    assert json.loads(json.dumps(record, allow_nan=False))["settings"]["sizes"]["window"] == 6
    # Those of the pool are for a compiled one, at its default sizes.
    assert [target["what"] for target in record["targets"]] == ["attention alone, n = 16,384, against ring KV"]


def test_every_contender_has_every_figure(record):
    rows = record["model"]["rows"]
    names = ["window recompute", "ring KV + SDPA", "continual-inference"]
    names += [f"nystream {how}, {family}" for how in ("torch", "pool") for family in ("co-fixed", "co-cont", "co-full")]
    assert [row["name"] for row in rows if row["blocks"] == 1] == names
    assert [row["name"] for row in rows if row["blocks"] == 2] == [
        "continual-inference, 2 blocks",
        "nystream pool, co-fixed, 2 blocks",
    ]
    for row in rows:
        assert 0 <= row["error"] < 1e-4
        assert 0 < row["median_microseconds"] <= row["p99_microseconds"] <= row["worst_microseconds"]
        assert row["bytes_per_stream"] > 0
        assert row["ratio"] > 0
    assert all("error_against_step" in row for row in rows if row["name"] == "nystream pool, co-cont")
    found = record["model"]["floor"]
    assert {"bytes", "microseconds", "gigabytes_per_second", "pool_over_floor"} < set(found)
    assert found["reads"] == "the weights of the model"
    assert found["with_state"]["bytes"] > found["bytes"]


def test_streams_phases_window_and_overhead(record):
    assert [row["streams"] for row in record["streams"]["rows"]] == [1, 3]
    for row in record["streams"]["rows"]:
        for how in ("one_by_one", "push_many", "torch_batch"):
            assert row[f"{how}_steps_per_second"] > 0
    assert [row["name"] for row in record["phases"]["rows"]] == ["co-fixed", "co-cont"]
    assert record["phases"]["cycle"] == 12
    assert [row["name"] for row in record["window"]["rows"]] == ["attention alone", "whole model"]
    for row in record["window"]["rows"]:
        assert row["ratio"] > 0
        assert set(row["windows"]) == {"8", "20"}
    assert [row["name"] for row in record["overhead"]["rows"]][:2] == ["pool.push", "kernel, called once"]


def test_the_exported_model_beside_others(record):
    names = [row["name"] for row in record["export"]["rows"]]
    assert names == [f"nystream {how}, co-fixed" for how in ("torch", "pool")] + [
        "onnxruntime",
        "onnxruntime, int8",
        "onnxruntime, GRU",
    ]
    assert all(row["median_microseconds"] > 0 for row in record["export"]["rows"])
    assert [row["n"] for row in record["export"]["windows"]] == [8, 20]
    assert all(size > 0 for size in record["export"]["file_bytes"].values())


def test_targets_are_for_the_default_sizes(monkeypatch):
    """Compiled settings, so that only the sizes decide whether there are targets."""
    monkeypatch.setattr(pool, "LARGE", LARGE)
    settings = BenchSettings(TINY, parts=("phases", "overhead", "model"), rounds=5, backend="numba", quick=True)
    record = run(settings)
    assert {part["backend"] for part in (record[name] for name in settings.parts)} == {"numba"}
    assert record["model"]["floor"]["reads"] == "the packed weights of the kernel"
    assert record["targets"] == []
    monkeypatch.setattr(BenchSettings, "has_targets", True)
    record = run(dataclasses.replace(settings, parts=("phases", "overhead")))
    assert len(record["targets"]) == 2
    assert [row["name"] for row in record["phases"]["rows"]][2:] == ["attention, n = 6", "attention, n = 20"]
    for row in record["phases"]["rows"]:
        assert 0 < row["mean_microseconds"] <= row["slowest_microseconds"]
    console = Console(width=80, color_system=None, file=io.StringIO())
    screen.print_blocks(console, bench_tables.blocks(record))
    assert "four renew their sums in the same step" in " ".join(console.file.getvalue().split())


@pytest.mark.parametrize("width", [80, 120])
def test_the_tables_fit(record, width):
    record = json.loads(json.dumps(record))
    large = {"window": 1_000_000, "embed_dim": 16_384, "num_heads": 1024, "landmarks": 1024, "ff_dim": 65_536}
    record["settings"]["sizes"] |= large
    for floor in (record["model"]["floor"], record["model"]["floor"]["with_state"]):
        floor |= {"bytes": 123_400_000_000, "microseconds": 1_234_567.8, "pool_over_floor": 1234.56}
    slow = record["model"]["rows"][0]
    slow |= {"median_microseconds": 123_456.0, "p99_microseconds": 123_456.0, "worst_microseconds": 1_234_567.0}
    slow |= {"ratio": 12_345.0, "bytes_per_stream": 123_400_000}
    targets = [target("a promise", 7.0, 6), target("another", 3.5, 3, False, "µs")]
    console = Console(width=width, color_system=None, file=io.StringIO())
    screen.print_blocks(console, bench_tables.blocks(record | {"targets": targets}))
    text = console.file.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "met a promise 7 x ≥ 6 x" in lines
    assert "MISSED another 3.5 µs ≤ 3 µs" in lines
    assert sum(line.startswith("nystream pool, co-fixed") for line in lines) == 3


@pytest.mark.parametrize(("left_out", "ending"), [("", "png"), ("streams", "svg"), ("model", "pdf")])
def test_the_figure_is_drawn(record, tmp_path, left_out, ending):
    path = tmp_path / f"figure.{ending}"
    plot.draw({name: part for name, part in record.items() if name != left_out}, path)
    assert path.stat().st_size > 1000


def test_a_figure_of_nothing_is_refused(record, tmp_path):
    with pytest.raises(ValueError, match="model and streams"):
        plot.draw({"settings": record["settings"]}, tmp_path / "figure.png")


def test_too_many_streams_for_the_memory_are_left_out(monkeypatch):
    monkeypatch.setattr("nystream.lab.bench.streams.free_memory", lambda: 1000.0)
    record = run(BenchSettings(TINY, parts=("streams",), streams=(1, 100), rounds=8, backend="torch"))
    assert not record["streams"]["rows"]
    assert [row["streams"] for row in record["streams"]["skipped"]] == [1, 100]


def test_without_the_package_the_table_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr("nystream.lab.bench.model.installed", lambda package: None)
    record = run(BenchSettings(TINY, parts=("model",), rounds=1, backend="torch"))
    assert not [row for row in record["model"]["rows"] if row["name"].startswith("continual")]
    notes = [note for _, _, notes in bench_tables.blocks(record) for note in notes]
    assert "continual-inference: not available; pip install continual-inference" in notes
