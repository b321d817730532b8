"""The files of examples/container.

There is no container here: the commands of the Dockerfile run in a folder that stands for the root of the image, with
fresh virtual environments in place of its Python.
"""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

import nystream as ns
from nystream.cli import _parsed

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "examples" / "container"
IMAGE_PATH = re.compile(r"(?<![\w.*/-])/(?:opt|data|model)\b")  # absolute paths of the image that commands name
TOKEN = "a-token-of-the-container-test"
START_SECONDS = 120  # the first start compiles the kernels


def instructions(text):
    """Return pairs of an instruction and its arguments, with continued lines joined."""
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    joined = re.sub(r"\\\n\s*", " ", lines)
    return [tuple(line.split(maxsplit=1)) for line in joined.splitlines() if line.strip()]


def stages(text):
    """Return the instructions of each stage."""
    found = []
    for name, words in instructions(text):
        if name == "FROM":
            found.append([])
        else:
            found[-1].append((name, words))
    return found


DOCKERFILE = (FOLDER / "Dockerfile").read_text("utf-8")
BUILD, FINAL = stages(DOCKERFILE)
LAST = dict(FINAL)  # the last instruction of each name
COMPOSE = yaml.safe_load((FOLDER / "compose.yaml").read_text("utf-8"))
SERVING = (ROOT / "docs" / "serving.md").read_text("utf-8")


def served(words):
    """Parse what follows the image's entry point, as the command would."""
    program, command, *fixed = json.loads(LAST["ENTRYPOINT"])
    assert (program, command) == ("nystream", "serve")
    return _parsed("serve", [*fixed, *words])


def with_variables(words, **variables):
    """Replace variables as Compose does."""
    values = r"\$\{(\w+)(?::-([^}]*)|:\?[^}]*)?\}"
    return [re.sub(values, lambda match: variables.get(match[1], match[2]), word) for word in words]


@pytest.mark.parametrize(("variables", "store"), [({}, "/data/streams.db"), ({"STORE": "redis://redis"}, None)])
def test_the_command_of_compose(variables, store):
    service = COMPOSE["services"]["nystream"]
    options = served(with_variables(service["command"], **variables))
    assert (options.model, options.host, options.port) == ("/model", "0.0.0.0", 8000)
    assert str(options.store) == (store or variables["STORE"])
    assert options.tokens_file == Path("/run/secrets", service["secrets"][0])
    assert service["ports"] == ["127.0.0.1:8000:8000"]
    assert (FOLDER / service["build"]["context"]).resolve() == ROOT
    assert (ROOT / service["build"]["dockerfile"]).exists()


def test_what_compose_refers_to_is_there():
    services = COMPOSE["services"]
    for name, service in services.items():
        named = [volume.split(":")[0] for volume in service["volumes"] if volume[0].isalpha()]
        assert named, name
        assert set(named) <= set(COMPOSE["volumes"])
        assert set(service.get("secrets", ())) <= set(COMPOSE["secrets"])
        assert set(service.get("depends_on", ())) <= set(services)
    assert services["redis"]["profiles"] == services["redis"]["image"].split(":")[:1]
    assert services["nystream"]["depends_on"]["redis"]["required"] is False


def test_the_commands_of_the_documentation():
    runs = re.findall(r"^docker run (.*?)$", re.sub(r"\\\n\s*", " ", SERVING), re.M)
    assert runs
    for words in map(shlex.split, runs):
        after_image = len(words) - words[::-1].index("nystream")  # the container may have the same name
        options = served(words[after_image:] or json.loads(LAST["CMD"]))
        assert options.model in ("/model", "demand")
    (build,) = re.findall(r"^docker build (.*)$", SERVING, re.M)
    assert f"-f {(FOLDER / 'Dockerfile').relative_to(ROOT)} " in build


def test_the_manifests_of_the_documentation():
    manifests = [one for text in re.findall(r"```yaml\n(.*?)```", SERVING, re.S) for one in yaml.safe_load_all(text)]
    kinds = {one["kind"]: one["spec"] for one in manifests}
    pod = kinds["StatefulSet"]["template"]["spec"]
    (container,) = pod["containers"]
    options = served(container["args"])
    assert options.model == "/model"
    assert options.store == "/data/streams.db"
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports[container["readinessProbe"]["httpGet"]["port"]] == options.port
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    claims = {claim["metadata"]["name"] for claim in kinds["StatefulSet"]["volumeClaimTemplates"]}
    assert set(mounted) == claims | {volume["name"] for volume in pod["volumes"]}
    assert str(options.tokens_file.parent) in mounted.values()
    assert LAST["VOLUME"] in mounted.values()
    assert pod["securityContext"]["fsGroup"] == int(LAST["USER"])
    labels = kinds["StatefulSet"]["template"]["metadata"]["labels"]
    assert kinds["Service"]["selector"] == kinds["StatefulSet"]["selector"]["matchLabels"] == labels


class Image:
    """A folder that stands for the root of the image.

    Args:
        root: The folder.
        run: Runs a command outside the checkout.
    """

    def __init__(self, root, run):
        self.root, self._run = root, run
        run(sys.executable, "-m", "venv", str(root / "usr"), cwd=root)  # in place of the image's Python
        self.environ = {"PATH": f"{root / 'usr' / 'bin'}:{os.environ['PATH']}", "HOME": str(root)}

    def path(self, name):
        return self.root / name.lstrip("/")

    def inside(self, text):
        """Replace the absolute paths of the image by those of the folder."""
        return IMAGE_PATH.sub(lambda match: f"{self.root}{match[0]}", text)

    def build(self, stage):
        """Carry out the instructions of a stage that need no container."""
        where = self.root
        for name, words in stage:
            if name == "WORKDIR":
                where = self.path(words)
                where.mkdir(exist_ok=True)
            elif name == "COPY":
                *sources, target = words.split()
                for source in (ROOT / source for source in sources):
                    if source.is_dir():
                        shutil.copytree(source, where / target)
                    else:
                        shutil.copy(source, where / target)
            elif name == "RUN":
                command = self.inside(re.sub(r"--mount=\S+\s+", "", words))
                # The image compiles what it installs; here that would take as long as the rest.
                self._run("sh", "-c", command, cwd=where, PIP_NO_COMPILE="1", **self.environ)
            else:
                assert name == "ARG"  # where pip finds torch: here, where it found that of this environment


@pytest.fixture(scope="module")
def image(tmp_path_factory, run_outside):
    image = Image(tmp_path_factory.mktemp("image"), run_outside)
    image.build(BUILD)
    shutil.rmtree(image.path("/checkout"))
    image.path("/data").mkdir()
    ((path, value),) = re.findall(r"(\w*CACHE\w*)=(\S+)", LAST["ENV"])
    image.environ |= {path: image.inside(value), "NYSTREAM_TOKENS": f"me:{TOKEN}"}
    image.environ["PATH"] = f"{image.inside(re.search(r'PATH=([^:]+):', LAST['ENV'])[1])}:{os.environ['PATH']}"
    return image


class Container:
    """The image's command, with another port: that of the image may be in use."""

    def __init__(self, image, environ):
        self._environ, self._data = environ | image.environ, image.path(LAST["WORKDIR"])
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        words = [image.inside(word) for word in json.loads(LAST["ENTRYPOINT"]) + json.loads(LAST["CMD"])]
        words += ["--port", str(self.port)]
        self._process = subprocess.Popen(words, cwd=self._data, env=self._environ, stderr=subprocess.PIPE)

    def is_healthy(self):
        command = json.loads(LAST["HEALTHCHECK"].partition(" CMD ")[2])
        words = [word.replace(LAST["EXPOSE"], str(self.port)) for word in command]
        return subprocess.run(words, cwd=self._data, env=self._environ, capture_output=True).returncode == 0

    def wait_until_healthy(self):
        end = time.monotonic() + START_SECONDS
        while not self.is_healthy():
            assert self._process.poll() is None, self._process.stderr.read().decode()
            assert time.monotonic() < end
            time.sleep(0.5)  # a check is a process, which takes time from the service

    def stop(self, number=signal.SIGTERM):
        self._process.send_signal(number)
        _, err = self._process.communicate(timeout=30)
        return self._process.returncode, err.decode()


@pytest.fixture
def start(image, outside_environ):
    started = []

    def start():
        started.append(Container(image, outside_environ))
        return started[-1]

    yield start
    for one in started:
        if one._process.poll() is None:
            one.stop(signal.SIGKILL)


@pytest.mark.deploy
def test_the_image_serves(image, start, run_outside):
    attention = ns.AttentionConfig("co-cont-single", embed_dim=8, num_heads=2, window=6, landmarks=3)
    config = ns.ModelConfig(input_dim=2, output_dim=1, attention=attention)
    ns.StreamModel(config, ns.ModelInfo(inputs=("a", "b"), labels=("sum",))).save_pretrained(image.path("/model"))
    code = "import importlib.util as util; print(*(util.find_spec(name).origin for name in ('nystream', 'torch')))"
    found = run_outside("python", "-c", code, cwd=image.path("/data"), **image.environ).split()
    assert all(Path(path).is_relative_to(image.path("/opt/nystream")) for path in found)

    container = start()
    assert not container.is_healthy()  # it cannot have started yet
    container.wait_until_healthy()
    with ns.Client(f"ws://127.0.0.1:{container.port}", TOKEN) as client:
        assert [client.push("north", [1, number])[0]["token"] for number in (1, 2)] == [1, 2]
    returned, err = container.stop()
    assert returned == 143
    assert '"event": "all streams are written"' in err
    assert "Traceback" not in err
    assert {path.name for path in image.path("/data").iterdir()} >= {"streams.db", "kernels"}

    container = start()
    container.wait_until_healthy()
    with ns.Client(f"ws://127.0.0.1:{container.port}", TOKEN) as client:
        assert client.open("north") == 3
        assert client.push("north", [1, 3])[0]["token"] == 3
    assert container.stop()[0] == 143


def test_the_image_is_not_run_by_root():
    assert int(LAST["USER"]) > 0
    (command,) = [words for name, words in FINAL if name == "RUN"]
    assert f"--uid {LAST['USER']} " in command
    assert command.endswith(f" {LAST['VOLUME']}")
