"""Errors for optional packages that are not installed."""

import re
import sys
from pathlib import Path

import pytest

from nystream import extras


def test_a_missing_package_says_what_needs_it_and_how_to_install_it(monkeypatch):
    assert extras.require("a test", "json.decoder") is sys.modules["json.decoder"]
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.delitem(sys.modules, "sklearn.cluster", raising=False)
    with pytest.raises(ModuleNotFoundError) as caught:
        extras.require("fitting", "sklearn.cluster", ", or do not fit")
    assert str(caught.value) == "fitting needs scikit-learn: pip install -c constraints.txt '.[train]', or do not fit"
    assert caught.value.name == "sklearn"


def test_nothing_is_installed_by_a_name_that_anyone_may_register():
    root = Path(__file__).parents[1]
    pages = [path for folder in ("src", "docs", "examples") for path in root.glob(f"{folder}/**/*") if path.is_file()]
    for path in [root / "README.md", root / "CONTRIBUTING.md", *pages]:
        if path.suffix in (".md", ".py", ".sh", ".toml", ".txt", "") and "node_modules" not in path.parts:
            text = path.read_text("utf-8", errors="replace")
            assert not re.search(r"pip install[^\n]* '?nystream\b", text), path


def test_another_module_that_is_missing_is_another_error(monkeypatch, tmp_path):
    (tmp_path / "broken_package.py").write_text("import no_such_module")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="No module named 'no_such_module'"):
        extras.require("a test", "broken_package")


def test_what_triton_needs_to_compile(monkeypatch, tmp_path):
    find = extras.without_compiler.__wrapped__
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(extras.shutil, "which", lambda name: f"/usr/bin/{name}" if name in ("clang", "cc") else None)
    monkeypatch.setattr(extras.sysconfig, "get_default_scheme", lambda: "posix_local")
    paths = {"posix_local": "/nowhere", "posix_prefix": str(tmp_path)}
    monkeypatch.setattr(extras.sysconfig, "get_path", lambda name, scheme: paths[scheme])
    assert "header files of Python, which are not installed: install python3-dev" in find()
    (tmp_path / "Python.h").touch()
    assert find() is None
    monkeypatch.setenv("CC", "cc")
    assert find() is None
    monkeypatch.setenv("CC", "no-such-compiler")  # Triton tries no other
    assert "the environment variable CC names 'no-such-compiler', which is not found: unset it" in find()
    monkeypatch.delenv("CC")
    monkeypatch.setattr(extras.shutil, "which", lambda name: None)
    assert "a C compiler, which is not installed: install gcc" in find()
