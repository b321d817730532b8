"""Reports about many records."""

from nystream.live.reports import MAX_KINDS, Reports


def test_the_first_few_of_a_kind_then_ever_fewer():
    messages = []
    reports = Reports(messages.append)
    for i in range(1, 12346):
        reports.tell("a", f"a {i}")
        if i <= 4:
            reports.tell("b", f"b {i}")
    numbers = [line.split()[1] for line in messages if line.startswith("a")]
    assert numbers == ["1", "2", "3", "4", "5", "10", "100", "1000", "10000"]
    assert messages[1::2][:4] == ["b 1", "b 2", "b 3", "b 4"]
    assert messages[-1] == "a 10000 (the 10,000th)"
    assert "only the 10th, the 100th" in next(line for line in messages if line.startswith("a 5"))


def test_every_kind_has_its_first_few_and_its_count():
    messages = []
    reports = Reports(messages.append)
    for i in range(1, 8):
        reports.tell("skipped", f"line {i} skipped: no number", "number", f"line {i}: no number")
    reports.tell("skipped", "line 8 skipped: no zone", "zone", "line 8: no zone")
    reports.tell("dropped", "line 9 dropped", "late")
    assert messages[-2:] == ["line 8 skipped: no zone", "line 9 dropped"]
    assert reports.kinds("skipped") == [
        "7 skipped like line 1: no number",
        "1 skipped: line 8: no zone",
    ]
    assert reports.kinds("dropped") == []  # it was reported


def test_the_kinds_fit_in_memory():
    reports = Reports(lambda _: None)
    for i in range(1000):
        reports.tell("skipped", f"message {i}", f"kind {i}")
    found = reports.kinds("skipped")
    assert len(found) == MAX_KINDS + 1
    assert found[0] == f"{1000 - MAX_KINDS:,} skipped like message {MAX_KINDS}"
