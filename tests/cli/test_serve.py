"""`nystream serve`, as far as it does not serve; tests/serve does."""

import socket

import pytest

from nystream.cli import main


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--host", "0.0.0.0"], "so tokens are needed: give --tokens-file or set NYSTREAM_TOKENS"),
        (["--gaps", "fail"], "--gaps fail: no record after a gap could be read; give fill or skip"),
        (["--store", "nowhere/streams.db"], "store=nowhere/streams.db: its folder does not exist; create it first"),
        (["--tokens-file", "none"], "No such file"),
        (["--tls-cert", "none", "--tls-key", "none"], "tls_cert=none is not a file"),
    ],
)
def test_what_cannot_be_served(capsys, monkeypatch, tmp_path, words, said):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NYSTREAM_TOKENS", raising=False)
    assert main(["serve", "demand", "--port", "0", *words]) == 2
    assert said in capsys.readouterr().err


def test_a_port_in_use(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", "demand", "--port", str(port)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"nystream: error: host=127.0.0.1 port={port} cannot be listened on: Address already in use")
    assert not any(tmp_path.iterdir())  # the store was not touched


def test_a_missing_package_says_what_to_install(capsys, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "uvicorn", None)
    assert main(["serve", "demand"]) == 1
    assert "a service needs uvicorn: pip install 'nystream[serve]'" in capsys.readouterr().err
