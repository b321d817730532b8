"""Ids and slots: large batches are looked up in a table, and give what a dict gives, errors included."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import nystream as ns
from nystream.stream import UnknownStreamError, ids, inputs
from nystream.stream.ids import CHUNK, FEW, Ids

LARGEST = np.iinfo(np.int64).max


@pytest.fixture(scope="module", autouse=True)
def small_sizes():
    """Small chunks, and streams that share a place."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ids, "CHUNK", 3)
        patch.setattr(ids, "PLACES_PER_SLOT", 1)
        yield


def what_it_says(look_up, sids):
    try:
        return look_up(np.array(sids, np.int64)).tolist()
    except (UnknownStreamError, ValueError, RuntimeError) as error:
        return type(error), str(error)


def used(data, padding):
    """Ids after some streams were opened, closed, set aside and restarted; a few closed ones lie far apart."""
    streams = Ids(padding)
    for _ in range(data.draw(st.integers(0, 6), "times")):
        for _ in range(data.draw(st.sampled_from([1, 5, 700]), "opened")):
            streams.open()
        some = data.draw(st.lists(st.sampled_from(list(streams)), unique=True, max_size=3), "some")
        for sid in data.draw(st.sampled_from([list(streams)[2:-2], some]), "closed"):
            streams.close(sid)
        left = sorted(streams.slots)
        aside = data.draw(st.lists(st.sampled_from(left), max_size=2), "aside") if left else []
        streams.set_aside({streams.slots[sid] for sid in aside})
        for sid in data.draw(st.lists(st.sampled_from(aside), max_size=1), "restarted") if aside else []:
            streams.restart(sid)
    return streams


@given(st.data(), st.booleans())
def test_the_table_says_what_the_dict_says(data, padding):
    streams = used(data, padding)
    known = st.sampled_from(sorted(streams.slots) or [0])
    any_id = known | st.integers(-3, 2000) | st.sampled_from([-LARGEST - 1, LARGEST]) | st.sampled_from([*streams, 0])
    sids = data.draw(st.lists(known, unique=True) | st.lists(any_id), "sids")
    assert what_it_says(streams._together, sids) == what_it_says(streams._one_by_one, sids)


def test_slots_are_distinct_and_the_lowest_free_ones():
    streams = Ids(padding=False)
    sids = [streams.open() for _ in range(300)]
    assert [streams.slot(sid) for sid in sids] == list(range(300))
    for sid in (40, 7, 200):
        streams.close(sid)
    assert [streams.slot(streams.open()) for _ in range(4)] == [7, 40, 200, 300]
    assert streams.slots_of(np.array([300, 301, 302, 303])).tolist() == [7, 40, 200, 300]
    assert list(streams) == sorted({*range(304)} - {7, 40, 200})
    assert len(streams) == 301
    assert 7 not in streams


def test_memory_is_that_of_the_open_streams():
    streams = Ids(padding=False)
    first = streams.open()
    for _ in range(100_000):
        streams.close(streams.open())
    assert streams._owners.nbytes + streams._table.nbytes < 1024
    assert len(streams.slots) == 1
    assert streams.slot(first) == 0


@pytest.mark.parametrize("count", [2, FEW, FEW + 1, 2 * CHUNK + 1])
def test_the_same_ids_have_the_same_array_until_a_stream_closes(count):
    streams = Ids(padding=True)
    batch = np.array([streams.open() for _ in range(count)])
    slots = streams.slots_of(batch)
    assert streams.slots_of(batch.copy()) is slots
    streams.open()
    assert streams.slots_of(batch) is slots
    streams.close(0)
    with pytest.raises(UnknownStreamError, match="stream 0 is closed"):
        streams.slots_of(batch)
    batch[0] = -1
    assert streams.slots_of(batch)[:2].tolist() == [-1, 1]
    kept = streams.slots_of(batch)
    batch[0] = count  # what the caller does with the array afterwards does not matter
    assert streams.slots_of(batch)[0] == count
    assert kept[0] == -1


@pytest.mark.parametrize("padding", [False, True])
@pytest.mark.parametrize("count", [3, FEW + 1])
def test_errors_name_the_first_stream(padding, count):
    streams = Ids(padding)
    good = np.array([streams.open() for _ in range(count + 3)])
    streams.close(1)
    streams.set_aside({2})
    good = good[3:]

    def batch(**at):
        sids = good.copy()
        sids[[int(place[1:]) for place in at]] = list(at.values())
        return sids

    for sids, error, words in (
        (batch(_1=1, _2=2), UnknownStreamError, "stream 1 is closed"),
        (batch(_1=2, _2=1), RuntimeError, "stream 2 cannot be used"),
        (batch(_0=good[2], _1=9999), UnknownStreamError, "stream 9999 was never opened"),
        (batch(_0=good[2]), ValueError, f"sids has stream {good[2]} more than once"),
        (batch(_1=-2), UnknownStreamError, "stream -2 was never opened"),
    ):
        with pytest.raises(error, match=words):
            streams.slots_of(sids)
    sids = batch(_0=-1, _2=-1)
    if padding:
        assert streams.slots_of(sids).tolist() == [-1, 4, -1, *range(6, count + 3)]
        with pytest.raises(ValueError, match=f"sids has stream {good[2]} more than once"):
            streams.slots_of(batch(_0=good[2], _1=-1))
    else:
        with pytest.raises(UnknownStreamError, match="stream -1 was never opened"):
            streams.slots_of(sids)


@pytest.mark.parametrize(
    "sids",
    [[3, 1, 2], (3, 1, 2), [np.int32(3), 1, np.uint64(2)], range(3, 0, -1), np.array([3, 1, 2], np.uint8)],
    ids=["list", "tuple", "NumPy's numbers", "range", "array"],
)
def test_ids_of_any_integer_type(sids):
    array = inputs.stream_ids(sids)
    assert array.dtype == np.int64
    assert array.tolist() == [int(sid) for sid in sids]


@pytest.mark.parametrize(
    "sid", ["1", 1.0, True, np.bool_(True), None, [1], np.float32(1), np.array(1), torch.tensor(1)]
)
def test_one_id_of_another_type_among_integers(sid):
    with pytest.raises(TypeError, match=f"a {type(sid).__name__}, but must be an integer returned by open"):
        inputs.stream_ids([0, sid, 2])


@pytest.mark.parametrize("sid", [2**63, -(2**70)])
def test_an_id_beyond_64_bits(sid):
    with pytest.raises(UnknownStreamError, match=f"stream {sid} was never opened"):
        inputs.stream_ids([0, sid])


@pytest.mark.parametrize("count", [3, 300])
def test_masked_ids_are_refused(build, count):
    pool = ns.StreamPool(build(), backend="torch")
    ids = np.ma.array([pool.open() for _ in range(count)], mask=[False] * (count - 1) + [True])
    with pytest.raises(TypeError, match="sids is a masked array, but must be an array without a mask"):
        pool.push_many(ids, np.zeros((count, 5), np.float32))
