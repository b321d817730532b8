"""Streams that another model continues: it reads what the store has kept, and says which answers are inexact."""

import logging

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import nystream as ns
from nystream.data.table_reader import Column, TableReader
from nystream.live import Sessions
from nystream.serve.app import create_app
from nystream.serve.protocol import Push
from nystream.serve.residents import StreamName
from nystream.serve.settings import Settings
from nystream.serve.stores.store import Kept

KEYS = ("a", "b", "c")


def stacked(seed=0, window=6, layers=2, reader=None):
    """Blocks whose landmarks are renewed at certain times, so that a stream must continue at its own."""
    torch.manual_seed(seed)
    attention = ns.AttentionConfig("co-cont-single", embed_dim=8, num_heads=2, window=window, landmarks=3)
    names = ("a", "b") if reader is None else reader.names
    config = ns.ModelConfig(input_dim=len(names), output_dim=1, attention=attention, layers=layers, stack="deep")
    kind = {} if reader is None else {"task": "forecasting", "reader": reader.to_dict(), "horizon": 1}
    return ns.StreamModel(config, ns.ModelInfo(inputs=names, labels=("a",), **kind)).eval()


class Run:
    """The engine of a service; `push` sends the next record of every stream."""

    def __init__(self, model, store, records, **options):
        self.app = create_app(Sessions(model, capacity=4), Settings(store=store, snapshot_every=3, **options))
        self.engine = self.app.state.service.batcher._engine
        self.records = records
        self.opened = self.engine.open([StreamName("", key) for key in KEYS])
        self.last = self.opened[0]["next"] - 1

    def push(self, count):
        replies = []
        for _ in range(count):
            self.last += 1
            batch = [("", Push(key, self.last, self.records(i, self.last))) for i, key in enumerate(KEYS)]
            replies.append(self.engine.push(batch))
            self.engine.tidy(100)
        return replies

    def end(self):
        self.app.state.service.store.close()


def truth(model, records, last):
    """The answers of this model to whole streams, by record and stream."""
    sessions = Sessions(model, capacity=4)
    return [
        [sessions.take(key, records(i, number)) for i, key in enumerate(KEYS)] for number in range(1, last + 1)
    ]  # fmt: skip


def values(answers):
    kind = "forecast" if "forecast" in answers[0] else "output"
    return [value for answer in answers for value in answer[kind].values()]


def check(new, replies, first, records):
    """Answers that are not marked are those of a stream that the model has read from its start."""
    expected = truth(new, records, first + len(replies))
    exact = 0
    for got, want in zip(replies, expected[first:], strict=True):
        for reply, answer in zip(got, want, strict=True):
            assert [token["token"] for token in reply["answers"]] == [token.token for token in answer]
            if not reply.get("inexact"):
                exact += 1
                close = values([token.to_dict() for token in answer])
                np.testing.assert_allclose(values(reply["answers"]), close, rtol=0, atol=1e-5)
    return exact


@pytest.mark.parametrize("keep", [None, 0, 7, 1000])
@pytest.mark.parametrize("window", [6, 11])
def test_a_retrained_model_reads_what_was_kept(tmp_path, records, caplog, keep, window):
    path, new = tmp_path / "streams.db", stacked(1, window)
    old = Run(stacked(0), path, records, keep=keep)
    before = old.push(50)
    old.end()
    caplog.set_level(logging.INFO)
    run = Run(new, path, records, keep=keep, migrate=True)
    (report,) = [record.fields for record in caplog.records if "continue with this model" in record.message]
    assert report["streams"] == 3
    again = [("", Push(key, 50, records(i, 50))) for i, key in enumerate(KEYS)]
    assert run.engine.push(again) == before[-1]  # answered by the old one
    described = [run.engine.find(StreamName("", key)).get("inexact", 0) for key in KEYS]
    replies = run.push(60)
    marked = [[reply.get("inexact", False) for reply in of_key] for of_key in zip(*replies, strict=True)]
    for of_key, count in zip(marked, described, strict=True):
        assert of_key == [True] * count + [False] * (60 - count)
    assert report["inexact"] == sum(count > 0 for count in described)
    check(new, replies, 50, records)
    covered = 1000 if keep == 1000 else keep if keep is not None else stacked(0).replay_length
    if covered >= new.replay_length:
        assert described == [0, 0, 0]
    elif keep == 0:
        assert all(new.replay_length - 4 <= count <= new.replay_length for count in described)
    run.end()
    Run(new, path, records, keep=keep).end()  # it is a store of the new model now


def test_streams_migrate_when_they_are_used_after_an_interruption(tmp_path, records, monkeypatch):
    path, new = tmp_path / "streams.db", stacked(1)
    old = Run(stacked(0), path, records)
    old.push(50)
    old.end()
    with monkeypatch.context() as patched:
        patched.setattr("nystream.serve.service.migrate", lambda *_: None)
        Run(new, path, records, migrate=True).end()
    run = Run(new, path, records)
    assert check(new, run.push(10), 50, records) == 30


def test_another_reader_starts_anew(tmp_path, caplog):
    def reader(*lags):
        return TableReader((Column("a"), Column("b")), targets=("a",), lags=lags, missing="fill")

    def records(stream, number):
        return {"a": str((stream * 7 + number) % 11 / 3), "b": str((stream + number * 5) % 13 / 4 - 1)}

    path, new = tmp_path / "streams.db", stacked(1, reader=reader(1, 9))
    old = Run(stacked(0, reader=reader(1, 2)), path, records, keep=20)
    old.push(50)
    old.end()
    run = Run(new, path, records, keep=20, migrate=True)
    replies = run.push(60)
    check(new, replies, 50, records)
    inexact = sum(reply.get("inexact", False) for reply, *_ in replies)
    assert new.replay_length + 9 - 20 - 4 <= inexact <= new.replay_length + 9 - 20


def test_what_another_reader_remembered_is_not_used(tmp_path):
    """Segments from before a change of the reader are still there when the model is replaced again."""

    def model(seed, *lags):
        return stacked(seed, reader=TableReader((Column("a"), Column("b")), targets=("a",), lags=lags, missing="fill"))

    def records(stream, number):
        return {"a": str((stream * 7 + number) % 11 / 3), "b": str((stream + number * 5) % 13 / 4 - 1)}

    path, last = tmp_path / "streams.db", 0
    for place, (seed, lags) in enumerate([(0, (1, 2)), (1, (1, 9)), (2, (1, 9)), (3, (1, 2))]):
        run = Run(model(seed, *lags), path, records, keep=1000, migrate=place > 0)
        assert run.last == last
        replies = run.push(20)
        check(model(seed, *lags), replies, last, records)
        assert not any(reply.get("inexact") for batch in replies for reply in batch)  # all records were kept
        last += 20
        run.end()


def test_without_a_log_the_window_is_empty(tmp_path, records):
    path, new = tmp_path / "streams.db", stacked(1)
    old = Run(stacked(0), path, records, durability="snapshot")
    old.push(48)
    old.engine.shut_down()
    run = Run(new, path, records, durability="snapshot", migrate=True)
    replies = run.push(60)
    assert sum(reply.get("inexact", False) for reply, *_ in replies) == new.replay_length - 1
    check(new, replies, 48, records)


@settings(deadline=None)
@given(st.integers(0, 12), st.integers(0, 12), st.lists(st.tuples(st.integers(1, 5), st.integers(0, 5)), max_size=8))
def test_segments_reach_back_far_enough(records, tokens, sizes):
    starts, number, token = [], 0, 0
    for of_records, of_tokens in sizes:
        starts.append((number, token))
        number, token = number + of_records, token + of_tokens
    needed = Kept(records, tokens).needed(starts, number, token)
    assert (needed == 0) == (records == tokens == 0 or not starts)
    if needed and needed < len(starts):
        first, before = starts[len(starts) - needed]
        assert number - first >= records
        assert token - before >= tokens
    if needed > 1:  # one less would not do
        first, before = starts[len(starts) - needed + 1]
        assert number - first < records or token - before < tokens
