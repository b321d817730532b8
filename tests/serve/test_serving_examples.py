"""The examples at the top of docs/serving.md, against the service that its first command starts."""

import dataclasses
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

import nystream as ns
from nystream.cli import _parsed
from nystream.live import Sessions
from nystream.serve.app import create_app
from nystream.serve.settings import Settings

PAGE = (Path(__file__).parents[2] / "docs" / "serving.md").read_text("utf-8")
COMMAND, CURL = re.findall(r"```sh\n(.*?)```", PAGE, re.S)[:2]
PYTHON = re.search(r"```py\n(.*?)```", PAGE, re.S)[1]


@pytest.fixture
def address(serve, tmp_path):
    """Where the service is that the page starts, but for its port and store."""
    words = shlex.split(COMMAND.splitlines()[-1], comments=True)
    assert words[:2] == ["nystream", "serve"]
    command = _parsed("serve", words[2:])
    options = {field.name: getattr(command, field.name) for field in dataclasses.fields(Settings)}
    settings = Settings(**options | {"store": tmp_path / "streams.db", "port": 0})
    sessions = Sessions(ns.StreamModel.from_pretrained(command.model), command.missing, command.gaps, "torch")
    return f"localhost:{serve(create_app(sessions, settings)).port}"


def test_python(address, monkeypatch):
    made, connect = [], ns.Client

    def client(url):
        made.append(connect(url.replace("localhost:8000", address), timeout=30))
        return made[-1]

    monkeypatch.setattr(ns, "Client", client)
    names = {}
    try:
        exec(compile(PYTHON, "serving.md", "exec"), names)
        assert set(names["answers"][0]["forecast"]) == {"total"}
        with client("ws://localhost:8000") as another:
            assert [another.open(key) for key in ("north", "south")] == [3, 2]
    finally:
        made[0].disconnect()


def test_curl(address):
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    for command in CURL.replace("\\\n", " ").splitlines():
        words = shlex.split(command.replace("localhost:8000", address))
        done = subprocess.run([*words, "--silent", "--show-error"], capture_output=True, text=True, check=True)
        reply = json.loads(done.stdout)
    assert set(reply["results"][0]["answers"][0]["forecast"]) == {"total"}
