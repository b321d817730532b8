"""Lines of text as records."""

import io
import os
import sys
import threading
import time

import numpy as np
import pytest

from nystream.data.reader import RecordError
from nystream.live.saving import Position
from nystream.live.sources import Feed, Item, lines, open_source
from nystream.live.sources.formats import MAX_LINE, Parser
from nystream.live.sources.lines import LineFile


def parsed(*given, form="auto"):
    parser = Parser(form)
    return [parser.parse(line) for line in given]


def test_json():
    assert parsed(b"[1, 2]", b"", b"  ", b'{"a": null}') == [[1, 2], None, None, {"a": None}]


def test_csv_with_a_header():
    assert parsed(b"\xef\xbb\xbfa, b", b"1,x", b'"1,5",') == [None, {"a": "1", "b": "x"}, {"a": "1,5", "b": ""}]


@pytest.mark.parametrize("delimiter", [b",", b";", b"\t", b"|"])
def test_other_delimiters(delimiter):
    assert parsed(delimiter.join([b"a", b"b"]), delimiter.join([b"1", b"2"]))[1] == {"a": "1", "b": "2"}


def test_csv_of_numbers_needs_no_header():
    assert parsed(b"1,,-2e3", b"4,5,6") == [["1", "", "-2e3"], ["4", "5", "6"]]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"{", "not JSON: .* at character 2"),
        (b'{"a": 1} x', "not JSON: Extra data"),
        (b"3", "3 is neither an object nor an array"),
        (b'"a"', "neither"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[" + b"1" * 5000 + b"]", "not JSON that can be read"),
        (b'{"a": 1, "a": 2}', "'a' appears more than once"),
        (b"[1, \xff]", "not UTF-8: invalid start byte at byte 5"),
        (b"[" + b" " * MAX_LINE + b"]", "longer than 16 MiB"),
    ],
    ids=lambda value: str(value[:12]),
)
def test_bad_json_is_named(line, words):
    parser = Parser("json")
    with pytest.raises(RecordError, match=words):
        parser.parse(line)
    assert parser.parse(b"[1]") == [1]


@pytest.mark.parametrize(("line", "words"), [(b"1,2,3", "3 fields, but the header has 2"), (b'1,"2', "not CSV")])
def test_bad_csv_is_named(line, words):
    parser = Parser()
    parser.parse(b"a,b")
    with pytest.raises(RecordError, match=words):
        parser.parse(line)
    assert parser.parse(b"1,2") == {"a": "1", "b": "2"}


@pytest.mark.parametrize("line", [b"\xff,a", b'a,"b', b"a,b,a"])
def test_a_header_that_cannot_be_read_ends_it(line):
    with pytest.raises(ValueError, match=r"first line|more than once") as caught:
        Parser().parse(line)
    assert not isinstance(caught.value, RecordError)


@pytest.mark.parametrize(
    ("first", "record"),
    [
        (b"a,b", None),  # the header comes again
        (b"1,x", {"a": "1", "b": "x"}),
        (b"1,2", {"a": "1", "b": "2"}),
    ],
)
def test_lines_that_go_on_with_a_table_may_have_a_header(first, record):
    before, parser = Parser(), Parser()
    before.parse(b"a,b")
    parser.remember(before.memory())
    assert parser.parse(first) == record
    assert parser.parse(b"3,4") == {"a": "3", "b": "4"}


def test_a_header_with_its_columns_moved_is_believed():
    before, parser = Parser(), Parser()
    before.parse(b"a,b")
    parser.remember(before.memory())
    assert parser.parse(b"b,a") is None
    assert parser.parse(b"3,4") == {"b": "3", "a": "4"}


def test_standard_input(monkeypatch):
    given = io.TextIOWrapper(io.BytesIO(b"[1]\r\n\n[2\n[3]"))
    monkeypatch.setattr(sys, "stdin", given)
    feed = Feed(open_source("-"))
    items = list(feed)
    assert [(item.number, item.record) for item in items] == [(1, [1]), (3, None), (4, [3])]
    assert "not JSON" in str(items[1].error)
    assert feed.position.items == 4
    assert feed.position.source == "-"


def test_standard_input_that_is_closed(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(OSError, match="standard input is closed"):
        list(Feed(open_source("-")))


def test_a_pipe_with_a_name_goes_on_with_what_comes(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    thread = threading.Thread(target=lambda: path.write_text("[1]\n[2]\n"))
    thread.start()
    feed = feed_of(path, Position(str(path), 7, 1, Parser("json").memory()))
    assert [item[:2] for item in feed] == [(1, [1]), (2, [2])]
    thread.join()
    with pytest.raises(ValueError, match="only a file of lines can be followed"):
        feed_of(path, follow=True)


def test_a_line_that_is_too_long_is_passed_over_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "MAX_LINE", 10)
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"[1]\n" + b"x" * 57 + b"\n" + b"[2]\n" + b"y" * 11 + b"\n" + b" " * 7 + b"[4]\r\n" + b"z" * 99)
    found = list(LineFile(path).items())
    assert [len(line) > 10 for line in found] == [False, True, False, True, False, True]
    assert found[::2] == [b"[1]", b"[2]", b"       [4]"]


def feed_of(path, after=None, follow=False):
    return Feed(open_source(str(path), follow=follow), after)


def test_a_file_goes_on_after_what_was_read(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a;b\n1;2\n\nbad\n3;4\n5;6")
    feed, seen, places = feed_of(path), [], []
    for item in feed:
        seen.append(item[:2])
        places.append(feed.position)
    assert seen == [(2, {"a": "1", "b": "2"}), (4, None), (5, {"a": "3", "b": "4"}), (6, {"a": "5", "b": "6"})]
    for done, place in enumerate(places, 1):
        assert [item[:2] for item in feed_of(path, place)] == seen[done:]
    with path.open("a") as file:  # the last line had no end
        file.write("\n7;8\n")
    assert [item[:2] for item in feed_of(path, places[-1])] == [(7, {"a": "7", "b": "8"})]


def test_a_file_that_was_changed_is_refused(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("[1]\n[2]\n[3]\n")
    feed = feed_of(path)
    list(feed)
    for text in ("[1]\n[9]\n[3]\n[4]\n", "[1]\n", ""):
        path.write_text(text)
        with pytest.raises(ValueError, match="does not begin with the 3 lines"):
            feed_of(path, feed.position)
        with pytest.raises(ValueError, match="does not begin with the 3 lines"):
            feed_of(path, feed.position, follow=True)  # and does not wait for the others


def test_another_file_begins_at_its_beginning_and_a_copy_goes_on(tmp_path):
    one, other = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    one.write_text("[1]\n[2]\n")
    other.write_text("[5]\n[6]\n")
    feed = feed_of(one)
    next(iter(feed))
    again = feed_of(other, feed.position)
    assert again.position.items == 0
    assert [item.record for item in again] == [[5], [6]]
    assert [item.record for item in feed_of(other, Position("-", 9, 1))] == [[5], [6]]
    other.write_text(one.read_text())
    assert [item.record for item in feed_of(other, feed.position)] == [[2]]


def test_following_a_file_gives_whole_lines_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "POLL_SECONDS", 0.001)
    path = tmp_path / "a.jsonl"
    path.write_text("[1]\n[2")
    items = iter(feed_of(path, follow=True))
    assert next(items).record == [1]

    def later():
        for text in (", 3", "]", "\n\n[4]\n"):
            time.sleep(0.01)
            with path.open("a") as file:
                file.write(text)

    thread = threading.Thread(target=later)
    thread.start()
    assert [next(items)[:2], next(items)[:2]] == [(2, [2, 3]), (4, [4])]
    thread.join()
    path.write_text("")
    with pytest.raises(OSError, match="was truncated while it was read"):
        next(items)


def test_following_goes_on_after_a_last_line_without_an_end(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "POLL_SECONDS", 0.001)
    path = tmp_path / "a.jsonl"
    path.write_text("[1]\n[2]")
    feed = feed_of(path)
    assert [item.record for item in feed] == [[1], [2]]
    again = iter(feed_of(path, feed.position, follow=True))
    with path.open("a") as file:
        file.write("\n[3]\n")
    assert next(again).record == [3]


def test_lines_before_the_header_are_skipped(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("A station; of ours\n\na,b\n1,2\n3,4\n")
    feed = Feed(open_source(str(path), skip_lines=2))
    items = iter(feed)
    assert next(items) == Item(4, {"a": "1", "b": "2"})
    assert feed.source.shape() == (["a", "b"], 2)
    again = Feed(open_source(str(path), skip_lines=2), feed.position)
    assert list(again) == [Item(5, {"a": "3", "b": "4"})]
    np.save(tmp_path / "a.npy", np.zeros((2, 2)))
    for name in (str(tmp_path / "a.npy"), "mic", "sample"):
        with pytest.raises(ValueError, match=r"skip_lines=1 is for files of lines and standard input, which .* is not"):
            open_source(name, rate=8000, skip_lines=1)
    with pytest.raises(ValueError, match="skip_lines"):
        open_source(str(path), skip_lines=-1)
