"""The page in examples/browser, built, served from this machine and driven in headless Chromium."""

import base64
import functools
import http.server
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import wave
from itertools import islice
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

import nystream as ns
from nystream.data.frames import FramesReader
from nystream.data.sample import csv_lines
from nystream.data.sounds import SoundReader
from nystream.live import Session
from nystream.live.sources.lines import SAMPLE_SHARE
from nystream.models import StreamModel

pytestmark = pytest.mark.deploy

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "browser"
TOKENS = 400  # of the sample: more than five windows
TOLERANCE = 1e-4


def load_cases():
    spec = importlib.util.spec_from_file_location("browser_cases", Path(__file__).with_name("browser_cases.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


cases = load_cases()


@pytest.fixture(scope="module")
def example(tmp_path_factory, lacking):
    """A copy of the example with its packages installed."""
    if shutil.which("npm") is None:
        lacking("the page needs npm: install Node.js 20.19 or newer")
    folder = tmp_path_factory.mktemp("browser") / "example"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("node_modules", "dist", "public"))
    command = ["npm", "ci", "--no-audit", "--no-fund", "--prefer-offline"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    if done.returncode:
        lacking(f"npm ci cannot install the packages of the page; is a registry within reach?\n{done.stderr[-2000:]}")
    return folder


@pytest.fixture(scope="module")
def address(example):
    """The built page, on a server of this machine."""
    for command in ([sys.executable, "prepare.py"], ["npm", "run", "build"]):
        done = subprocess.run(command, cwd=example, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    handler = functools.partial(Handler, directory=example)  # the page works in any folder of a server
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/dist/"
        server.shutdown()
        thread.join()


@pytest.fixture
def open_page(visit, address):
    """Opens the page in a browser."""

    def open_page(browser, **options):
        page = visit(browser, address, accept_downloads=True, **options)
        until(page, lambda: tokens_of(page) > 0)
        return page

    return open_page


def tokens_of(page):
    text = page.inner_text("#tokens").replace(",", "")
    return int(text) if text.isdigit() else -1


def until(page, condition, seconds=60):
    """Wait for a condition; the page's policy forbids those that would be evaluated in it."""
    for _ in range(20 * seconds):
        if condition():
            return
        page.wait_for_timeout(50)
    pytest.fail(f"the page shows {page.inner_text('main')[:2000]}")


def saved(page):
    """The answers that the page offers to save, all so far."""
    with page.expect_download() as download:
        page.click("#save")
    return [json.loads(line) for line in Path(download.value.path()).read_text("utf-8").splitlines()]


def play_to_the_end(page):
    page.select_option("#speed", "Infinity")
    page.wait_for_selector("#notes:has-text('The end of the file')", timeout=60_000)
    return saved(page)


def drop(page, paths):
    """Drop files on the page, as from a file manager."""
    files = [[path.name, base64.b64encode(path.read_bytes()).decode()] for path in paths]
    script = """(files) => {
        const dataTransfer = new DataTransfer();
        for (const [name, data] of files) {
            dataTransfer.items.add(new File([Uint8Array.from(atob(data), (c) => c.charCodeAt(0))], name));
        }
        document.body.dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true }));
    }"""
    page.evaluate(script, files)


def message_of(page):
    page.wait_for_selector("#alert:not([hidden])")
    return page.inner_text("#alert p")


def answers_of(model, records):
    """Python's answers, as `nystream stream` prints them; records that cannot be read are skipped."""
    session, answers = Session(model, backend="torch"), []
    for record in records:
        try:
            answers += [answer.to_dict() for answer in session.take(record)]
        except ValueError:
            continue
    return answers


def numbers_of(value):
    """All numbers in a nested answer."""
    if isinstance(value, dict):
        value = list(value.values())
    return [number for part in value for number in numbers_of(part)] if isinstance(value, list) else [value]


def assert_same(page_answers, answers, scale):
    assert len(page_answers) == len(answers)
    for got, expected in zip(page_answers, answers, strict=True):
        for key in ("token", "time", "for", "ahead", "filled", "gap"):
            assert got.get(key) == expected.get(key)
        kind = next(kind for kind in ("forecast", "probabilities", "output") if kind in expected)
        np.testing.assert_allclose(numbers_of(got[kind]), numbers_of(expected[kind]), rtol=0, atol=TOLERANCE * scale)


def build(info, input_dim, output_dim, variant="co-fixed-single", **options):
    """A model with random weights, whose answers depend on its inputs."""
    torch.manual_seed(0)
    attention = ns.AttentionConfig(variant, embed_dim=16, num_heads=2, window=12, landmarks=3)
    config = ns.ModelConfig(input_dim=input_dim, output_dim=output_dim, attention=attention, ff_dim=24, **options)
    model = ns.StreamModel(config, info).eval().requires_grad_(False)
    for block in model.encoder.blocks:
        if block.attention.config.fixed:
            block.attention.set_landmarks(torch.randn(2, 3, 8), torch.randn(2, 3, 8))
    return model


def write_csv(path, records):
    path.write_text(
        "\n".join([",".join(records[0]), *(",".join(record.values()) for record in records)]) + "\n", "utf-8"
    )
    return path


@pytest.fixture(scope="module")
def forecaster():
    """Forecasts three quantiles of two horizons, by a reader with categories, lags, gaps and a calendar."""
    reader = cases.HOURLY
    info = ns.ModelInfo(
        "forecasting", reader.names, ("load",), ("MW",), horizon=6, seconds=3600.0, reader=reader.to_dict(),
        horizons=(1, 6), quantiles=(0.1, 0.5, 0.9), minimum=9900.0,
    )  # fmt: skip
    model = build(info, len(reader.names), 6, variant="co-cont-single", layers=2, stack="deep")
    centre = torch.zeros(len(reader.names))
    centre[0] = 1e4 - 20
    model.input_scaler.set(centre, torch.tensor([100.0, 5.0] + [1.0] * 3 + [100.0] * 3 + [1.0] * 6))
    model.output_scaler.set(torch.zeros(6), torch.full((6,), 100.0))
    return model


@pytest.fixture(scope="module")
def forecaster_files(forecaster, tmp_path_factory):
    folder = tmp_path_factory.mktemp("forecaster")
    ns.export_onnx(forecaster, folder / "model.onnx")
    return folder / "model.onnx", folder / "model.json", write_csv(folder / "rows.csv", cases._hours(200))


@pytest.fixture(scope="module")
def listener():
    """Tells classes of sound apart, at random."""
    reader = SoundReader()
    info = ns.ModelInfo(
        "classification", reader.names, ("speech", "music", "noise"), seconds=0.1, reader=reader.to_dict()
    )
    model = build(info, 128, 3)
    model.input_scaler.set(torch.full((128,), -3.0), torch.full((128,), 2.0))
    return model


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """Two seconds of sound, and the file they are in."""
    path = tmp_path_factory.mktemp("sound") / "recording.wav"
    samples = (np.concatenate(cases._wave()) * 32_767).astype("<i2")
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes(samples.tobytes())
    return samples.astype(np.float32) / 32_768, path


def test_reader_and_files_in_node(example, tmp_path):
    path = tmp_path / "cases.json"
    path.write_text(json.dumps(cases.all_cases(tmp_path), allow_nan=False), "utf-8")
    environment = os.environ | {"NYSTREAM_CASES": str(path)}
    done = subprocess.run(["npm", "test"], cwd=example, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-6000:]
    assert re.search(r"# skipped 0|skipped 0", done.stdout)


def test_sample(browser, open_page):
    page = open_page(browser)
    got = play_to_the_end(page)
    assert len(got) == tokens_of(page) >= TOKENS
    header, *lines = islice(csv_lines(SAMPLE_SHARE), len(got) + 1)
    records = [dict(zip(header.split(","), line.split(","), strict=True)) for line in lines]
    truth = np.array([float(record["total"]) for record in records])
    assert_same(got, answers_of(StreamModel.from_pretrained("demand"), records), np.abs(np.diff(truth)).mean())

    forecast = np.array([answer["forecast"]["total"] for answer in got])
    assert page.inner_text("#error") == f"{np.abs(forecast[:-1] - truth[1:]).mean():,.3g} MW".replace("e+02", "")
    assert re.fullmatch(r"[\d.]+ (µs|ms)", page.inner_text("#median"))
    assert re.fullmatch(r"p99 [\d.]+ (µs|ms)", page.inner_text("#p99"))
    assert page.inner_text("#state-note").startswith("23,048 bytes")

    page.click("#restart")
    until(page, lambda: 0 < tokens_of(page) < len(got))


def test_own_forecaster(browser, open_page, forecaster, forecaster_files):
    page = open_page(browser)
    page.set_input_files("#files", forecaster_files)
    page.wait_for_selector("#title:has-text('rows.csv')")
    got = play_to_the_end(page)
    rows = cases._hours(200)
    assert_same(got, answers_of(forecaster, rows), 100.0)
    assert "skipped" in page.inner_text("#notes")
    page.select_option("#horizon", label="6 hours")
    assert "MW" in page.inner_text("#error")
    page.click("#sample")
    page.wait_for_selector("#title:has-text('Electricity')")


def test_model_and_rows_dropped_one_after_the_other(browser, open_page, tmp_path):
    reader = FramesReader(3, ("a", "b", "c"))
    info = ns.ModelInfo("detection", reader.names, ("walk", "run", "rest"), reader=reader.to_dict(), several=True)
    model = build(info, 3, 3)
    ns.export_onnx(model, tmp_path / "detector.onnx")
    rng = np.random.default_rng(0)
    rows = [{name: f"{value:.4f}" for name, value in zip("bca", row, strict=True)} for row in rng.normal(size=(90, 3))]
    page = open_page(browser)
    drop(page, [tmp_path / "detector.onnx"])  # the card is inside, too
    page.wait_for_selector("#loaded:has-text('is ready')")
    assert "'a', 'b', 'c'" in page.inner_text("#loaded")
    drop(page, [write_csv(tmp_path / "frames.csv", rows)])
    page.wait_for_selector("#title:has-text('frames.csv')")
    got = play_to_the_end(page)
    assert_same(got, answers_of(model, rows), 1.0)


def test_plain_numbers(browser, open_page, tmp_path):
    model = build(ns.ModelInfo(), 4, 2)
    ns.export_onnx(model, tmp_path / "model.onnx", chunk=False)
    rows = np.random.default_rng(0).normal(size=(60, 4)).round(4)
    (tmp_path / "numbers.csv").write_text("\n".join(";".join(map(str, row)) for row in rows.tolist()), "utf-8")
    page = open_page(browser)
    page.set_input_files("#files", [tmp_path / "model.onnx", tmp_path / "numbers.csv"])
    page.wait_for_selector("#title:has-text('numbers.csv')")
    got = play_to_the_end(page)
    expected = answers_of(model, list(rows))
    values = [list(answer["output"].values()) for answer in got]
    np.testing.assert_allclose(values, [answer["output"] for answer in expected], rtol=0, atol=TOLERANCE)


def test_bad_files_change_nothing(browser, open_page, forecaster, forecaster_files, tmp_path):
    model_file, card_file, _ = forecaster_files

    def file(name, content):
        path = tmp_path / str(len(list(tmp_path.iterdir()))) / name
        path.parent.mkdir()
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    graph, card = onnx.load(model_file), json.loads(card_file.read_text("utf-8"))

    def with_card(text):
        if text is None:
            del graph.metadata_props[:]
        else:
            onnx.helper.set_model_props(graph, {"nystream": text})
        return graph.SerializeToString()

    other = card | {"sha256": "0" * 64, "window": 99}
    zone = json.loads(json.dumps(card))
    zone["info"]["reader"]["timezone"] = "Europe/Berlin"
    bad = [
        ([file("model.onnx", "time,load\n1,2\n")], "model.onnx is not an ONNX file"),
        ([file("model.onnx", model_file.read_bytes()[:9000])], "model.onnx is truncated"),
        ([file("model.onnx", with_card(None))], "model.onnx has no card"),
        ([file("model.onnx", with_card(json.dumps(card | {"version": 7})))], "newer nystream: it has version 7"),
        ([model_file, file("model.json", json.dumps(other))], "model.json is the card of another model"),
        ([model_file, file("model.json", json.dumps(card | {"window": 99}))], "was edited after the export"),
        ([model_file, file("model.json", card_file.read_bytes()[:500])], "model.json is not JSON"),
        ([card_file], "drop its model.onnx"),
        ([model_file.with_name("model.chunk.onnx")], "is the chunk graph"),
        ([file("model.onnx", with_card(json.dumps(zone)))], "reader.timezone='Europe/Berlin'"),
        ([model_file, file("rows.csv", "a,b\n1,2\n")], "None of 'a', 'b' is a column of the model"),
        ([file("rows.csv", "time,SOCO\n2024-01-01,2\n")], "are missing from the columns"),
        ([file("rows.csv", "")], "rows.csv is empty"),
        ([file("photo.png", b"\x89PNG")], "drop an exported model"),
    ]
    wrong = json.loads(json.dumps(card))
    wrong["states"][0]["input"] = "state_other"
    bad.append(([file("model.onnx", with_card(json.dumps(wrong)))], "model.onnx cannot be run"))
    page = open_page(browser)
    for paths, message in bad:
        page.set_input_files("#files", paths)
        assert message in message_of(page)
        page.click("#alert button")
    assert page.inner_text("#title").startswith("Electricity")
    before = tokens_of(page)
    until(page, lambda: tokens_of(page) > before)


def test_recording(browser, open_page, listener, recording, tmp_path):
    samples, path = recording
    ns.export_onnx(listener, tmp_path / "model.onnx")
    page = open_page(browser)
    drop(page, [tmp_path / "model.onnx", tmp_path / "model.json", path])
    page.wait_for_selector("#title:has-text('recording.wav')")
    got = play_to_the_end(page)
    expected = answers_of(listener, [samples])
    assert len(expected) > 12  # past the window
    assert_same(got, expected, 1.0)


def test_microphone(chromium, open_page, listener, recording, tmp_path):
    ns.export_onnx(listener, tmp_path / "model.onnx")
    browser = chromium(
        "--use-fake-device-for-media-stream",
        "--use-fake-ui-for-media-stream",
        f"--use-file-for-fake-audio-capture={recording[1]}",
    )
    try:
        page = open_page(browser)
        page.set_input_files("#files", tmp_path / "model.onnx")
        page.click("#listen")
        page.wait_for_selector("#title:has-text('The microphone')")
        until(page, lambda: tokens_of(page) >= 25)
        page.click("#play")
        page.wait_for_selector("#notes:has-text('Stopped')")
        got = saved(page)
        shares = np.array([list(answer["probabilities"].values()) for answer in got])
        assert len(got) >= 25
        np.testing.assert_allclose(shares.sum(1), 1, atol=1e-6)
        assert np.ptp(shares, 0).max() > 1e-3  # it hears something
        assert re.fullmatch(r"[\d.]+ (µs|ms)", page.inner_text("#median"))
    finally:
        browser.close()


def test_phone_keyboard_and_theme(browser, open_page):
    page = open_page(browser, viewport={"width": 360, "height": 740}, color_scheme="dark")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.focus("#theme")
    page.keyboard.press("Enter")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "play"
    page.keyboard.press("Space")
    page.wait_for_selector("#play:has-text('Play')")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Space")
    page.wait_for_selector("#play:has-text('Pause')")


def test_reduced_motion_waits_for_the_visitor(browser, address):
    context = browser.new_context(reduced_motion="reduce")
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector("#play:not([disabled]):has-text('Play')", timeout=60_000)
    assert page.inner_text("#tokens") == "0"
    context.close()
