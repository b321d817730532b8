"""Blocks about exported models, for `render.py`."""

from __future__ import annotations

from typing import Any

from _experiments import changed
from _source import ROOT, results, source, table, us


def exported(figures: dict[str, Any]) -> list[str]:
    """The exported model beside others, and over two windows."""
    rows = [
        [row["name"], us(row["median_microseconds"]), us(row["p99_microseconds"]), f"{row['ratio']:.2f}"]
        for row in figures["rows"]
    ]
    windows = [
        [f"{row['n']:,}", us(row["median_microseconds"]), us(row["p99_microseconds"]), f"{row['ratio']:.2f}"]
        for row in figures["windows"]
    ]
    return [
        "The exported model, one stream, states overwritten in place; a GRU has the same width:",
        table(["", "median", "p99", "relative to onnxruntime"], rows),
        "The exported model with fixed landmarks over two windows:",
        table(["n", "median", "p99", "ratio"], windows),
    ]


def export_step() -> str:
    """The headline of the page on export."""
    record = results("bench")
    figures = record["export"]
    times = {row["name"]: us(row["median_microseconds"]) for row in figures["rows"]}
    eager = next(name for name in times if name.startswith("nystream torch"))
    long, sizes = figures["windows"][-1], figures["file_bytes"]
    return (
        f"One step of a model of GTZAN's size on one core ({source(record)}): {times['onnxruntime']} in ONNX Runtime, "
        f"{times['onnxruntime, int8']} with int8 weights, {times[eager]} in eager torch, and "
        f"{times['onnxruntime, GRU']} for a GRU of the same width in ONNX Runtime. With n = 16,384 a step takes "
        f"{long['ratio']:.2f} times as long as with n = 128. The file has {sizes['onnxruntime'] / 1e3:,.0f} kB, or "
        f"{sizes['onnxruntime, int8'] / 1e3:,.0f} kB with int8 weights."
    )


def exported_scores() -> str:
    """What int8 weights cost in scores, and what they gain."""
    record = results("narrow")
    rows = []
    for one in record["tasks"]:
        relative = one["metric"] == "mse"
        usual, light = one["exported"]
        by = usual["score"] if relative else 1.0
        change = [x / by * 100 for x in (light["score"] - usual["score"], *light["interval"])]
        signed = [f"{round(x, 2) + 0.0:+.2f}".replace("-", "−") for x in change]  # without −0.00
        scores = [f"{x['score'] * 1e3:.4f}e-3" if relative else f"{x['score'] * 100:.2f}" for x in (usual, light)]
        rows.append(
            [
                one["task"],
                *scores,
                f"{signed[0]}{' %' * relative} ({signed[1]} to {signed[2]})",
                changed(light["changes"]),
                " / ".join(f"{x['file_bytes'] / 1e6:.2f}" for x in (usual, light)),
                " / ".join(us(x["median_microseconds"]) for x in (usual, light)),
            ]
        )
    head = ["task", "float32", "int8", "difference", "change of outputs", "file, MB", "step"]
    return "\n\n".join(
        [
            f"Scores of exported models on the test data ({source(record)}), with 95 % intervals over resampled "
            "tracks, videos or weeks; the models and columns are those of the table of "
            "[lighter pools](performance.md#scores-with-lighter-weights-and-rings).",
            table(head, rows),
        ]
    )


def traced() -> str:
    """Steps that AOTInductor has compiled."""
    record = results("traced")
    names = list(record["models"][0]["median_microseconds"])
    rows = [
        [
            f"`{one['variant']}`" + (f", paper stack of {one['layers']}" if one["layers"] > 1 else ""),
            f"{one['n']:,}",
            *(us(one["median_microseconds"][name]) for name in names),
        ]
        for one in record["models"]
    ]
    return f"Median time of a step of one stream, at GTZAN's size, on one thread ({source(record)}):\n\n" + table(
        ["model", "n", *names], rows
    )


def code(path: str, language: str) -> str:
    """A file of the repository."""
    return f"```{language}\n{(ROOT / path).read_text(encoding='utf-8').rstrip()}\n```"
