"""Points and commas in numbers."""

import math

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nystream.data import numbers


def marks(*columns, decimal="", separator=","):
    return numbers.find_marks({f"c{i}": pl.Series(column) for i, column in enumerate(columns)}, decimal, separator)


@pytest.mark.parametrize(
    ("columns", "separator", "found"),
    [
        ([["1", "2"]], ",", "."),
        ([["1.5", "2"]], ",", "."),
        ([["101.267", "99.123"]], ",", "."),  # a point before three digits, as programs write it
        ([["1e3", "-.5", "+4."]], ",", "."),
        ([["1,5", "2"]], ";", ","),
        ([["101,267", "99,123"]], ";", ","),
        ([["1,5"]], ",", ","),  # in quotes, but it can be nothing else
        ([["0,123"]], ",", ","),
        ([["1,013.5", "998.25"]], ",", ".,"),
        ([["1.013,5", "998,25"]], ";", ",."),
        ([["1,234,567", "5"]], ",", ".,"),
        ([["1.5"], ["1,013", "998"]], ",", ".,"),  # the other column says which
        ([["1,5"], ["1.013", "998"]], ";", ",."),
        ([["sun", "1,5 or so"], ["1.5", "2"]], ",", "."),
    ],
)
def test_marks_are_found(columns, separator, found):
    assert marks(*columns, separator=separator) == found


@pytest.mark.parametrize(
    ("columns", "separator", "words"),
    [
        (
            [["1,013", "998"]],
            ",",
            "column 'c0' has '1,013', which can mean 1013 or 1.013: give `decimal='.'` or `decimal=','`",
        ),
        ([["1,013", "1,014"]], ",", "'1,013'"),
        ([["1,013", "998"]], ";", "'1,013'"),
        ([["1,013", "1,014"]], "\t", "'1,013'"),
        ([["998", "1.013"]], ";", "'1.013', which can mean 1.013 or 1013"),
        ([["101.267", "99.123"], ["1,000", "2,001"]], ",", "column 'c1' has '1,000'"),
        ([["1.5"], ["1,5"]], ";", "column 'c0' has '1.5', but column 'c1' has '1,5'"),
    ],
)
def test_what_may_be_either_is_refused_unless_told(columns, separator, words):
    with pytest.raises(ValueError, match=words):
        marks(*columns, separator=separator)
    assert [marks(*columns, decimal=decimal, separator=separator)[0] for decimal in (".", ",")] == [".", ","]


@pytest.mark.parametrize(
    ("text", "how", "number"),
    [
        (" 1013.5 ", ".", 1013.5),
        ("1,013.5", ".,", 1013.5),
        ("-1,013,000", ".,", -1013000.0),
        ("1.013,5", ",.", 1013.5),
        ("1013,5", ",", 1013.5),
        ("1,013.5", ".", None),
        ("1,01", ".,", None),
        ("0,123", ".,", None),
        ("1013.5", ",", None),
        ("1013.5", ",.", None),
        ("1_000", ".", None),
        ("x", ".", None),
    ],
)
def test_a_field_is_read_as_a_column_is(text, how, number):
    (found,) = numbers.parse_column(pl.Series([text.strip()]), how).to_list()
    assert found == number
    if number is None:
        with pytest.raises(ValueError, match=r"."):
            numbers.parse_number(text, how)
    else:
        assert numbers.parse_number(text, how) == number


@given(text=st.text("0123456789.,-+e", max_size=9), how=st.sampled_from([".", ",", ".,", ",."]))
def test_fields_and_columns_agree(text, how):
    (found,) = numbers.parse_column(pl.Series([text], dtype=pl.String), how).to_list()
    try:
        assert math.isclose(numbers.parse_number(text, how), found)
    except ValueError:
        assert found is None


def test_what_is_said():
    assert numbers.describe_marks(".") == ()
    assert numbers.describe_marks(",.") == (
        "numbers have a decimal comma",
        "numbers have points between thousands",
    )
