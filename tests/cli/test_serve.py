"""`nystream serve`, as far as it does not serve; tests/serve does."""

import os
import re
import socket
import subprocess
import sys
import threading
import urllib.request

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


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_an_address_for_others_is_refused_before_anything_listens(capsys, monkeypatch, tmp_path, host):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NYSTREAM_TOKENS", raising=False)
    assert main(["serve", "demand", "--port", "0", "--host", host]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert f"host={host} can be reached from other machines, so tokens are needed" in err


@pytest.mark.parametrize(
    ("host", "opened"), [("127.0.0.1", "127.0.0.1"), ("localhost", "localhost"), ("0.0.0.0", "127.0.0.1")]
)
def test_the_address_to_open(tmp_path, host, opened):
    env = os.environ | {"NYSTREAM_TOKENS": "a-token-of-the-test"}
    words = [sys.executable, "-m", "nystream", "serve", "demand", "--host", host, "--port", "0", "--backend", "torch"]
    service = subprocess.Popen(words, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    limit = threading.Timer(100, service.kill)
    limit.start()
    try:
        url = re.fullmatch(rf"open (http://{opened}:\d+/)\n", service.stdout.readline())[1]
        with urllib.request.urlopen(url, timeout=60) as page:
            assert b"<html" in page.read()
    finally:
        service.terminate()
        service.communicate()
        limit.cancel()


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
    assert "a service needs uvicorn: pip install -c constraints.txt '.[serve]'" in capsys.readouterr().err
