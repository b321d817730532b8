"""`nystream export` writes a model that gives the answers of `nystream stream`."""

import json

import numpy as np
import pytest

import nystream as ns
from nystream.cli import main


def test_a_model_of_the_package(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["export", "demand", "--client"]) == 0
    folder = tmp_path / "demand-onnx"
    written = ["model.chunk.onnx", "model.json", "model.onnx", "onnx_stream.py"]
    assert sorted(path.name for path in folder.iterdir()) == written
    out = capsys.readouterr().out
    assert all(name in out for name in written)
    assert "state of a stream: 23.0 kB; window: 72 tokens" in out
    card = json.loads((folder / "model.json").read_text())
    assert card["info"]["units"] == ["MW"]
    assert card["info"]["reader"]["targets"] == ["total"]
    answer = {"kind": "change", "shape": [1, 1, 1], "fields": ["total"], "sorted": False, "minimum": None}
    assert card["answer"] == answer
    assert card["token"][-1] == {"kind": "cosine", "hours": 168.0, "seconds_later": 0.0}
    model = ns.StreamModel.from_pretrained("demand")
    x = (model.input_scaler.mean + model.input_scaler.scale * 0.1).numpy()
    pool = ns.StreamPool(model)
    y = ns.OnnxStream(folder / "model.onnx").push(x)
    np.testing.assert_allclose(y, pool.push(pool.open(), x), rtol=1e-5, atol=1e-3)


def test_light_weights_in_a_folder_of_choice(tmp_path, capsys):
    assert main(["export", "demand", "--weights", "int8", "--out", str(tmp_path / "a" / "b")]) == 0
    assert ns.OnnxStream(tmp_path / "a" / "b" / "model.onnx").card["weights"] == "int8"
    assert "onnx_stream.py" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "nowhere is not a folder"),
        (["demand", "--out", "file"], "out=file is a file, but must be a folder"),
        (["demand", "--weights", "int4"], "int4"),
    ],
)
def test_what_cannot_be_exported(tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    assert main(["export", *words]) != 0
    assert message in capsys.readouterr().err
