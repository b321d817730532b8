"""Detecting the columns of a table and their types."""

from datetime import timedelta

import pytest

from nystream.data.table import read_table
from nystream.data.table_rows import read_rows
from nystream.data.table_schema import find_reader


def test_columns_of_all_kinds(write_csv, hours):
    path = write_csv(
        {
            "when": hours(40, timedelta(minutes=15)),
            "load": [i * 1.5 for i in range(40)],
            "kind": ["a", "b"] * 20,
            "zone": [1, 2, 2, 3] * 10,
            "id": [f"id {i}" for i in range(40)],
            "same": [7] * 40,
            "nothing": [None] * 40,
            "later": hours(40),
        }
    )
    reader, notes = find_reader(read_table(path), ["load"], categorical=["zone"])
    assert (reader.time, reader.step) == ("when", 900.0)
    assert reader.names[:6] == ("load", "kind=a", "kind=b", "zone=1", "zone=2", "zone=3")
    assert reader.columns[0].usual == pytest.approx(29.25)
    assert notes == (
        "time column 'when', one row every 15 minutes",
        "'later' is dropped: it is another time",
        "'id' is dropped: it is text with 40 different values, such as 'id 0'; at most 32 can be categories",
        "'same' is dropped: it is 7 in every row",
        "'nothing' is dropped: it is empty",
    )


@pytest.mark.parametrize(("step", "periods"), [(timedelta(days=1), (168.0,)), (timedelta(days=31), ())])
def test_cycles_that_rows_are_too_far_apart_for(write_csv, hours, step, periods):
    reader, _ = find_reader(read_table(write_csv({"date": hours(20, step, "%d.%m.%Y"), "a": range(20)})), ["a"])
    assert reader.periods == periods
    assert reader.form == "%d.%m.%Y"


def test_semicolons_and_decimal_commas(write_csv, hours):
    path = write_csv({"t": hours(4), "a": ["1,5", "2,5", "3", "4"]}, separator=";")
    table = read_table(path)
    reader, notes = find_reader(table, ["a"])
    assert reader.decimal == ","
    assert "numbers have a decimal comma" in notes
    assert read_rows(reader, table).base[:, 0].tolist() == [1.5, 2.5, 3.0, 4.0]


def test_no_time(write_csv, hours):
    path = write_csv({"t": hours(4), "a": range(4), "": range(4)})
    reader, notes = find_reader(read_table(path), ["a"], time="none")
    assert reader.time is None
    assert reader.names == ("a", "change of a")
    assert notes == (
        "no time column: rows are taken in order",
        "'t' is dropped: it is a time",
        "'' is dropped: it has no name, and seems to number the rows",
    )


def test_what_only_counts_the_rows_is_dropped_unless_named(write_csv):
    table = read_table(write_csv({"a": [1.5, 2.0, 1.0, 3.0], "n": [10, 20, 30, 40]}))
    reader, notes = find_reader(table, ["a"])
    assert reader.names == ("a", "change of a")
    assert "'n' is dropped: it counts the rows, so its later values are not in the training data" in notes
    assert find_reader(table, ["a"], columns=["n"])[0].names == ("a", "n", "change of a")
    assert find_reader(table, ["n"])[0].targets == ("n",)


def test_categories_are_those_of_training(write_csv):
    table = read_table(write_csv({"a": [1.5, 2.0, 1.0, 3.0, 7.0], "k": ["x", "x", "y", "x", "z"]}))
    reader, _ = find_reader(table, ["a"], train=0.8)
    assert reader.names == ("a", "k=x", "k=y", "change of a")
    with pytest.raises(ValueError, match="line 6: 'k' is 'z', a new category"):
        read_rows(reader, table)
    assert len(read_rows(reader, table, "skip").x) == 4
    _, notes = find_reader(table, ["a"], train=0.4)
    assert "'k' is dropped: it is 'x' in every training row" in notes


def test_thousands(write_csv, hours):
    table = read_table(write_csv({"t": hours(4), "a": ["1,013", "998", "1,046", "1,100"]}))
    with pytest.raises(ValueError, match=r"data\.csv: column 'a' has '1,013', which can mean 1013 or 1\.013"):
        find_reader(table, ["a"])
    reader, notes = find_reader(table, ["a"], decimal=".")
    assert read_rows(reader, table).base[:, 0].tolist() == [1013.0, 998.0, 1046.0, 1100.0]
    assert "numbers have commas between thousands" in notes
    assert reader.live().read({"t": hours(4)[0], "a": "1,013"})[0].base == [1013.0]
    with pytest.raises(ValueError, match="decimal=';'"):
        find_reader(table, ["a"], decimal=";")


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ({"a": [1, 2]}, {"targets": ["b"]}, "has no target 'b'; it has 'a'"),
        ({"a": [1, 2]}, {"targets": []}, "name the column to forecast, one of 'a'"),
        ({"a": [1, 2], "c": [1, 2]}, {"time": "c"}, "time='c' is not a column of times"),
        ({"a": [1, 2]}, {"time": "when"}, "has no column 'when'"),
        ({"a": [1, 1]}, {}, "'a' cannot be used: it is 1 in every row"),
        ({"a": ["1", "error"]}, {}, "target 'a' must be numbers, but line 3 has 'error'"),
        ({"a": [1, "inf"]}, {}, "has 'inf' in line 3, which is not finite"),
        ({"t": ["2024-01-02", "2024-01-01", "2024-01-03"], "a": [1, 2, 3]}, {}, "sort the rows by time, oldest first"),
        ({"t": ["2024-01-01", "2024-01-01"], "a": [1, 2]}, {}, "repeats a time in 1 row"),
        ({"t": ["2024-01-01", "2024-01-02"], "a": [1, 2]}, {"targets": ["t"]}, "target 't' is the time column"),
        ({"a": [1, 2]}, {"targets": ["a", "a"]}, "target 'a' is named more than once"),
        ({"a": [1, 2], "k": ["x", "x"]}, {"columns": ["k"]}, "'k' cannot be used: it is 'x' in every row"),
    ],
)
def test_what_is_refused(write_csv, columns, options, words):
    with pytest.raises(ValueError, match=words):
        find_reader(read_table(write_csv(columns)), **{"targets": ["a"], **options})


def test_places_are_named(write_csv, hours):
    stamps = hours(12)
    table = read_table(
        write_csv(
            {"t": [*stamps[:3], *stamps[4:6], *stamps[9:]], "a": [1, None, 3, 4, 5, 6, 7, 8], "k": list("xyxyxyxy")}
        )
    )
    reader, _ = find_reader(table, ["a"])
    with pytest.raises(ValueError, match=r"not regular in time, line 5: 1 row is missing between .* line 7: 3 rows"):
        read_rows(reader, table, "fill")
    with pytest.raises(ValueError, match="has missing fields, line 3: 'a' is empty; `missing='fill'`"):
        read_rows(reader, table, "fail", "skip")
    filled = read_rows(reader, table, "fill", "fill")
    assert len(filled.x) == 12
    assert filled.notes == ("1 missing field filled, in 'a'", "4 missing rows filled")
    assert read_rows(reader, table, "skip", "skip").notes == (
        "1 row with missing fields dropped",
        "4 missing rows skipped",
    )


@pytest.mark.parametrize("written", ["{:.2f} W", "${:,.2f}"])
def test_numbers_with_units_are_told_of(write_csv, hours, written):
    path = write_csv({"t": hours(40), "a": range(40), "b": [written.format(i + 0.5) for i in range(40)]})
    assert any("remove the units next to the numbers" in note for note in find_reader(read_table(path), ["a"])[1])


def test_a_slip_in_a_column_of_numbers_is_named(write_csv, hours):
    load = [f"{i * 1.5:.2f}" for i in range(100)]
    load[40] = "foo"
    table = read_table(write_csv({"when": hours(100), "load": load, "other": [i * i for i in range(100)]}))
    with pytest.raises(ValueError, match=r"column 'load' cannot be used: it has 'foo' in line 42, which is not a num"):
        find_reader(table, ["load"])
    _, notes = find_reader(table, ["other"])
    assert "'load' is dropped: it has 'foo' in line 42, which is not a number" in notes


def test_numbers_with_another_mark_are_named(write_csv, hours):
    table = read_table(write_csv({"when": hours(100), "load": [f"{i * 1.5:.2f}" for i in range(100)]}))
    with pytest.raises(ValueError, match=r"it has '0.00' in line 2, which is not a number with the decimal mark ','"):
        find_reader(table, ["load"], decimal=",")
