"""Processes that use the lanes of a folder at the same time: nothing acknowledged is lost, nothing is taken twice."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from nystream.serve.protocol import pack
from nystream.serve.stores.folder import FolderStore
from nystream.serve.stores.store import Kept, LogRow, Snapshot, StoreError

WRITER = Path(__file__).with_name("folder_writer.py")
OPERATIONS = ("open", "listdir", "unlink", "rename", "fsync")
PAUSED_SECONDS = 8


@pytest.fixture
def writer():
    """The module of a process that continues streams."""
    spec = spec_from_file_location("folder_writer", WRITER)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def make(tmp_path):
    made = []

    def make():
        made.append(FolderStore(tmp_path / "streams", "model", Kept(0, 0), False))
        return made[-1]

    yield make
    for store in made:
        store.close()


class Turns:
    """Threads that do one operation on the folder at a time; chance decides whose turn it is."""

    def __init__(self, monkeypatch, seed):
        self._chance, self._changed = random.Random(seed), threading.Condition()
        self._waiting, self._current, self._last, self._threads = set(), None, None, set()
        for name in OPERATIONS:
            monkeypatch.setattr(os, name, self._wrapped(getattr(os, name)))
        for name in ("read_bytes", "open"):
            monkeypatch.setattr(Path, name, self._wrapped(getattr(Path, name)))

    def run(self, *actions):
        errors = []

        def work(action):
            try:
                action()
            except BaseException as error:
                errors.append(error)
            finally:
                with self._changed:
                    self._threads.discard(threading.current_thread())
                    self._choose()

        self._threads = {threading.Thread(target=work, args=(action,)) for action in actions}
        for thread in list(self._threads):
            thread.start()
        for thread in list(self._threads):
            thread.join(60)
        assert errors == []

    def _choose(self):
        if self._waiting and self._waiting == self._threads:
            if self._last not in self._waiting or self._chance.random() < 0.1:  # some operations without a change
                self._last = self._chance.choice(sorted(self._waiting, key=lambda thread: thread.name))
            self._current = self._last
            self._waiting.discard(self._current)
            self._changed.notify_all()

    def _wrapped(self, operation):
        def call(*args, **options):
            thread = threading.current_thread()
            if thread in self._threads:
                with self._changed:
                    self._waiting.add(thread)
                    self._choose()
                    self._changed.wait_for(lambda: self._current is thread, 60)
                    self._current = None
            return operation(*args, **options)

        return call


class Inline:
    """A pool that runs what is submitted at once, in the same thread."""

    def submit(self, function):
        future = Future()
        future.set_result(function())
        return future

    def shutdown(self):
        pass


@pytest.mark.parametrize("seed", range(5))
def test_any_order_of_operations(make, writer, monkeypatch, seed):
    """Three processes that continue a stream, in any order of their operations on the folder."""
    monkeypatch.setattr("nystream.serve.stores.lane.LOG_BYTES", 600)  # so that logs end and are moved
    monkeypatch.setattr("nystream.serve.stores.lane.SLACK_BYTES", 0)
    for module in ("folder", "lane_claims"):
        monkeypatch.setattr(f"nystream.serve.stores.{module}.PAUSE_SECONDS", 0)
    ((stream, _),) = make().open([("", "a")])
    acknowledged = {}

    def follow(name):
        store, records = make(), None
        store._pool = Inline()
        for attempt in range(20):
            try:
                records = writer.read(store.load(stream.id)) if records is None else records
                records.append(f"{name} {attempt}")
                number = len(records)
                if store.append([LogRow(stream.id, number, records[-1].encode(), b"answer")]):
                    records = None
                    continue
                assert number not in acknowledged
                acknowledged[number] = records[-1]
                if attempt % 5 == 4:
                    saved = Snapshot(stream.id, number, number, pack(records), {}, [], "model")
                    records = None if store.save([saved]) else records
                store.tidy()
            except StoreError:  # the others have claimed the lane again and again
                records = None

    with monkeypatch.context() as patched:
        Turns(patched, seed).run(*(lambda name=name: follow(name) for name in "abc"))
    assert len(acknowledged) > 10
    records = writer.read(make().load(stream.id))
    assert {number: records[number - 1] for number in acknowledged} == acknowledged
    assert len(records) == len(set(records))


@pytest.mark.deploy
def test_processes_that_are_paused_and_killed(make, writer, tmp_path):
    chance = random.Random(0)
    make().close()
    started, running = 0, []

    def start():
        nonlocal started
        started += 1
        with (tmp_path / f"{started}.out").open("w") as out, (tmp_path / f"{started}.err").open("w") as err:
            words = [sys.executable, str(WRITER), str(tmp_path / "streams"), f"w{started}"]
            running.append(subprocess.Popen(words, stdout=out, stderr=err))

    def printed():
        lines = [line for file in tmp_path.glob("*.out") for line in file.read_text().splitlines(keepends=True)]
        return [line.split() for line in lines if line.endswith("\n")]

    try:
        for _ in range(3):
            start()
        while not printed():
            time.sleep(0.1)
        end = time.monotonic() + PAUSED_SECONDS
        while time.monotonic() < end:
            victim = chance.choice(running)
            victim.send_signal(signal.SIGSTOP)
            time.sleep(chance.random() ** 3 * 0.3)
            victim.send_signal(signal.SIGCONT)
            if chance.random() < 0.02:
                victim.kill()
                victim.wait()
                running.remove(victim)
                start()
            assert all(process.poll() is None for process in running), [f.read_text() for f in tmp_path.glob("*.err")]
            time.sleep(chance.random() * 0.02)
    finally:
        for process in running:
            process.kill()
            process.wait()
    acknowledged, store = printed(), make()
    assert len(acknowledged) > 100
    streams = {key: writer.read(store.load(store.find("", key).id)) for key in writer.KEYS}
    for key, number, *text in acknowledged:
        assert streams[key][int(number) - 1] == " ".join(text)
    everything = [record for records in streams.values() for record in records]
    assert len(everything) == len(set(everything))
    assert len({record.split()[0] for record in everything}) > 1
