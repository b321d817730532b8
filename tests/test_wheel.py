"""The wheel, built here and imported outside the checkout."""

import json
import sys
from collections.abc import Callable
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


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, run_outside: Callable[..., str]) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation"]
    run_outside(*build, "--outdir", str(folder), str(ROOT), cwd=folder)
    (wheel,) = folder.glob("*.whl")
    target = folder / "site"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps", "--no-index"]
    run_outside(*pip, "--target", str(target), str(wheel), cwd=folder)
    return target


def test_wheel_imports_outside_the_checkout(installed: Path, tmp_path: Path, run_outside: Callable[..., str]) -> None:
    assert ROOT not in tmp_path.parents
    found = json.loads(run_outside(sys.executable, "-c", PROBE, cwd=tmp_path, PYTHONPATH=str(installed)))
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
