import runpy
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from nystream.lab.reproduce import steps
from nystream.lab.reproduce.cells import RIVALS
from nystream.lab.reproduce.problems import gtzan
from nystream.stream import StreamPool

TINY = Path(__file__).with_name("tiny.py")
small = SimpleNamespace(**runpy.run_path(str(TINY)))


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """The folder of a small GTZAN."""
    return small.write(tmp_path_factory.mktemp("data"))


@pytest.fixture
def tiny(monkeypatch):
    """GTZAN with small models."""
    problem = small.Tiny()
    monkeypatch.setattr(gtzan, "PROBLEM", problem)
    monkeypatch.setenv("GIT_COMMIT", "0" * 40)  # asking git takes longer than the rest
    return problem


@pytest.fixture
def cell(tiny):
    """A cell of the small problem: cell("co-fixed-single", pinv="exact")."""

    def cell(model="co-full-single", layers=1, **changes):
        few = None if "full" in model or model in RIVALS else tiny.landmarks
        return tiny.usual(**{"model": model, "layers": layers, "landmarks": few, **changes})

    return cell


@pytest.fixture
def job(cell, data, tmp_path):
    """A job of the small problem: job("nystrom", seeds=3, pinv=...)."""

    def job(model="co-full-single", layers=1, *, splits=1, seeds=2, changes=(), where=data, work=None, **options):
        work = work or tmp_path / "work"
        return small.job(cell(model, layers, **options), where, work, splits, seeds, changes=changes)

    return job


@pytest.fixture
def quick_steps(monkeypatch):
    """Time steps only briefly, without compiling."""
    monkeypatch.setattr(steps, "ROUNDS", 2)
    monkeypatch.setattr(steps, "FORMS", ("cells",))
    monkeypatch.setattr(steps, "StreamPool", partial(StreamPool, backend="torch"))


@pytest.fixture
def script():
    """The small problem as a script."""
    return TINY


@pytest.fixture
def write_data():
    return small.write
