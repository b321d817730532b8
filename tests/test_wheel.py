"""The wheel, built here and imported outside the checkout."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import nystream

pytestmark = pytest.mark.deploy
pytest.importorskip("build")
pytest.importorskip("hatchling")

ROOT = Path(__file__).resolve().parents[1]

# Optional or slow to import: nystream and its names must leave them alone, unless torch brings them itself.
LAZY = ["matplotlib", "numba", "onnx", "rich", "sklearn", "triton", "tyro"]

PROBE = """
import importlib.metadata, json, sys
import numpy, safetensors.torch, torch
before = set(sys.modules)
import nystream
for name in nystream.__all__:
    getattr(nystream, name)
loaded = set(sys.modules) - before
(script,) = importlib.metadata.entry_points(group="console_scripts", name="nystream")
print(json.dumps({
    "file": nystream.__file__,
    "version": nystream.__version__,
    "metadata_version": importlib.metadata.version("nystream"),
    "script": script.value,
    "loaded": sorted(loaded),
}))
"""


def run(*command: str, cwd: Path, **env: str) -> str:
    environ = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")} | env
    done = subprocess.run(command, cwd=cwd, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT), cwd=folder)
    (wheel,) = folder.glob("*.whl")
    target = folder / "site"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps", "--no-index"]
    run(*pip, "--target", str(target), str(wheel), cwd=folder)
    return target


def test_wheel_imports_outside_the_checkout(installed: Path, tmp_path: Path) -> None:
    assert ROOT not in tmp_path.parents
    found = json.loads(run(sys.executable, "-c", PROBE, cwd=tmp_path, PYTHONPATH=str(installed)))
    assert Path(found["file"]).parent == installed / "nystream"
    assert found["version"] == found["metadata_version"] == nystream.__version__
    assert found["script"] == "nystream.cli:main"
    assert not [name for name in found["loaded"] if name.partition(".")[0] in LAZY]


def test_wheel_holds_the_whole_package(installed: Path) -> None:
    def files(folder: Path) -> set[str]:
        found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
        return {str(path) for path in found if "__pycache__" not in path.parts}

    shipped = files(installed / "nystream")
    assert "py.typed" in shipped
    assert shipped == files(ROOT / "src" / "nystream")
