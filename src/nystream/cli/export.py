"""`nystream export`: write a trained model as ONNX files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from nystream.config.option import option
from nystream.data.run_folder import info_of
from nystream.export import OnnxStream, export_onnx
from nystream.models import StreamModel
from nystream.models.find import folder_of


@dataclass(kw_only=True)
class Export:
    """Write a trained model as ONNX files, to run it without Python or torch: on phones, in browsers, in services.

    model.onnx takes a token and the state, and returns an answer and the next state. model.chunk.onnx does the same for
    many tokens per call. model.json describes both: names, shapes, initial values, labels, units, and how a record
    becomes a token.

    Example:
        nystream export runs/load --out load-onnx --client
    """

    model: Positional[str] = option(
        help="A run folder, a model folder, or demand: a small model that comes with the package.", metavar="MODEL"
    )
    out: Path | None = option(
        None, "Folder to write the files to; it is created if needed.", "FOLDER", shown="the model's name and -onnx"
    )
    weights: Literal["float32", "int8"] = option(
        "float32", "Weights of the linear layers. int8 makes the files smaller, and answers change a little."
    )
    client: bool = option(
        False, "Also write onnx_stream.py: a client in one Python file that needs only NumPy and ONNX Runtime."
    )

    def run(self) -> None:
        folder = folder_of(self.model)
        model = StreamModel.from_pretrained(folder)
        model.info = info_of(model.info, folder)
        out = Path(f"{Path(self.model).resolve().name}-onnx") if self.out is None else self.out
        if out.exists() and not out.is_dir():
            raise NotADirectoryError(f"out={out} is a file, but must be a folder")
        out.mkdir(parents=True, exist_ok=True)
        path = export_onnx(model, out / "model.onnx", weights=self.weights, client_file=self.client)
        stream = OnnxStream(path)
        written = [*stream.card["files"].values(), "model.json", *(["onnx_stream.py"] if self.client else [])]
        for name in written:
            print(f"wrote {out / name} ({_size((out / name).stat().st_size)})")
        print(f"state of a stream: {_size(stream.nbytes)}; window: {model.config.window} tokens", flush=True)


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.1f} kB"
