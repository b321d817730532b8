"""`import nystream`: every public name exists, and is imported on first use."""

from __future__ import annotations

import subprocess
import sys

import pytest

import nystream


def test_every_name_is_there():
    assert sorted(nystream.__all__) == sorted(set(nystream.__all__))
    for name in nystream.__all__:
        assert getattr(nystream, name) is not None
        assert name in dir(nystream)
    # The estimators need scikit-learn, which is optional: `from nystream import *` leaves them out.
    estimators = set(nystream._SOURCES["estimators"])
    assert estimators <= set(dir(nystream))
    assert {name for names in nystream._SOURCES.values() for name in names} - estimators <= set(nystream.__all__)


def test_parts_are_found_too():
    assert nystream.compat.from_torch is nystream.from_torch
    assert nystream.train.two_phase.train_two_phase is nystream.train_two_phase


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="module 'nystream' has no attribute 'nothing'"):
        nystream.nothing  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'nothing' from 'nystream'"):
        from nystream import nothing  # noqa: F401


@pytest.mark.parametrize("name", ["__nothing__", "a.b", ""])
def test_what_cannot_be_a_name(name):
    assert getattr(nystream, name, None) is None


def test_threads_may_ask_at_once():
    source = """
import threading, nystream
wait, failed = threading.Barrier(len(nystream.__all__)), []
def ask(name):
    wait.wait()
    try:
        getattr(nystream, name)
    except BaseException as error:
        failed.append((name, error))
threads = [threading.Thread(target=ask, args=(name,)) for name in nystream.__all__]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(failed)
"""
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "[]"


def test_a_part_that_lacks_a_package_says_which(monkeypatch):
    def missing(name):
        raise ModuleNotFoundError("No module named 'rich'", name="rich")

    monkeypatch.setattr("nystream._import_module", missing)
    with pytest.raises(ModuleNotFoundError, match="rich"):
        nystream.nothing  # noqa: B018


def test_torch_is_imported_when_something_needs_it():
    source = "import sys, nystream; print('torch' in sys.modules); nystream.StreamModel; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == ["False", "True"]
