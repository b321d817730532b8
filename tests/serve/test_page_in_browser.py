"""The page of a running service, driven in headless Chromium."""

import functools
import http.server
import json
import re
import threading
import urllib.request

import pytest
import torch

import nystream as ns
from nystream.data.frames import FramesReader
from nystream.live import Sessions
from nystream.models import StreamModel
from nystream.serve.app import create_app
from nystream.serve.settings import Settings

pytestmark = pytest.mark.deploy

TOKEN = "alice-0123456789abcdef"
DEMO = "nystream-demo"
LOST = "ERR_CONNECTION_REFUSED|WebSocket connection to .* failed"  # what Chromium says while the service is away


@pytest.fixture
def app(tmp_path):
    def app(model=None, name="demand", **options):
        settings = Settings(store=tmp_path / "page.db", **options)
        return create_app(Sessions(model or StreamModel.from_pretrained("demand"), capacity=4), settings, name=name)

    return app


@pytest.fixture
def service(serve, app):
    return serve(app())


def address(server):
    return f"http://127.0.0.1:{server.port}/"


def ask(server, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(f"{address(server)}{path}", data, timeout=10) as reply:
        return json.load(reply)


def until(page, condition, seconds=60):
    """Wait for a condition; the page's policy forbids those that would be evaluated in it."""
    for _ in range(20 * seconds):
        if condition():
            return
        page.wait_for_timeout(50)
    pytest.fail(f"the page shows {page.inner_text('body')[:2000]}")


def is_live(page):
    return page.inner_text("#connection") == "Live"


def records_of(page, key=DEMO):
    """The records of a stream, as the list has them; 0 if it is not there."""
    for row in page.query_selector_all("#streams tbody tr"):
        name, _, records, _ = (cell.inner_text() for cell in row.query_selector_all("th, td"))
        if name.strip() == key:
            return int(records.replace(",", "") or 0)
    return 0


def picture(page):
    return page.evaluate("document.querySelector('.panel canvas').toDataURL()")


def shown(page, text):
    """A value of the legend of the first panel."""
    return dict(
        pair.inner_text().split("\n")[:2] for pair in page.query_selector_all(".panel:first-child .legend > div")
    )[text]


def test_a_demo_stream_with_one_click(browser, visit, service):
    page = visit(browser, address(service))
    until(page, lambda: is_live(page))
    assert page.inner_text("h1") == "nystream demand"
    assert "co-fixed-single · window 72" in page.inner_text("#model-facts")
    assert page.inner_text("#none") == "No streams yet."
    until(page, lambda: '"total"' in page.inner_text("#example"))  # a record that the model reads
    page.select_option("#speed", "50")
    page.click("#demo")
    until(page, lambda: records_of(page) > 40)
    before = picture(page)
    until(page, lambda: records_of(page) > 100)
    assert picture(page) != before
    page.click("#demo")
    page.wait_for_selector("#demo:has-text('Start a demo stream')")
    page.wait_for_timeout(2500)

    stream = ask(service, f"v1/streams/{DEMO}")
    assert records_of(page) == stream["next"] - 1
    record, before = ask(service, f"v1/demo?after={stream['next'] - 3}&limit=2")["records"][::-1]
    (answer,) = ask(service, f"v1/streams/{DEMO}/records", {"number": stream["next"] - 1, "record": record})["results"]
    assert shown(page, "In 1 hour") == f"{answer['answers'][0]['forecast']['total']:,.0f} MW"
    assert shown(page, "Truth") == f"{record['total']:,} MW"
    status = ask(service, "v1/status")
    assert page.inner_text("#resident") == str(status["streams_in_memory"]) == "1"
    assert page.inner_text("#rate-note") == f"{status['records']['answered']:,} so far"
    assert re.fullmatch(r"[\d.]+ (µs|ms)", page.inner_text("#median"))
    assert re.fullmatch(r"[\d.]+ [MG]B", page.inner_text("#memory"))

    page.click("#demo")  # it goes on where it was
    until(page, lambda: records_of(page) > stream["next"] + 5)


def test_streams_of_other_clients(browser, visit, service):
    page = visit(browser, address(service))
    until(page, lambda: is_live(page))
    records = ask(service, "v1/demo?limit=30")["records"]
    with ns.Client(service.url) as client:
        for key in ("north/1", "south <b>"):
            for record in records[:20]:
                client.push(key, record)
        until(page, lambda: records_of(page, "north/1") == records_of(page, "south <b>") == 20)
        page.click(".panel .close")  # of the first stream that there was
        page.fill("#search", "sou")
        until(page, lambda: records_of(page, "north/1") == 0)
        page.click("#streams button")
        page.wait_for_selector(".panel h2:has-text('south <b>')")
        until(page, lambda: page.inner_text(".panel .subtitle").startswith("20 records"))  # those that are kept
        answers = client.push("south <b>", records[20])
    until(page, lambda: page.inner_text(".panel .subtitle").startswith("21 records"))
    assert shown(page, "In 1 hour") == f"{answers[0]['forecast']['total']:,.0f} MW"
    urllib.request.urlopen(
        urllib.request.Request(f"{address(service)}v1/streams/south%20%3Cb%3E", method="DELETE"), timeout=10
    ).close()
    until(page, lambda: page.is_visible(".panel .waiting"))
    page.click(".panel .close")
    page.wait_for_selector("#welcome")


def test_a_restart_is_survived(browser, visit, serve, app):
    server = serve(app())
    page = visit(browser, address(server), expected=LOST)
    until(page, lambda: is_live(page))
    page.select_option("#speed", "50")
    page.click("#demo")
    until(page, lambda: records_of(page) > 20)
    server.stop()
    until(page, lambda: page.inner_text("#connection") in ("Disconnected", "Reconnecting…"))
    assert "The page tries again by itself" in page.inner_text("#alert")
    serve(app(), port=server.port)
    until(page, lambda: is_live(page))
    assert "The service was restarted" in page.inner_text("#notice")
    assert not page.is_visible("#alert")
    taken = ask(server, f"v1/streams/{DEMO}")["next"]
    until(page, lambda: records_of(page) > taken + 20)  # the demo goes on, too


def test_a_token_is_asked_for(browser, visit, serve, app, tmp_path):
    (tmp_path / "tokens").write_text(f"alice:{TOKEN}\nbob:{TOKEN[::-1]}\n")
    server = serve(app(tokens_file=tmp_path / "tokens"))
    with ns.Client(server.url, TOKEN[::-1]) as bob:
        bob.open("of bob")
    page = visit(browser, address(server), expected="401")
    page.wait_for_selector("#access[open]")
    page.fill("#token", "x" * 20)
    page.keyboard.press("Enter")
    page.wait_for_selector("#access-error:has-text('not valid')")
    page.fill("#token", TOKEN)
    page.keyboard.press("Enter")
    until(page, lambda: is_live(page))
    assert not page.is_visible("#access")
    page.click("#demo")  # pushes with the token
    until(page, lambda: records_of(page) > 5)
    assert "of bob" not in page.inner_text("#streams")
    assert TOKEN not in page.url
    page.reload()
    until(page, lambda: is_live(page))  # the tab keeps it
    page.click("#sign-out")
    page.wait_for_selector("#access[open]")


def test_classes_and_plain_numbers(browser, visit, serve, app):
    torch.manual_seed(0)
    attention = ns.AttentionConfig("co-cont-single", embed_dim=8, num_heads=2, window=6, landmarks=3)
    reader = FramesReader(3, ("x", "y", "z"))
    detection = ns.ModelInfo("detection", reader.names, ("walk", "run"), reader=reader.to_dict(), several=True)
    for info, inputs in ((detection, 3), (ns.ModelInfo(), 4)):
        model = ns.StreamModel(ns.ModelConfig(input_dim=inputs, output_dim=2, attention=attention), info).eval()
        server = serve(app(model, name=info.task or "numbers", durability="none"))
        page = visit(browser, address(server))
        until(page, lambda page=page: is_live(page))
        page.click("#demo")
        until(page, lambda page=page: records_of(page) > 12)
        before = picture(page)
        until(page, lambda page=page: records_of(page) > 24)
        assert picture(page) != before
        names = page.inner_text(".panel .legend")
        assert ("run" in names or "walk" in names) if info.task else "output 2" in names
        page.context.close()


def test_phone_keyboard_theme_and_less_motion(browser, visit, service):
    page = visit(
        browser, address(service), viewport={"width": 360, "height": 740}, color_scheme="dark", reduced_motion="reduce"
    )
    until(page, lambda: is_live(page))
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.focus("#theme")
    page.keyboard.press("Enter")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    page.focus("#demo")
    page.keyboard.press("Space")
    until(page, lambda: page.query_selector("#streams button") is not None)
    page.wait_for_selector(".panel")
    page.focus("#search")
    page.keyboard.press("Tab")
    if page.evaluate("document.activeElement.className") == "rows":  # Chromium lets scrolled parts be reached, too
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == DEMO
    page.keyboard.press("Enter")  # deselects it
    page.wait_for_selector("#welcome")
    page.keyboard.press("Enter")
    page.wait_for_selector(".panel")
    until(page, lambda: not page.is_visible(".panel .waiting"))
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_a_page_of_another_site_can_do_nothing(browser, visit, service, tmp_path):
    """Another port of this machine is another origin."""
    (tmp_path / "index.html").write_text("<title>another site</title>")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=tmp_path)) as other:
        thread = threading.Thread(target=other.serve_forever)
        thread.start()
        context = browser.new_context()
        try:
            page = context.new_page()
            page.goto(f"http://127.0.0.1:{other.server_port}/")
            script = """async (host) => {
                const socket = (path) => new Promise((resolve) => {
                    const socket = new WebSocket(`ws://${host}${path}`, ["nystream.v1.json"]);
                    socket.onopen = () => resolve("open");
                    socket.onerror = () => resolve("refused");
                });
                const body = '{"key": "k"}';
                const push = (mode) => fetch(`http://${host}/v1/streams`, { method: "POST", body, mode })
                    .then((reply) => reply.type, () => "refused");
                return Promise.all([socket("/v1/live"), socket("/v1/stream"), push("cors"), push("no-cors")]);
            }"""
            found = page.evaluate(script, f"127.0.0.1:{service.port}")
        finally:
            context.close()
            other.shutdown()
            thread.join()
    assert found == ["refused", "refused", "refused", "opaque"]  # the last was sent, and refused by the service
    assert ask(service, "v1/streams") == {"streams": []}
