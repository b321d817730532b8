"""A small version of UCI's text file: what is read, and errors that name the line."""

from datetime import datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nystream.lab.tasks.electricity import forecast, uci

HEADER = '"";"MT_001";"MT_002";"MT_003"'


def write(folder, values, start="2011-01-01 00:15:00", names=None, end="\n"):
    names = names or [f"MT_{j + 1:03}" for j in range(len(values[0]))]
    first = datetime.fromisoformat(start)
    lines = [";".join(['""', *(f'"{name}"' for name in names)])]
    for i, row in enumerate(values):
        numbers = (f"{value:.15g}".replace(".", ",") for value in row)
        lines.append(";".join([f'"{first + i * timedelta(minutes=15)}"', *numbers]))
    file = folder / uci.FILE
    file.write_bytes((end.join(lines) + end).encode())
    return file


@given(st.data())
def test_reads_what_was_written(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("uci")
    rows, names = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 5))
    number = st.floats(0, 1e6, width=32) | st.just(0.0)
    values = np.array(
        data.draw(st.lists(st.lists(number, min_size=names, max_size=names), min_size=rows, max_size=rows))
    )
    file = write(folder, values, end=data.draw(st.sampled_from(["\n", "\r\n"])))
    held = uci.load(data.draw(st.sampled_from([file, folder])))
    np.testing.assert_allclose(held.values, values, rtol=1e-6)
    assert held.values.dtype == np.float32
    assert held.time[0] == np.datetime64("2011-01-01T00:15")
    np.testing.assert_array_equal(held.known, np.cumsum(values, axis=0) > 0)


def test_leading_zeros_are_not_measured_and_later_ones_are(tmp_path):
    file = write(tmp_path, [[1, 0, 0], [0, 0, 0], [2.5, 3, 0], [1, 0, 0]])
    held = uci.load(file)
    np.testing.assert_array_equal(held.known, [[1, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 0]])
    np.testing.assert_array_equal(held.total(), [1, 0, 5.5, 1])
    assert uci.load(file, late="drop").names == ("MT_001",)
    with pytest.raises(ValueError, match="leaves no customer"):
        uci.load(file, ["MT_003"], late="drop")


def test_selects_customers_in_the_order_asked_for(tmp_path):
    held = uci.load(write(tmp_path, [[1, 2, 3], [4, 5, 6.25]]), ["MT_003", "MT_001"])
    assert held.names == ("MT_003", "MT_001")
    np.testing.assert_array_equal(held.values, [[3, 1], [6.25, 4]])


def test_selects_years_by_the_quarter_that_a_stamp_ends(tmp_path):
    values = [[1, 0], [2, 0], [0, 0], [4, 5]]
    file = write(tmp_path, values, start="2011-12-31 23:45:00")  # the second row is the last quarter of 2011
    assert uci.load(file, years=[2011]).values[:, 0].tolist() == [1, 2]
    later = uci.load(file, years=[2012])
    assert later.values.tolist() == [[0, 0], [4, 5]]
    assert later.known.tolist() == [[True, False], [True, True]]  # the first customer was there in 2011
    assert len(uci.load(file, years=[2011, 2012])) == 4
    with pytest.raises(ValueError, match=r"no row of the years \[2014\]"):
        uci.load(file, years=[2014])
    with pytest.raises(ValueError, match="consecutive"):
        uci.load(file, years=[2011, 2013])


def test_stops_reading_after_the_last_year(tmp_path):
    file = write(tmp_path, [[1.0]] * 4, start="2011-12-31 23:45:00")
    file.write_text(file.read_text() + "nonsense\n")
    assert len(uci.load(file, years=[2011])) == 2
    with pytest.raises(ValueError, match="line 6"):
        uci.load(file)


def test_an_hour_is_four_rows_ahead(tmp_path):
    values = np.random.default_rng(0).random((60, 2))
    problem = forecast(uci.load(write(tmp_path, values)))
    assert problem.ahead == 4
    np.testing.assert_allclose(problem.y[:, 0], values[4:].sum(1), rtol=1e-6)


ROWS = ['"2011-01-01 00:15:00";1;2;3', '"2011-01-01 00:30:00";1,5;0;0', '"2011-01-01 00:45:00";4;5;6']


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        ([HEADER.replace(";", ","), *ROWS], "line 1: .*semicolons"),
        (['"";"MT_001";"MT_001";"MT_003"', *ROWS], "line 1: .*more than once"),
        (ROWS, "line 1: the header must be"),
        ([HEADER, ROWS[0], ROWS[1] + ";7"], "line 3: 5 fields, but the header has 4"),
        ([HEADER, *ROWS[:2], '"2011-01-01 00:45:00";4'], "line 4: 2 fields"),
        ([HEADER, ROWS[0].replace(";", ",")], "line 2: 1 fields"),
        ([HEADER, ROWS[1], ROWS[0]], "line 3: 2011-01-01 00:15:00 comes after"),
        ([HEADER, ROWS[0], ROWS[0]], "line 3: .*15 minutes later"),
        ([HEADER, ROWS[0], ROWS[2]], "line 3: .*15 minutes later"),
        ([HEADER, ROWS[0], "01/01/2011 00:30;1;2;3"], "line 3: the first field"),
        ([HEADER, '"2011-01-01 00:15:00";1;x;3'], "line 2: MT_002 is 'x'"),
        ([HEADER, '"2011-01-01 00:15:00";1;2;'], "line 2: MT_003 is ''"),
        ([HEADER, '"2011-01-01 00:15:00";nan;2;3'], "line 2: MT_001 is 'nan'"),
        ([HEADER, '"2011-01-01 00:15:00";-1;2;3'], "line 2: MT_001 is '-1'"),
        ([HEADER, '"2011-01-01 00:15:00";1e39;2;3'], "line 2: MT_001 is '1e39'"),
        ([HEADER, '"2011-01-01 00:15:00";1;\xe9;3'], "line 2: MT_002"),
        ([HEADER], "has no row"),
        ([""], "line 1"),
    ],
)
def test_bad_files_are_refused_by_line(tmp_path, lines, what):
    file = tmp_path / uci.FILE
    file.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(ValueError, match=what):
        uci.load(file)


def test_other_refusals(tmp_path):
    with pytest.raises(FileNotFoundError, match=uci.FILE):
        uci.load(tmp_path)
    file = write(tmp_path, [[1, 2, 3]])
    with pytest.raises(ValueError, match="line 1: the header has no column MT_004"):
        uci.load(file, ["MT_001", "MT_004"])
    with pytest.raises(ValueError, match="must be a list of names"):
        uci.load(file, "MT_001")
    with pytest.raises(ValueError, match="late='mask' is not known"):
        uci.load(file, late="mask")
    file.write_bytes(b"PK\x03\x04")
    with pytest.raises(ValueError, match="zip archive"):
        uci.load(file)


def test_a_bar_shows_the_megabytes(tmp_path, capsys, monkeypatch):
    pytest.importorskip("rich")
    monkeypatch.setattr(uci, "MEGABYTE", 100)
    file = write(tmp_path, np.ones((50, 3)))
    uci.load(file, progress=True)
    total = -(-file.stat().st_size // 100)
    held = capsys.readouterr()
    assert not held.out
    assert f"{total}/{total}" in held.err
    uci.load(file, progress=False)
    assert capsys.readouterr() == ("", "")
