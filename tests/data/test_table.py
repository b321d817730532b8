"""Reading tables from CSV and Parquet files."""

import numpy as np
import polars as pl
import pytest

from nystream.data import table as tables
from nystream.data.table import counted, listed, read_table, shortened


def test_a_csv(write_csv):
    table = read_table(write_csv({"a": [1, None, " 2.5 "], "b": ["x", "NA", "y, z"]}))
    assert table.names == ("a", "b")
    numbers, wrong = table.numbers("a")
    np.testing.assert_array_equal(numbers, [1.0, np.nan, 2.5])
    assert wrong is None
    assert table.values("b") == ["x", None, "y, z"]
    assert table.numbers("b")[1] == 0
    assert table.line(1) == "line 3"
    assert next(table.records()) == {"a": "1", "b": "x"}


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_other_separators_and_decimal_commas(write_csv, separator):
    table = read_table(write_csv({"a": ["1,5", "-2"], "b": ["3.5", "x"]}, separator=separator))
    assert table.numbers("a", ",")[0].tolist() == [1.5, -2.0]
    assert table.numbers("a")[1] == 0
    assert table.numbers("b", ",")[1] == 0  # a point is not guessed at
    assert table.separator == separator


def test_a_byte_order_mark_and_quotes(tmp_path):
    path = tmp_path / "data.csv"
    path.write_bytes(b'\xef\xbb\xbf"a name","b"\r\n1,"two\nlines"\r\n')
    table = read_table(path)
    assert table.names == ("a name", "b")
    assert table.values("b") == ["two\nlines"]


def test_rows_that_end_early_lack_fields(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("a,b\n1\n2,3\n")
    assert read_table(path).values("b") == [None, "3"]


def test_a_parquet(tmp_path):
    frame = pl.DataFrame({"n": [1, None], "f": [0.5, float("nan")], "b": [True, False], "t": ["x", ""]})
    frame.write_parquet(tmp_path / "data.parquet")
    table = read_table(tmp_path / "data.parquet")
    np.testing.assert_array_equal(table.numbers("n")[0], [1.0, np.nan])
    np.testing.assert_array_equal(table.numbers("f")[0], [0.5, np.nan])
    assert table.numbers("b")[0].tolist() == [1.0, 0.0]
    assert table.values("t") == ["x", None]
    assert table.line(0) == "row 1"


def test_other_files_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="is not a file"):
        read_table(tmp_path / "none.csv")
    (tmp_path / "data.xlsx").write_text("x")
    with pytest.raises(ValueError, match=r"must end in one of \.csv"):
        read_table(tmp_path / "data.xlsx")
    (tmp_path / "data.parquet").write_text("x")
    with pytest.raises(ValueError, match="cannot be read"):
        read_table(tmp_path / "data.parquet")
    (tmp_path / "ok.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="has no column 'c'; it has 'a', 'b'"):
        read_table(tmp_path / "ok.csv").values("c")


def test_times_are_read_in_blocks(monkeypatch, write_csv, hours):
    monkeypatch.setattr(tables, "PROGRESS_ROWS", 7)
    stamps = hours(20)
    table = read_table(write_csv({"t": [*stamps[:9], None, *stamps[9:]], "a": range(21)}), show=False)
    found = table.times("t", "iso")
    assert found[[0, 20]].astype(str).tolist() == ["2024-01-01T00:00:00.000000", "2024-01-01T19:00:00.000000"]
    assert np.flatnonzero(np.isnat(found)).tolist() == [9]
    with pytest.raises(ValueError, match=r"data.csv, line 2: 't' is '2024-01-01 00:00:00', which is not a time"):
        table.times("t", "%d.%m.%Y")


def test_a_sample_is_of_what_is_there(write_csv):
    table = read_table(write_csv({"a": [None, 1, "NA", 2, 3], "b": range(5)}))
    assert table.sample("a", 2) == ["1", "2"]
    assert table.texts("a").to_list() == ["1", "2", "3"]


def test_lists_in_messages():
    assert listed(["a", "b, c"]) == "'a', 'b, c'"
    assert listed([str(i) for i in range(10)]).endswith("'7' and 2 more")
    assert shortened(["x", "y", "z"], 2, "; ") == "x; y; and 1 more"
    assert shortened(["x"], 1, "; ", count=1001) == "x; and 1000 more"
    assert (counted(1, "row"), counted(1200, "row")) == ("1 row", "1,200 rows")


def test_lines_before_and_after_the_rows(tmp_path, hours):
    path = tmp_path / "data.csv"
    rows = [f"{time};{place}" for place, time in enumerate(hours(9))]
    path.write_text("\n".join(["A station", "", "time;load", *rows, "", "Source: us", "Total;36"]))
    table = read_table(path, skip_lines=2)
    assert table.line(0) == "line 4"
    with pytest.raises(
        ValueError, match=r"line 14: 'time' is 'Source: us', .* the last 2 lines look like a footer: `skip_end=2`"
    ):
        table.times("time", "iso")
    table = read_table(path, skip_lines=2, skip_end=2)
    assert len(table.times("time", "iso")) == 9
    path.write_text("\n".join(["time;load", *rows[:4], "x;1", *rows[4:], "y;2"]))
    with pytest.raises(ValueError, match=r"line 6: 'time' is 'x', which is not a time: [^;]*$"):
        read_table(path).times("time", "iso")
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"skip_end=1 is for CSV files, but .* is a Parquet file"):
        read_table(tmp_path / "a.parquet", skip_end=1)
    with pytest.raises(ValueError, match="skip_lines"):
        read_table(path, skip_lines=-1)
