"""CSV files as people save them."""

import pytest

from nystream.data.csv_file import file_separator, read_csv, read_header


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data.csv"


def test_fields_are_text(path):
    path.write_text("a ;b\n 1;x\n2\n")
    assert file_separator(path) == ";"
    assert read_csv(path, ";").to_dict(as_series=False) == {"a": [" 1", "2"], "b": ["x", None]}
    path.write_text("a,b\n")
    assert read_csv(path, ",").height == 0


def test_separators_in_quotes_do_not_count(path):
    path.write_text('time;"Load, MW, net";b\n2024-01-01;1;2\n')
    assert file_separator(path) == ";"
    assert read_header(path, ";") == ["time", "Load, MW, net", "b"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("1,2\n3,4\n", "begins with numbers"),
        ("a,a\n1,2\n", "several columns named 'a'"),
        (
            "# made by hand\na,b\n1,2\n",
            r"has 1 line before line 2, which looks like its header \('a', 'b'\): `skip_lines=1` skips it",
        ),
        ("# a,b\n1,2\n", "begins with '# a', but must begin with the names .* not have them, `skip_lines=1` skips it"),
        ("sep=;\na;b\n1;2\n", "before line 2, which looks like its header .'a', 'b'.: `skip_lines=1` skips it"),
        ("A report\n\nby us\na;b;c;d\n1,5;2;3;4\n\n", "3 lines before line 4, .* .'a', 'b', 'c', ….: `skip_lines=3` "),
        ("2024-01-01 00:00:00,1.5,2\n2024-01-01 01:00:00,1.6,2\n", "begins with numbers"),
        ("a,b\n1,2\n1,2,3\n", "data.csv, line 3 has 3 fields, but the first line names 2"),
        ('a,b\n1,"2\n2"\n1,2,3\n', "line 4 has 3 fields"),
        ("A report\na,b\n1,2\n", "has 1 line before line 2, .*: `skip_lines=1` skips it"),
        ("A report\n1,2\n3,4\n", "line 2 has 2 fields, but the first line names 1"),
        ('"A\nb",c,d\n1,2,3\n1,2,3,4\n4,5,6\n', "line 4 has 4 fields, but the first line names 3 columns.*quotes$"),
        (
            "a,b\n1,2\nFrom: us\n\nx, y, z\n\n",
            "line 5 has 3 fields.*; the last 2 lines look like a footer: `skip_end=2`",
        ),
    ],
)
def test_bad_files(path, text, words):
    path.write_text(text)
    with pytest.raises(ValueError, match=words):
        read_csv(path, ",")


@pytest.mark.parametrize(
    ("text", "code", "command"),
    [
        ("größe,b\n1,2\n", "latin-1", "iconv -f WINDOWS-1252 -t UTF-8 'a b.csv' > utf8.csv"),
        ("a,b\n1,größe\n", "latin-1", "iconv -f WINDOWS-1252"),
        ("a,b\n1,2\n", "utf-16", "iconv -f UTF-16 -t UTF-8"),
    ],
)
def test_other_encodings(tmp_path, text, code, command):
    path = tmp_path / "a b.csv"
    path.write_bytes(text.encode(code))
    with pytest.raises(ValueError, match="not text in UTF-8; save it as UTF-8, or: " + command):
        read_csv(path, ",")


def test_lines_that_are_skipped(path):
    path.write_text("A, report\n\nby us\na;b\n1;2\n3;4\n\nFrom: a; b; c\n# end\n \n")
    assert file_separator(path, 3) == ";"
    assert read_csv(path, ";", 3, 2).rows() == [("1", "2"), ("3", "4")]
    with pytest.raises(ValueError, match=r"has 3 lines before line 4, .* `skip_lines=3`"):
        read_csv(path, ";", 2)
    with pytest.raises(ValueError, match="begins with numbers after `skip_lines=4`"):
        read_csv(path, ";", 4)
    with pytest.raises(ValueError, match="is empty after `skip_lines=40`"):
        read_csv(path, ";", 40)
    with pytest.raises(ValueError, match="skip_end=5 leaves no rows of"):
        read_csv(path, ";", 3, 5)


def test_empty_lines_at_the_end_are_no_rows(path):
    path.write_text("a,b\n1,2\n\n\n")
    assert read_csv(path, ",").rows() == [("1", "2")]
    path.write_text("a,b\n1,2\n,\n\n")
    assert read_csv(path, ",").rows() == [("1", "2"), (None, None)]
