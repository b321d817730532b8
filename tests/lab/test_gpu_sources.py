"""A record of a GPU knows whether the code has changed since."""

import ast
import json

import pytest

from lab import gpu_sources


@pytest.fixture
def source(tmp_path):
    kernels = tmp_path / "nystream" / "ops" / "triton"
    kernels.mkdir(parents=True)
    (kernels / "full.py").write_text("from nystream.sizes import LARGE\n\n\ndef tile():\n    return LARGE\n")
    (tmp_path / "nystream" / "sizes.py").write_text("LARGE = 128\n")
    return tmp_path


def test_words_and_places_do_not_count(source):
    before = gpu_sources.digest(source)
    old, new = source / "nystream" / "ops" / "triton" / "full.py", source / "nystream" / "ops" / "exact.py"
    new.write_text(
        '"""Tiles."""\nfrom nystream.sizes import LARGE\n\n\ndef tile():\n    """Large."""\n    return LARGE  # yes\n'
    )
    old.unlink()
    assert gpu_sources.digest(source) == before


@pytest.mark.parametrize("file", ["ops/triton/full.py", "sizes.py"])
def test_code_and_what_it_imports_count(source, file):
    before = gpu_sources.digest(source)
    path = source / "nystream" / file
    path.write_text(path.read_text().replace("LARGE", "LARGEST"))
    assert gpu_sources.digest(source) != before


def test_the_version_of_python_does_not_count(source, monkeypatch):
    """Fields of the syntax tree that are empty, or that a version does not have, are left out."""
    before = gpu_sources.digest(source)
    monkeypatch.setattr(ast.FunctionDef, "_fields", (*ast.FunctionDef._fields, "type_params_"))
    monkeypatch.setattr(ast.FunctionDef, "type_params_", [], raising=False)
    assert gpu_sources.digest(source) == before


def test_a_record_says_its_age(tmp_path):
    record = tmp_path / "gpu.json"
    assert "nothing of this code was run on a GPU" in gpu_sources.age(record)
    record.write_text(json.dumps({"commit": "18c8817aa", "sources": gpu_sources.digest()}))
    assert gpu_sources.age(record) == ""
    record.write_text(json.dumps({"commit": "18c8817aa"}))
    assert gpu_sources.age(record) == "gpu.json is of commit 18c8817: the code for GPUs has changed since"
