"""`nystream serve`, as far as it does not serve; tests/serve does."""

import pytest

from nystream.cli import main


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--host", "0.0.0.0"], "so tokens are needed: give --tokens-file or set NYSTREAM_TOKENS"),
        (["--gaps", "fail"], "--gaps fail: no record after a gap could be read; give fill or skip"),
        (["--store", "nowhere/streams.db"], "store=nowhere/streams.db: its folder does not exist; create it first"),
        (["--tokens-file", "none"], "No such file"),
    ],
)
def test_what_cannot_be_served(capsys, monkeypatch, tmp_path, words, said):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NYSTREAM_TOKENS", raising=False)
    assert main(["serve", "demand", *words]) == 2
    assert said in capsys.readouterr().err


def test_a_missing_package_says_what_to_install(capsys, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "uvicorn", None)
    assert main(["serve", "demand"]) == 1
    assert "a service needs uvicorn: pip install 'nystream[serve]'" in capsys.readouterr().err
