"""From source to lines: a run that is stopped and resumed gives the same answers as one run."""

import json
import os
import signal

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nystream.data.reader import RecordError
from nystream.interrupts import Terminated, exit_code
from nystream.live import run, saving
from nystream.live.run import Keeper, follow
from nystream.live.session import Session
from nystream.live.sources import Feed, open_source


class Kept:
    """A printer that stores its lines, and may fail."""

    def __init__(self, fail_at=None):
        self.answers, self.fail_at = [], fail_at

    def write(self, answer, record, file="", series=""):
        if len(self.answers) == self.fail_at:
            raise BrokenPipeError
        self.answers.append((record, answer))

    def of(self):
        return [(record, answer.token, answer.gap, answer.filled) for record, answer in self.answers]

    def values(self):
        return np.array([answer.values for _, answer in self.answers])


def lines(count, seed=0):
    """Hours with gaps and repetitions, empty lines, and every kind of bad line."""
    random, hour, made = np.random.default_rng(seed), 0, []
    for _ in range(count):
        kind = random.integers(8)
        hour += int(random.integers(1, 4)) if kind < 5 else 0
        load = float(random.normal())
        bad = ["", "{", '{"load": 1}', json.dumps({"hour": hour + 2, "load": "nan"})]
        made.append(json.dumps({"hour": hour, "load": load}) if kind < 6 else bad[random.integers(4)])
    return made


def go(path, session, after=None, keeper=None, printer=None, **options):
    feed = Feed(open_source(str(path)), after)
    if keeper is not None:
        keeper = Keeper(keeper, session, 3, feed.position)
    printer = Kept() if printer is None else printer
    count = follow(session, feed, printer, keeper=keeper, report=lambda _: None, **options)
    return printer, count


@pytest.fixture(scope="module")
def shared():
    return {}


@given(
    seed=st.integers(0, 1000),
    stops=st.lists(st.integers(1, 9), max_size=4),
    backend=st.sampled_from(["numba", "torch"]),
)
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_stopping_anywhere_changes_nothing(make_model, hourly, shared, tmp_path, seed, stops, backend):
    model = shared.setdefault("model", make_model())
    path, state = tmp_path / "a.jsonl", tmp_path / "state"
    path.write_text("\n".join(lines(30, seed)))
    whole, count = go(path, Session(model, hourly(), backend))
    parts, after, taken = Kept(), None, 0
    for stop in [*stops, None]:
        session = Session(model, hourly(), backend)
        if after is not None:
            after = saving.load(state, session)
        _, some = go(path, session, after, state, parts, limit=stop)
        after, taken = True, taken + some.taken
    assert taken == count.taken
    assert parts.of() == whole.of()
    np.testing.assert_allclose(parts.values(), whole.values(), rtol=0, atol=1e-5)


def test_every_place_to_stop(make_model, hourly, stepped, tmp_path):
    model, path, state = make_model(), tmp_path / "a.jsonl", tmp_path / "state"
    path.write_text("\n".join(lines(24)))
    whole, count = go(path, Session(model, hourly()))
    assert count.taken > 10
    assert count.skipped > 0
    for stop in range(1, count.taken):
        parts, _ = go(path, Session(model, hourly()), None, state, limit=stop)
        session = Session(model, hourly())
        go(path, session, saving.load(state, session), state, parts)
        assert parts.of() == whole.of()
        np.testing.assert_allclose(parts.values(), whole.values(), rtol=0, atol=1e-5)


def test_bad_records_are_reported_with_their_number(make_model, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("[1, 2, 3]\n\n[1]\n[4, 5, 6]\n")
    messages = []
    count = follow(Session(make_model()), Feed(open_source(str(path))), Kept(), report=messages.append)
    assert messages == ["line 3 skipped: 1 number, but the model takes 3"]
    assert (count.taken, count.skipped) == (2, 1)


def test_a_bad_record_ends_the_run_where_asked_and_is_met_again(make_model, tmp_path):
    model, path, state = make_model(), tmp_path / "a.jsonl", tmp_path / "state"
    path.write_text("[1, 2, 3]\n[1]\n[4, 5, 6]\n")
    printer = Kept()
    with pytest.raises(ValueError, match=r"^line 2: 1 number,") as caught:
        go(path, Session(model), None, state, printer, on_error="fail")
    assert not isinstance(caught.value, RecordError)
    session = Session(model)
    after = saving.load(state, session)
    assert (after.items, session.tokens) == (1, 1)
    path.write_text("[1, 2, 3]\n[1, 1, 1]\n[4, 5, 6]\n")  # mended
    printer, _ = go(path, session, after, state, printer, on_error="fail")
    assert [token for _, token, _, _ in printer.of()] == [1, 2, 3]


@pytest.mark.parametrize("fail_at", range(6))
def test_what_could_not_be_written_out_is_not_saved_as_read(make_model, hourly, tmp_path, fail_at):
    model, path, state = make_model(), tmp_path / "a.jsonl", tmp_path / "state"
    path.write_text("\n".join(json.dumps({"hour": hour, "load": 1}) for hour in (0, 1, 4, 5, 6)))
    whole, _ = go(path, Session(model, hourly()))
    printer = Kept(fail_at)
    with pytest.raises(BrokenPipeError):
        go(path, Session(model, hourly()), None, state, printer)
    session, after = Session(model, hourly()), None
    if state.exists():
        after = saving.load(state, session)
    assert session.tokens <= fail_at
    printer.answers = printer.answers[: session.tokens]
    printer.fail_at = None
    go(path, session, after, state, printer)
    assert printer.of() == whole.of()


class Counting(Session):
    """Sends itself a signal within a record."""

    signals = ()

    def take(self, record):
        answers = super().take(record)
        for number in self.signals if self.tokens == 2 else ():
            os.kill(os.getpid(), number)
        return answers


@pytest.mark.parametrize(("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)])
def test_signals_wait_for_the_record_to_end(make_model, tmp_path, number, error):
    path, state = tmp_path / "a.jsonl", tmp_path / "state"
    path.write_text("[1, 2, 3]\n" * 5)
    handlers = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]
    session, printer = Counting(make_model()), Kept()
    session.signals = [number]
    with pytest.raises(error) as caught:
        go(path, session, None, state, printer)
    assert exit_code(caught.value) == 128 + number
    assert len(printer.answers) == 2
    other = Session(make_model())
    assert saving.load(state, other).items == 2
    assert other.tokens == 2
    assert [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)] == handlers


def test_a_second_signal_does_not_wait(make_model, tmp_path):
    path, state = tmp_path / "a.jsonl", tmp_path / "state"
    path.write_text("[1, 2, 3]\n" * 5)
    session, printer = Counting(make_model()), Kept()
    session.signals = [signal.SIGINT, signal.SIGINT]
    with pytest.raises(KeyboardInterrupt):
        go(path, session, None, state, printer)
    assert len(printer.answers) == 1  # the second was not written out, so it is not saved
    assert not state.exists() or saving.load(state, Session(make_model())).items == 1


def test_when_it_is_saved(make_model, tmp_path, monkeypatch):
    saves, now = [], [0.0]
    monkeypatch.setattr(run.saving, "save", lambda path, session, position: saves.append(session.tokens))
    monkeypatch.setattr(run.time, "monotonic", lambda: now[0])
    path = tmp_path / "a.jsonl"
    path.write_text("[1, 2, 3]\n" * 8)
    session = Session(make_model())
    feed = Feed(open_source(str(path)))
    keeper = Keeper(tmp_path / "state", session, 3, feed.position)
    follow(session, feed, Kept(), keeper=keeper)
    assert saves == [3, 6, 8]
    now[0] = 1.5  # a slow stream
    follow(session, Feed(open_source(str(path))), Kept(), keeper=keeper, limit=2)
    assert saves == [3, 6, 8, 9, 10]


def test_answers_that_are_not_finite_are_said_once(make_model, tmp_path):
    model, path, messages = make_model(task="classification", labels=("calm", "storm")), tmp_path / "a.jsonl", []
    with torch.no_grad():
        model.head.weight.fill_(torch.nan)
    path.write_text("[1, 2, 3]\n" * 5)
    printer = Kept()
    count = follow(Session(model), Feed(open_source(str(path))), printer, report=messages.append)
    assert len(messages) == 1
    assert messages[0].startswith("line 1: the model's output is not finite; such answers are null")
    assert (count.answers, count.not_finite) == (5, 5)
    assert {answer.label for _, answer in printer.answers} == {None}
