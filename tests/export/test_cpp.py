"""The client in C++ gives the numbers of `OnnxStream`. Needs a release of ONNX Runtime: ONNXRUNTIME=folder."""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import nystream as ns

SOURCE = Path(__file__).parents[2] / "examples" / "cpp"
FOLDERS = [Path(folder) / "include" for folder in (os.environ.get("ONNXRUNTIME"), "/usr", "/usr/local") if folder]
HEADERS = [path for folder in FOLDERS for path in folder.rglob("onnxruntime_cxx_api.h")]


@pytest.mark.deploy
@pytest.mark.skipif(not HEADERS, reason="set ONNXRUNTIME to the folder of a release of ONNX Runtime, with its headers")
@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs CMake, a C++ compiler and nlohmann-json")
@pytest.mark.parametrize("variant", ["co-fixed-single", "co-cont-single", "co-full-single"])
def test_the_client_in_cpp(build, tokens, tmp_path, variant):
    ns.export_onnx(build(variant), tmp_path / "model.onnx")
    root = HEADERS[0].parents[1] if HEADERS[0].parent.name == "include" else HEADERS[0].parents[2]
    for command in (["-B", tmp_path / "build", "-S", SOURCE, f"-DONNXRUNTIME={root}"], ["--build", tmp_path / "build"]):
        subprocess.run(["cmake", *command], check=True)
    x = tokens(30, 5)
    text = "\n".join(",".join(f"{number:.9g}" for number in row) for row in x)
    run = [tmp_path / "build" / "stream", tmp_path]
    done = subprocess.run(run, input=text, text=True, capture_output=True, check=True)
    y = np.loadtxt(done.stdout.splitlines(), delimiter=",")
    np.testing.assert_allclose(y, ns.OnnxStream(tmp_path / "model.onnx").extend(x), rtol=1e-4, atol=1e-4)
