"""The time of a step in the browser, against ONNX Runtime in Python.

    make browser
    python benchmarks/browser.py         # about a minute

One thread each, in one run: Python and headless Chromium take turns, and the medians of all steps are compared. The
first steps of a turn do not count: they find the caches as the other left them. The server isolates the page, which
needs no isolation to run, because its clock is then precise enough for a single step.

Two graphs that compute nothing say where the time goes: one passes states of the same sizes through, the other as many
states of one number each. Their difference is what the bytes of the states cost.
"""

from __future__ import annotations

import base64
import functools
import http.server
import json
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from _common import ROOT, write_results

import nystream as ns
from nystream.models import StreamModel
from nystream.provenance import installed

DIST = ROOT / "examples" / "browser" / "dist"
LIMIT = 4.0
ROUNDS = 400
STEPS, UNCOUNTED = 20, 5  # of a turn
WARM_UP = 3000  # steps before the first turn: a browser compiles hot code late

OPEN = """async ([name, data, card]) => {
    const bytes = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
    globalThis.streams ??= {};
    streams[name] = await nystream.OnnxStream.open(bytes, card);
    globalThis.x = new Float32Array(card.x.shape.at(-1)).fill(0.1);
}"""
TURN = """async ([name, steps]) => {
    const [stream, took] = [streams[name], []];
    for (let i = 0; i < steps; i++) {
        const began = performance.now();
        await stream.push(x);
        took.push((performance.now() - began) / 1000);
    }
    return took;
}"""


class Handler(http.server.SimpleHTTPRequestHandler):
    def end_headers(self) -> None:
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        super().end_headers()

    def log_message(self, *args: Any) -> None:
        pass


@contextmanager
def page() -> Iterator[Any]:
    """The built page in headless Chromium, at rest."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or sys.exit("chromium is missing: apt-get install chromium")
    if not (DIST / "index.html").is_file():
        sys.exit("the page is not built: make browser")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=DIST))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        opened = browser.new_context(reduced_motion="reduce").new_page()  # the sample waits
        opened.goto(f"http://127.0.0.1:{server.server_port}/")
        opened.wait_for_selector("#play:not([disabled])")
        assert opened.evaluate("crossOriginIsolated")
        yield opened
        browser.close()
    server.shutdown()


def gtzan() -> ns.StreamModel:
    """A model of GTZAN's size with random weights."""
    torch.manual_seed(0)
    attention = ns.AttentionConfig("co-fixed-single", embed_dim=192, num_heads=16, window=120, landmarks=4)
    model = ns.StreamModel(ns.ModelConfig(input_dim=128, output_dim=10, attention=attention, ff_dim=192)).eval()
    model.encoder.blocks[0].attention.set_landmarks(torch.randn(16, 4, 12), torch.randn(16, 4, 12))
    return model


def pass_through(card: dict[str, Any]) -> bytes:
    """A graph with the inputs and outputs of a card, which computes nothing."""
    import onnx

    ports = [(card["x"], card["x"]["name"], card["y"]["name"])]
    ports += [(state, state["input"], state["output"]) for state in card["states"]]
    kinds = [onnx.helper.np_dtype_to_tensor_dtype(np.dtype(port["dtype"])) for port, _, _ in ports]

    def values(place: int) -> list[Any]:
        return [
            onnx.helper.make_tensor_value_info(port[place], kind, port[0]["shape"])
            for port, kind in zip(ports, kinds, strict=True)
        ]

    nodes = [onnx.helper.make_node("Identity", [given], [taken]) for _, given, taken in ports]
    graph = onnx.helper.make_graph(nodes, "pass_through", values(1), values(2))
    opset = [onnx.helper.make_opsetid("", 18)]
    return onnx.helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()


def with_small_states(card: dict[str, Any]) -> dict[str, Any]:
    """The card with as many states, of one number each."""
    small = [state | {"shape": [state["shape"][0], *([1] * (len(state["shape"]) - 1))]} for state in card["states"]]
    return card | {"states": small}


def compare(name: str, model: ns.StreamModel, opened: Any) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = ns.export_onnx(model, Path(folder) / "model.onnx", chunk=False)
        card = json.loads(path.with_suffix(".json").read_text("utf-8"))
        stream = ns.OnnxStream(path)
        small = with_small_states(card)
        graphs = {
            "browser": (path.read_bytes(), card),
            "browser, nothing computed": (pass_through(card), card),
            "browser, nothing computed, small states": (pass_through(small), small),
        }
    for contender, (graph, its_card) in graphs.items():
        opened.evaluate(OPEN, [contender, base64.b64encode(graph).decode(), its_card])
    x = np.full(model.config.input_dim, 0.1, np.float32)

    def python(steps: int) -> list[float]:
        took = []
        for _ in range(steps):
            began = time.perf_counter()
            stream.push(x)
            took.append(time.perf_counter() - began)
        return took

    def in_page(contender: str, steps: int) -> list[float]:
        return list(opened.evaluate(TURN, [contender, steps]))

    contenders: dict[str, Callable[[int], list[float]]] = {"onnxruntime": python}
    contenders |= {contender: functools.partial(in_page, contender) for contender in graphs}
    took: dict[str, list[float]] = {contender: [] for contender in contenders}
    for contender in contenders.values():
        contender(WARM_UP)
    for _ in range(ROUNDS):
        for contender, turn in contenders.items():
            took[contender] += turn(UNCOUNTED + STEPS)[UNCOUNTED:]
    microseconds = {contender: median(seconds) * 1e6 for contender, seconds in took.items()}
    ratio = microseconds["browser"] / microseconds["onnxruntime"]
    bytes_cost = microseconds["browser, nothing computed"] - microseconds["browser, nothing computed, small states"]
    print(
        f"{name:<8} onnxruntime {microseconds['onnxruntime']:6.1f} µs, browser {microseconds['browser']:6.1f} µs: "
        f"{ratio:.2f} times"
        + f" (at most {LIMIT:.0f})" * (name == "gtzan")
        + f"; bytes of the states {bytes_cost:.0f} µs"
    )
    attention = model.config.blocks[0]
    return {
        "model": name,
        "n": attention.window,
        "d": attention.embed_dim,
        "heads": attention.num_heads,
        "m": attention.landmarks,
        "state_bytes": stream.nbytes,
        "microseconds": microseconds,
        "ratio": ratio,
    } | ({"limit": LIMIT} if name == "gtzan" else {})


def main() -> None:
    torch.set_num_threads(1)
    packages = json.loads((DIST.parent / "package.json").read_text("utf-8"))["dependencies"]
    with page() as opened:
        browser = opened.context.browser.version
        models = {"gtzan": gtzan(), "demand": StreamModel.from_pretrained("demand")}
        rows = [compare(name, model, opened) for name, model in models.items()]
    versions = {"chromium": browser, "onnxruntime": installed("onnxruntime")} | packages
    print(
        f"written to {write_results('browser', {'versions': versions, 'steps': STEPS * ROUNDS, 'models': rows}).name}"
    )


if __name__ == "__main__":
    main()
