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
            "begins with '# made by hand', but must begin with the names .*: grep -v '.#' data.csv",
        ),
        ("sep=;\na;b\n1;2\n", "begins with 'sep=;', but must begin with the names of its columns: tail -n .2 data.csv"),
        ("2024-01-01 00:00:00,1.5,2\n2024-01-01 01:00:00,1.6,2\n", "begins with numbers"),
        ("a,b\n1,2\n1,2,3\n", "data.csv, line 3 has 3 fields, but the first line names 2"),
        ('a,b\n1,"2\n2"\n1,2,3\n', "line 4 has 3 fields"),
        ("A report\na,b\n1,2\n", "line 2 has 2 fields, but the first line names 1"),
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
