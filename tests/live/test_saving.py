"""A session on disk: one file, written atomically, that only its own model loads."""

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

import nystream.state as states
from nystream.live import saving
from nystream.live.saving import Position
from nystream.live.session import Session

PLACE = Position("/a/source", 7, 12345, {"format": "csv", "columns": ["a", "b"], "delimiter": ","})


@pytest.fixture
def session(make_model):
    session = Session(make_model())
    for record in np.random.default_rng(0).normal(size=(8, 3)).tolist():
        session.take(record)
    return session


def test_a_session_goes_on_in_another(make_model, session, tmp_path):
    path = tmp_path / "state"
    saving.save(path, session, PLACE)
    other = Session(make_model())
    assert saving.load(path, other) == PLACE
    assert other.tokens == 8
    assert other.snapshot() == session.snapshot()
    ours, theirs = session.take([1, 2, 3])[0], other.take([1, 2, 3])[0]
    np.testing.assert_allclose(ours.values, theirs.values, rtol=0, atol=1e-5)
    assert theirs.token == 9
    assert [one.name for one in tmp_path.iterdir()] == ["state"]


@pytest.mark.parametrize("at", ["write", "replace"])
def test_what_was_there_stays_where_writing_fails(session, tmp_path, monkeypatch, at):
    path = tmp_path / "state"
    saving.save(path, session, PLACE)
    kept = path.read_bytes()
    session.take([1, 2, 3])

    def fail(*_):
        raise OSError("no space left")

    monkeypatch.setattr(*{"write": (type(path), "write_bytes"), "replace": (os, "replace")}[at], fail)
    with pytest.raises(OSError, match="no space"):
        saving.save(path, session, PLACE._replace(items=8))
    assert path.read_bytes() == kept
    assert [one.name for one in tmp_path.iterdir()] == ["state"]


def test_other_weights_configs_and_readers_are_refused(make_model, session):
    blob = saving.dump(session, PLACE)
    with pytest.raises(ValueError, match="other weights"):
        saving.restore(blob, Session(make_model(seed=1)))
    with pytest.raises(ValueError, match=r"another config: attention\.update_size is 1 there and 2 here$"):
        saving.restore(blob, Session(make_model(update_size=2)))
    for info, words in (
        ({"reader": {"kind": "other"}}, "differs in: reader$"),
        ({"task": "detection", "labels": ("a", "b")}, "differs in: task, labels$"),
        ({"units": ("MW",)}, "differs in: units$"),
    ):
        other = Session(make_model(**info), session.reader)
        with pytest.raises(ValueError, match=words):
            saving.restore(blob, other)


@pytest.fixture(scope="module")
def shared():
    """Made once for all examples."""
    return {}


@given(data=st.data())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_damaged_file_is_refused_and_changes_nothing(make_model, session, shared, data):
    blob = shared.setdefault("blob", saving.dump(session, PLACE))
    other = shared.setdefault("other", Session(make_model()))
    before = other.snapshot()
    if data.draw(st.booleans()):
        damaged = blob[: data.draw(st.integers(0, len(blob) - 1))]
    else:
        place, bit = data.draw(st.integers(0, len(blob) - 1)), data.draw(st.integers(0, 7))
        damaged = blob[:place] + bytes([blob[place] ^ (1 << bit)]) + blob[place + 1 :]
    try:
        found = saving.restore(damaged, other)
    except ValueError:
        assert other.snapshot() == before
    else:  # a space in the header that means nothing
        assert found == PLACE
        shared.pop("other")


def test_a_session_is_written_over_no_other_file(session, tmp_path, monkeypatch):
    path, source = tmp_path / "state", tmp_path / "source"
    saving.require_free(path, "-")  # it is not there
    path.touch()
    saving.require_free(path, "-")  # nothing is lost
    saving.save(path, session, PLACE)
    saving.require_free(path, str(source))
    monkeypatch.setattr(saving, "FORMAT", "nystream-session-0")
    saving.save(path, session, PLACE)
    monkeypatch.undo()
    saving.require_free(path, "-")  # of another version
    with pytest.raises(ValueError, match="saved by another version"):
        saving.load(path, session)
    for blob in (b"time,load\n1,2\n", b"{}", b"\xff" * 20, save_tensors({}), session.snapshot()[0]):
        path.write_bytes(blob)
        with pytest.raises(ValueError, match="is not a saved session, so it is not overwritten"):
            saving.require_free(path, "-")
    source.symlink_to(path)
    with pytest.raises(ValueError, match="is the source itself"):
        saving.require_free(path, str(source))


def test_files_that_are_no_sessions(session, tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no session to resume"):
        saving.load(tmp_path / "none", session)
    with pytest.raises(IsADirectoryError, match="is a folder"):
        saving.load(tmp_path, session)
    path = tmp_path / "other"
    for blob, words in ((b"", "safetensors"), (b"text", "safetensors"), (save_tensors({}), "not a saved session")):
        path.write_bytes(blob)
        with pytest.raises(ValueError, match=f"other: .*{words}"):
            saving.load(path, session)
    path.write_bytes(session.snapshot()[0])
    with pytest.raises(ValueError, match="not a saved session"):
        saving.load(path, session)


@pytest.mark.parametrize("changed", [{"position": "[]"}, {"info": "3"}, {"memory": "{"}, {"info": None}])
def test_a_forged_header_is_refused(session, changed):
    blob = saving.dump(session, PLACE)
    header = {name: text for name, text in (states.metadata(blob) | changed).items() if text is not None}
    header.pop("checksum")
    stream = load_tensors(blob)["stream"]
    forged = save_tensors({"stream": stream}, header | {"checksum": saving._checksum(stream, header)})
    before = session.snapshot()
    with pytest.raises(ValueError, match="its header is not that of a saved session"):
        saving.restore(forged, session)
    assert session.snapshot() == before
