"""Train the small model that comes with the package, on the sample that comes with it.

    python tools/packaged_model.py

Writes src/nystream/models/packaged/demand: the total demand of 24 areas of the United States an hour ahead. The last
tenth of the hours is never trained on; `nystream stream demand sample` streams it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from nystream.data.sample import csv_lines

ROOT = Path(__file__).resolve().parents[1]
MODEL = ROOT / "src" / "nystream" / "models" / "packaged" / "demand"
OPTIONS = ["--target", "total", "--units", "MW", "--window", "72", "--epochs", "24"]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        table, run = Path(folder) / "demand.csv", Path(folder) / "run"
        table.write_text("\n".join(csv_lines()) + "\n", encoding="utf-8")
        command = [sys.executable, "-m", "nystream", "train", str(table), *OPTIONS, "--out", str(run)]
        subprocess.run(command, check=True)
        MODEL.mkdir(parents=True, exist_ok=True)
        for name in ("config.json", "model.safetensors"):
            shutil.copyfile(run / "model" / name, MODEL / name)
        shutil.copyfile(run / "scores.json", MODEL / "scores.json")


if __name__ == "__main__":
    main()
