"""What is said of many records."""

from nystream.live.reports import Reports


def test_the_first_few_of_a_kind_then_ever_fewer():
    said = []
    reports = Reports(said.append)
    for i in range(1, 12346):
        reports.tell("a", f"a {i}")
        if i <= 4:
            reports.tell("b", f"b {i}")
    numbers = [line.split()[1] for line in said if line.startswith("a")]
    assert numbers == ["1", "2", "3", "4", "5", "10", "100", "1000", "10000"]
    assert said[1::2][:4] == ["b 1", "b 2", "b 3", "b 4"]
    assert said[-1] == "a 10000 (the 10,000th)"
    assert "only the 10th, the 100th" in next(line for line in said if line.startswith("a 5"))
