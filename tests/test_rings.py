"""The two rings: training and streaming on your own data import neither the lab nor the audio code."""

import json
import math
import subprocess
import sys

COMMANDS = """
import json, sys
from nystream.cli import main

SIZES = ["--window", "8", "--embed-dim", "8", "--num-heads", "2", "--epochs", "1", "--plain"]
for words in (
    ["train", "data.csv", "--target", "total", "--out", "run", *SIZES],
    ["eval", "run", "data.csv", "--plain"],
    ["stream", "run", "data.csv", "--json"],
):
    assert main(words) == 0, words
open("modules.json", "w").write(json.dumps(sorted(sys.modules)))
"""


def test_a_table_needs_neither_the_lab_nor_sound(tmp_path):
    rows = [f"2024-01-{1 + i // 24:02} {i % 24:02}:00,{100 + 10 * math.sin(i / 4):.2f}" for i in range(160)]
    (tmp_path / "data.csv").write_text("\n".join(["time,total", *rows]) + "\n")
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "total" in done.stdout.splitlines()[-1]
    modules = json.loads((tmp_path / "modules.json").read_text())
    assert "nystream.data.table_reader" in modules
    assert [name for name in modules if name.startswith("nystream.lab")] == []
    assert {"soundfile", "soxr", "sounddevice"}.isdisjoint(modules)
    assert [name for name in modules if name.startswith("nystream") and "embed" in name] == []
