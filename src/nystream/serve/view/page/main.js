/** The page of a service: what it connects, and what the visitor selects. */

import { ask, storedToken, storeToken } from "./access.js";
import { Demo, KEY as DEMO_KEY } from "./demo.js";
import { Feed } from "./feed.js";
import { Panel } from "./panel.js";
import { ServiceView } from "./service.js";
import { StreamList } from "./streams.js";
import { setUpTheme } from "./theme.js";

const MAX_SELECTED = 4;
const SAID_FOR = 6000; // milliseconds that a message stays
const MAX_EXAMPLE = 700; // characters of a record in the example
const CALM = 1000; // milliseconds between two pictures for those who want less motion
const STATES = {
  connecting: "Connecting…",
  live: "Live",
  waiting: "Disconnected",
  paused: "Paused",
  refused: "No access",
};

const element = (id) => document.getElementById(id);
const calm = matchMedia("(prefers-reduced-motion: reduce)");

/** @type {Map<string, Panel>} */
const panels = new Map();
let model = null;
let identity = "";
let uptime = 0;
let wasLost = false;
let isUntouched = true; // nothing was selected yet
let drawn = 0;
let isDrawing = false;

const service = new ServiceView();
const streams = new StreamList(
  element("streams").tBodies[0],
  { count: element("streams-count"), none: element("none") },
  (key) => (panels.has(key) ? deselect(key) : select(key)),
);

const feed = new Feed({
  status(description) {
    const described = JSON.stringify(description.model);
    if (described !== identity && identity) for (const panel of panels.values()) panel.setModel(description.model);
    if (described !== identity) showExample(description);
    [model, identity] = [description.model, described];
    service.describe(description);
    service.show(description);
    if (wasLost)
      say(
        description.uptime_seconds < uptime
          ? "The service was restarted; the page is connected again."
          : "Connected again.",
      );
    [wasLost, uptime] = [false, description.uptime_seconds];
    element("demo").disabled = false;
    element("sign-out").hidden = storedToken() === null;
    if (element("access").open) element("access").close();
  },
  message(message) {
    if (message.type === "status") {
      uptime = message.uptime_seconds;
      service.show(message);
    } else if (message.type === "streams") list(message);
    else if (message.type === "answers") panels.get(message.key)?.add(message);
    else if (message.type === "closed") panels.get(message.key)?.clear();
    draw();
  },
  state(state, reason) {
    const pill = element("connection");
    if (state === "waiting") wasLost ||= model !== null;
    if (pill.dataset.state !== state) {
      pill.dataset.state = state;
      pill.firstElementChild.textContent = state === "connecting" && wasLost ? "Reconnecting…" : STATES[state];
    }
    document.body.classList.toggle("stale", state === "waiting");
    if (state === "waiting") {
      const isAway = reason instanceof TypeError; // what fetch throws
      const problem = isAway ? "The service cannot be reached" : `The connection was lost: ${reason.message}`;
      complain(`${problem}. The page tries again by itself.`);
    } else if (state === "live") element("alert").hidden = true;
  },
  refused(error) {
    if (error.code !== "unauthorized") return complain(error.message);
    element("alert").hidden = true;
    element("access-error").textContent = storedToken() === null ? "" : "This token is not valid.";
    storeToken(null);
    if (!element("access").open) element("access").showModal();
    return undefined;
  },
});

const demo = new Demo((state, note) => {
  const [shape, text] = {
    running: ["M7 5h4v14H7zM13 5h4v14h-4z", "Pause the demo"],
    stopped: ["M7 5v14l12-7z", "Start a demo stream"],
    ended: ["M7 5v14l12-7z", "Start the demo again"],
  }[state];
  element("demo").querySelector("path").setAttribute("d", shape);
  element("demo").querySelector("span").textContent = text;
  element("demo-note").textContent = note;
});

/** Show how a record is pushed, with one that the model can read. */
async function showExample({ service: { tokens } }) {
  const curl = `curl ${tokens ? '-H "Authorization: Bearer $TOKEN" ' : ""}-d`;
  const url = new URL("v1/streams", document.baseURI).href;
  const { records } = await ask("v1/demo?limit=1").catch(() => ({ records: [] }));
  const record = records.length ? JSON.stringify(records[0]) : "…";
  const shown = record.length > MAX_EXAMPLE ? `${record.slice(0, MAX_EXAMPLE)}…` : record;
  element("example").textContent =
    `${curl} '{"key": "north"}' ${url}\n${curl} '{"record": ${shown}}' \\\n    ${url}/north/records`;
}

function list(message) {
  if (message.search !== element("search").value) return; // an older search
  if (isUntouched) {
    // Begin with the stream that was last used.
    const seen = message.streams.filter(({ in_memory: inMemory }) => inMemory);
    const [latest] = seen.toSorted((one, other) => one.seen_seconds - other.seen_seconds);
    if (latest) select(latest.key);
  }
  streams.show(message, new Set(panels.keys()));
}

function select(key) {
  isUntouched = false;
  if (panels.has(key) || !model) return;
  if (panels.size >= MAX_SELECTED) deselect(panels.keys().next().value);
  const panel = new Panel(element("panel"), key, model, () => deselect(key));
  panels.set(key, panel);
  element("panels").prepend(panel.element);
  panel.draw();
  watch();
}

function deselect(key) {
  panels.get(key)?.element.remove();
  panels.delete(key);
  watch();
}

function watch() {
  element("welcome").hidden = panels.size > 0;
  streams.mark(new Set(panels.keys()));
  feed.watch([...panels.keys()], element("search").value);
}

/** Draw with the next picture of the screen, but rarely for those who want less motion. */
function draw() {
  if (isDrawing) return;
  isDrawing = true;
  const wait = calm.matches ? Math.max(0, CALM - (performance.now() - drawn)) : 0;
  setTimeout(
    () =>
      requestAnimationFrame(() => {
        [isDrawing, drawn] = [false, performance.now()];
        for (const panel of panels.values()) panel.draw();
      }),
    wait,
  );
}

function redraw() {
  service.draw();
  for (const panel of panels.values()) panel.draw();
}

let saying = 0;
function say(text) {
  element("notice").hidden = false;
  element("notice").textContent = text;
  clearTimeout(saying);
  saying = setTimeout(() => (element("notice").hidden = true), SAID_FOR);
}

function complain(text) {
  element("alert").hidden = false;
  element("alert").firstElementChild.textContent = text;
}

element("alert")
  .querySelector("button")
  .addEventListener("click", () => feed.connect());
element("demo").addEventListener("click", () => {
  if (demo.state === "running") return demo.stop();
  demo.start();
  return select(DEMO_KEY);
});
element("speed").addEventListener("change", ({ target }) => (demo.speed = Number(target.value)));
let typing = 0;
element("search").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(watch, 150);
});
element("access").addEventListener("cancel", (event) => event.preventDefault()); // there is nothing behind it
element("access")
  .querySelector("form")
  .addEventListener("submit", (event) => {
    event.preventDefault();
    storeToken(element("token").value.trim());
    element("token").value = "";
    feed.connect();
  });
element("sign-out").addEventListener("click", () => {
  storeToken(null);
  location.reload();
});
addEventListener("resize", redraw);
setUpTheme(element("theme"), redraw);
feed.connect();
