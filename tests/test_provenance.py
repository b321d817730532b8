"""The header of a record: command, commit, hardware."""

import json
import subprocess

from nystream import provenance


def test_a_record_says_where_it_comes_from(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_COMMIT", "abc")
    path = provenance.write(tmp_path / "a.json", "nystream bench", {"figure": 1.5})
    found = json.loads(path.read_text())
    assert (found["command"], found["commit"], found["figure"]) == ("nystream bench", "abc", 1.5)
    assert {"cpu", "cores", "threads", "torch", "numba", "python", "system", "nystream"} == set(found["hardware"])


def test_the_commit_is_that_of_the_package(tmp_path, monkeypatch):
    monkeypatch.delenv("GIT_COMMIT", raising=False)
    assert provenance.commit()
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "version.py").touch()
    monkeypatch.setattr(provenance, "PACKAGE", tmp_path)
    assert provenance.commit() == "unknown"  # somebody else's repository, in which it is installed
