"""A session gives the answers of its model, and a record that is rejected changes nothing."""

import math

import numpy as np
import pytest
import torch

import nystream as ns
from nystream.data.reader import RecordError, Token
from nystream.data.vectors import LiveVectors
from nystream.live.answers import softmax
from nystream.live.session import Session, live_reader

BACKENDS = ["numba", "torch"]


def records(count, seed=0):
    return np.random.default_rng(seed).normal(size=(count, 3)).tolist()


@pytest.mark.parametrize("backend", BACKENDS)
def test_outputs_are_those_of_the_model(make_model, stepped, backend):
    model, x = make_model(), records(20)
    session = Session(model, backend=backend)
    assert session.backend == backend
    answers = [answer for record in x for answer in session.take(record)]
    np.testing.assert_allclose([answer.values for answer in answers], stepped(model, x), rtol=0, atol=1e-5)
    assert [answer.token for answer in answers] == list(range(1, 21))
    assert session.tokens == 20
    assert answers[0].kind == "output"
    assert answers[0].label is None


def test_forecasts_are_added_to_their_base_and_name_their_time(make_model, stepped, hourly):
    model = make_model(task="forecasting", labels=("load", "minus"), units=("MW",), horizon=2, seconds=3600.0)
    session = Session(model, hourly())
    answers = [a for hour, load in enumerate([3.0, 5.0, 4.0]) for a in session.take({"hour": hour, "load": load})]
    loads = np.array([3.0, 5.0, 4.0])
    x = np.stack([loads, np.sin(range(3)), np.cos(range(3))], 1)
    expected = stepped(model, x) + np.stack([loads, -loads], 1)
    np.testing.assert_allclose([answer.values for answer in answers], expected, rtol=0, atol=1e-5)
    fields = answers[1].to_dict()
    assert (fields["time"], fields["for"]) == ("2024-01-01T01:00:00", "2024-01-01T03:00:00")
    assert set(fields["forecast"]) == {"load", "minus"}
    assert fields["filled"] == []
    assert fields["gap"] is False


def test_a_record_may_fill_a_gap_or_be_skipped(make_model, hourly):
    session = Session(make_model(), hourly())
    assert len(session.take({"hour": 0, "load": 1})) == 1
    filled = session.take({"hour": 3, "load": 2})
    assert [(answer.token, answer.gap, answer.filled) for answer in filled] == [
        (2, True, ("load",)),
        (3, True, ("load",)),
        (4, False, ()),
    ]
    assert session.take({"hour": 3, "load": 9}) == []
    assert session.tokens == 4


def test_classes_come_with_their_names(make_model, stepped):
    model, x = make_model(task="classification", labels=("jazz", "blues")), records(3)
    session = Session(model)
    answers = [answer for record in x for answer in session.take(record)]
    for answer, logits in zip(answers, stepped(model, x).astype(float), strict=True):
        np.testing.assert_allclose(answer.values, softmax(logits), atol=1e-5)
        assert answer.label == ("jazz", "blues")[int(logits.argmax())]
        assert list(answer.to_dict()["probabilities"]) == ["jazz", "blues"]
    nameless = Session(make_model(task="detection")).take(x[0])[0]
    assert nameless.names == ("0", "1")


BAD = [None, "text", [1.0], [1, 2, 3, 4], [1, 2, math.nan], [1, math.inf, 2], [1e39, 1, 1], [[1, 2, 3]] * 2, {"a": 1}]


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_a_bad_record_changes_nothing(make_model, bad):
    model, x = make_model(), records(9)
    session, undisturbed = Session(model), Session(model)
    for record in x:
        with pytest.raises(RecordError):
            session.take(bad)
        ours, theirs = session.take(record), undisturbed.take(record)
        np.testing.assert_array_equal(ours[0].values, theirs[0].values)
    assert session.snapshot() == undisturbed.snapshot()


def test_a_value_that_gets_past_the_reader_is_refused_with_all_the_record_brings(make_model, hourly):
    model = make_model()
    session, undisturbed = Session(model, hourly()), Session(model, hourly())
    for hour in (0, 1):
        session.take({"hour": hour, "load": 1})
        undisturbed.take({"hour": hour, "load": 1})
    with pytest.raises(RecordError, match="NaN"):
        session.take({"hour": 5, "load": "nan"})  # three tokens before it were good
    assert session.whole
    assert session.snapshot() == undisturbed.snapshot()


def test_half_precision_holds_less(make_model):
    session = Session(make_model().half(), backend="torch")
    with pytest.raises(RecordError, match="too large for float16"):
        session.take([1e5, 0, 0])
    assert len(session.take([1, 0, 0])) == 1


class Faulty(LiveVectors):
    """A faulty reader: it fails after changing its state, or gives tokens of a wrong width."""

    def read(self, record):
        token = super().read([1, 1, 1])[0]
        if record == "wide":
            return [Token(np.zeros(4, np.float32))]
        if record == "error":
            raise KeyError("a mistake in the reader")
        return [token]


@pytest.mark.parametrize(("record", "error"), [("wide", RecordError), ("error", KeyError)])
def test_a_faulty_reader_spoils_nothing(make_model, record, error):
    model = make_model()
    session = Session(model, Faulty(3))
    before = session.snapshot()
    with pytest.raises(error):
        session.take(record)
    assert session.snapshot() == before


def test_a_push_that_is_broken_off_leaves_a_session_that_is_not_saved(make_model, monkeypatch):
    session = Session(make_model())
    with monkeypatch.context() as patched:
        patched.setattr(session._pool, "push", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            session.take([1, 2, 3])
    assert not session.whole
    with pytest.raises(RuntimeError, match="within a record"):
        session.snapshot()


def test_tokens_that_arrive_together(make_model):
    model = make_model(update_size=2)
    x = np.random.default_rng(0).normal(size=(5, 2, 3)).astype(np.float32)
    state, expected = model.init_state(1), []
    with torch.no_grad():
        for group in torch.from_numpy(x):
            y, state = model.step(group[None], state)
            expected.extend(y[0].numpy())
    session = Session(model)
    nested = [answer.values for group in x for answer in session.take(group.tolist())]
    np.testing.assert_allclose(nested, expected, atol=1e-5)
    flat = Session(model)
    np.testing.assert_array_equal([a.values for group in x for a in flat.take(group.reshape(-1))], nested)
    assert flat.tokens == 10
    with pytest.raises(RecordError, match="2 x 3"):
        flat.take([1, 2, 3])


def test_readers_belong_to_models(make_model):
    with pytest.raises(ValueError, match="gaps='fill'"):
        live_reader(make_model(), gaps="fill")
    model = make_model()
    model.info = ns.ModelInfo(reader={"kind": "unheard-of"})
    with pytest.raises(ValueError, match="unheard-of"):
        live_reader(model)


def test_a_memory_of_another_reader_is_refused(make_model):
    session = Session(make_model())
    session.take([1, 2, 3])
    before = session.snapshot()
    with pytest.raises(ValueError, match="memory"):
        session.restore(before[0], {"hour": 3})
    assert session.snapshot() == before
