"""The exported model in ONNX Runtime: against eager torch, the pool and a GRU, and how it depends on the window."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nystream.export import OnnxStream, export_onnx
from nystream.lab.bench import check
from nystream.lab.bench.contenders import Contender, Pooled, Stepped
from nystream.lab.bench.settings import BenchSettings, Part, target
from nystream.lab.bench.sizes import ModelSizes, build_model, tokens
from nystream.lab.bench.timing import TimedCall, measure
from nystream.models.stream_model import StreamModel
from nystream.progress import Advance
from nystream.provenance import installed

NUM_TOKENS = 64  # different tokens, fed in turn
WINDOWS = (128, 16_384)
FLOAT, INT8, GRU = "onnxruntime", "onnxruntime, int8", "onnxruntime, GRU"
NEEDED = ("onnx", "onnxruntime", "onnxscript")


class Exported(Contender):
    """`OnnxStream.push`, with the state overwritten in place, on one thread."""

    def __init__(self, model: StreamModel, name: str = FLOAT, weights: str = "float32") -> None:
        self.name, self.blocks = name, len(model.encoder.blocks)
        with tempfile.TemporaryDirectory() as folder:
            path = export_onnx(model, Path(folder) / "model.onnx", weights=weights)
            self.file_bytes = path.stat().st_size
            self.stream = OnnxStream(path)
            self.stream.extend(tokens(1, model.config.input_dim))  # opens the other graph while it is there
            self.stream.reset()
        self.bytes_per_stream = self.stream.nbytes

    def arguments(self, x: Tensor) -> tuple[Any, ...]:
        return (x.numpy(),)

    def step(self, x: Any) -> Any:
        return self.stream.push(x)

    def output(self, y: Any) -> Tensor:
        return torch.from_numpy(y)

    def fill(self, x: Tensor) -> None:
        self.stream.extend(x.numpy())


def export(settings: BenchSettings, advance: Advance) -> Part:
    """Check the exported models, then time all in turns."""
    if missing := [name for name in NEEDED if installed(name) is None]:
        return {"rows": [], "windows": [], "skipped": f"pip install {' '.join(missing)}"}, []
    sizes = settings.sizes
    model = build_model(sizes, settings.seed)
    x = tokens(check.checked_tokens(sizes.window), sizes.input_dim, settings.seed)
    wanted, feed = check.expected(model, x), tokens(NUM_TOKENS, sizes.input_dim, settings.seed + 1)
    light = Exported(model, INT8, "int8")
    contenders = [Stepped(model), Pooled(model, settings.backend), Exported(model), light]
    errors = {}
    for contender in contenders:
        tolerance = check.LIGHT["int8"] if contender is light else check.TOLERANCE
        outputs = check.outputs(contender, x, sizes.window)
        errors[contender.name] = check.compare(
            contender.name, outputs, wanted, blocks=contender.blocks, tolerance=tolerance
        )
    jobs = {contender.name: contender.job(feed) for contender in contenders}
    if not settings.quick:
        jobs[GRU] = _recurrent(sizes, feed)
    times = measure(jobs, settings.rounds, lambda: advance(0.5))
    rows = [
        {"name": name, **took.to_dict(), "ratio": took.median / times[FLOAT].median, "error": errors.get(name)}
        for name, took in times.items()
    ]
    windows = _windows(settings, advance)
    figures = {"rows": rows, "windows": windows, "file_bytes": {c.name: c.file_bytes for c in contenders[2:]}}  # type: ignore[attr-defined]
    targets = []
    if settings.has_targets:
        step = times[contenders[0].name].median
        targets.append(target("onnxruntime, against eager torch", times[FLOAT].median / step, 1 / 3, False))
        targets.append(target("onnxruntime, n = 16,384 against n = 128", windows[1]["ratio"], 1.5, False))
        if GRU in times:
            limit = times[FLOAT].median / times[GRU].median
            targets.append(target("onnxruntime, against a GRU of the same width in it", limit, 2.5, False))
    return figures, targets


def _recurrent(sizes: ModelSizes, feed: Tensor) -> TimedCall:
    """A step of an exported GRU with the width of the model, in the faster of two forms."""
    from nystream.lab.rivals.config import RecurrentConfig
    from nystream.lab.rivals.recurrent import RecurrentModel
    from nystream.lab.rivals.steppers import FORMS, OnnxStep

    config = RecurrentConfig(
        kind="gru", input_dim=sizes.input_dim, output_dim=sizes.output_dim, embed_dim=sizes.embed_dim
    )
    arguments = [(x.numpy(),) for x in feed]
    calls = [TimedCall(OnnxStep(RecurrentModel(config), form).push, arguments) for form in FORMS]
    times = measure(dict(zip(FORMS, calls, strict=True)), 20, lambda: None)
    return min(zip(FORMS, calls, strict=True), key=lambda pair: times[pair[0]].median)[1]


def _windows(settings: BenchSettings, advance: Advance) -> list[dict[str, Any]]:
    """Two windows of the same model, each full."""
    streams = {}
    for n in WINDOWS:
        sizes = settings.sizes.replace(window=n)
        streams[n] = Exported(build_model(sizes, settings.seed), f"{n}")
        streams[n].fill(tokens(n, sizes.input_dim, settings.seed))
    feed = tokens(NUM_TOKENS, settings.sizes.input_dim, settings.seed + 1)
    times = measure({f"{n}": stream.job(feed) for n, stream in streams.items()}, settings.rounds, lambda: advance(0.5))
    short = times[f"{WINDOWS[0]}"].median
    return [
        {
            "n": n,
            **times[f"{n}"].to_dict(),
            "ratio": times[f"{n}"].median / short,
            "bytes_per_stream": stream.bytes_per_stream,
        }
        for n, stream in streams.items()
    ]
