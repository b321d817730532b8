"""Write what the page shows first into public/: the packaged model of electricity demand, exported, and its sample.

python prepare.py
"""

from __future__ import annotations

import shutil
from pathlib import Path

import nystream as ns
from nystream.data.sample import csv_lines
from nystream.live.sources.lines import SAMPLE_SHARE
from nystream.models import StreamModel

FOLDER = Path(__file__).resolve().parent / "public" / "demand"


def main() -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    ns.export_onnx(StreamModel.from_pretrained("demand"), FOLDER / "model.onnx")
    (FOLDER / "model.chunk.onnx").unlink(missing_ok=True)  # the page takes one token a call
    (FOLDER / "sample.csv").write_text("\n".join(csv_lines(SAMPLE_SHARE)) + "\n", "utf-8")
    for path in sorted(FOLDER.iterdir()):
        print(f"{path.relative_to(FOLDER.parents[1])}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
