"""Records that are plain numbers."""

import numpy as np
import pytest

from nystream.data.reader import RecordError
from nystream.data.vectors import LiveVectors


@pytest.fixture
def read():
    readers = {policy: LiveVectors(3, "abc", missing=policy) for policy in ("fail", "fill", "skip")}

    def read(record, missing="fail"):
        tokens = readers[missing].read(record)
        assert bool(readers[missing].note) is not bool(tokens)
        return tokens

    return read


@pytest.mark.parametrize(
    "record",
    [
        [1, 2.5, -3],
        (1, 2.5, -3),
        ["1", " 2.5", "-3e0"],
        np.array([1, 2.5, -3]),
        {"c": "-3", "b": 2.5, "a": 1, "d": "x"},
    ],
)
def test_numbers_in_order_or_by_name(read, record):
    (token,) = read(record)
    assert token.x.dtype == np.float32
    assert token.x.tolist() == [1, 2.5, -3]
    assert token.filled == ()


@pytest.mark.parametrize(
    "record",
    [[None, 5, 6], ["", "5", "6"], [float("nan"), 5, 6], {"b": 5, "c": 6}, [" ", 5, 6], ["NA", 5, 6], ["null", 5, 6]],
)
def test_what_is_missing(read, record):
    reasons = {"nan": "nan", "NA": "'NA', which counts as empty", "null": "'null', which counts as empty"}
    first = "" if isinstance(record, dict) else str(record[0])
    with pytest.raises(RecordError, match=rf"^a is {reasons.get(first, 'missing')}; `missing='fill'` repeats"):
        read(record)
    assert read(record, "skip") == []
    with pytest.raises(RecordError, match="no earlier record"):
        read(record, "fill")
    read([1, 2, 3], "fill")
    (token,) = read(record, "fill")
    assert token.x.tolist() == [1, 5, 6]
    assert token.filled == ("a",)
    (token,) = read({"c": 7}, "fill")  # the last values are those that were filled in
    assert token.x.tolist() == [1, 5, 7]
    assert token.filled == ("a", "b")


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ([1, 2], "2 numbers, but the model takes 3"),
        ([], "0 numbers"),
        ([1, 2, "x"], "c is 'x', which is not a number"),
        ([1, "1_0", float("inf")], "c is inf, which is not finite"),
        ([1, 10**400, 2], "b is 1000"),
        ([1, 10**5000, 2], "b is a number of thousands of digits"),
        ([1, 1e39, 2], "b is 1e\\+39, which is too large for float32"),
        ([1, [2], 3], "b is \\[2\\], which is not a number"),
        ([[1, 2, 3]], "1 value, of which \\[1, 2, 3\\] is not a number"),
        ([[1], [2], [3]], "a is \\[1\\], which is not a number"),
        (5, "5 must be an array of 3 numbers"),
        ({}, "a, b, c are missing"),
    ],
)
def test_what_is_wrong_is_named(read, record, words):
    with pytest.raises(RecordError, match=words):
        read(record)


def test_the_memory_is_a_value():
    one, other = (LiveVectors(3, missing="fill") for _ in range(2))
    assert one.memory() == {"last": None}
    one.read([1, 2, 3])
    memory = one.memory()
    one.read([4, 5, 6])
    other.remember(memory)
    assert other.read([None, 0, None])[0].x.tolist() == [1, 0, 3]
    with pytest.raises(RecordError, match="the model's inputs have none"):
        one.read({"a": 1})
    with pytest.raises(ValueError, match="the memory has 2 numbers, but the reader takes 3"):
        one.remember({"last": [1, 2]})


def test_sources_that_fit_and_that_do_not():
    reader = LiveVectors(3, "abc")
    reader.check(None, 3)
    reader.check(("c", "d", "a", "b"), 4)
    with pytest.raises(ValueError, match="records have 4 numbers, but the model takes 3"):
        reader.check(None, 4)
    with pytest.raises(ValueError, match="the columns are a, b, but the model takes a, b, c: c is missing"):
        reader.check(("a", "b"), 2)
    LiveVectors(3, "abc", missing="fill").check(("a", "b"), 2)
    with pytest.raises(ValueError, match="a, b, c are missing"):
        LiveVectors(3, "abc", missing="fill").check(("x",), 1)
    with pytest.raises(ValueError, match="the model's inputs have none"):
        LiveVectors(3).check(("a", "b", "c"), 3)
    LiveVectors(3, together=2).check(None, 6)
    with pytest.raises(ValueError, match="2 tokens arrive together; give 2 x 3 numbers"):
        LiveVectors(3, "abc", together=2).check(("a", "b", "c"), 3)


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (["foo"], "1 value, of which 'foo' is not a number, but the model takes 3"),
        (["1"], "1 number, but the model takes 3"),
        (["1", "", "3", "4"], "4 numbers, but the model takes 3"),
        (["1", "nan", ""], "b, c are missing (b is nan); `missing='fill'` repeats"),
    ],
)
def test_what_was_found_is_said(read, cells, words):
    with pytest.raises(RecordError) as caught:
        read(cells)
    assert str(caught.value).startswith(words)


def test_records_that_are_wrong_in_one_way_are_of_one_kind(read):
    def kind(*record):
        with pytest.raises(RecordError) as caught:
            read(list(record))
        return caught.value.kind

    assert kind(1, "foo", 3) == kind(1, "bar", 3) != kind(1, 2, "foo")
    assert kind(1, 2) == kind(1) != kind(1, 2, None) == kind(1, None, None)
