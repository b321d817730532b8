/** The page: it follows a stream, and changes to another model or file only when that one is known to run. */

import { parseCsv, recordsOf } from "./csv.js";
import { setUpDrop } from "./drop.js";
import { History } from "./history.js";
import { openModel } from "./model.js";
import { $, Panel } from "./panel.js";
import { Player } from "./player.js";
import { RecordError, listed } from "./reader/fields.js";
import { withAhead } from "./reader/known.js";
import { aheadName } from "./reader/settings.js";
import { Session } from "./session.js";
import { decode, listen } from "./sound.js";
import { OnnxStream } from "./stream.js";
import { setUpTheme } from "./theme.js";
import { modelText } from "./words.js";

const SAMPLE = { model: ["demand/model.onnx", "demand/model.json"], rows: "demand/sample.csv" };
const MAX_WAITING = 50; // chunks of sound: five seconds
const MODELS = /\.(onnx|json)$/i;
const TABLES = /\.(csv|tsv|txt)$/i;
const SOUNDS = /\.(wav|flac|ogg|mp3|m4a|webm|aif|aiff)$/i;

const panel = new Panel();
const player = new Player(take, () => panel.show());

/** @type {import("./model.js").Model|null} The one that runs. */
let model = null;
/** @type {import("./model.js").Model|null} One that was opened, and waits for a file to follow. */
let waiting = null;
/** @type {History|null} */
let history = null;
/** @type {import("./panel.js").Source|null} */
let source = null;
let stopListening = () => {};

/** Take in what the visitor dropped or picked: a model, a file of records, or both. */
async function open(files) {
  panel.dismiss();
  const shallow = files.filter(({ webkitRelativePath: path }) => !path || path.split("/").length <= 2);
  const [models, tables, sounds] = [MODELS, TABLES, SOUNDS].map((pattern) =>
    shallow.filter(({ name }) => pattern.test(name)),
  );
  if (!models.length && !tables.length && !sounds.length) {
    throw new Error(
      `${listed(
        files.map(({ name }) => name),
        3,
      )}: drop an exported model (model.onnx), a CSV, or both.`,
    );
  }
  if (tables.length > 1)
    throw new Error(`${listed(tables.map(({ name }) => name))}: this page follows one CSV at a time.`);
  const next = models.length ? await openModel(models) : (waiting ?? model);
  if (!next) throw new Error("There is no model yet: drop model.onnx, too.");
  try {
    if (tables.length) await followTable(next, tables[0]);
    else if (sounds.length) await followSound(next, sounds[0]);
    else await wait(next);
  } catch (error) {
    if (models.length) await next.stream.close();
    throw error;
  }
}

/** Keep a model until there is something for it to follow. */
async function wait(next) {
  await waiting?.stream.close();
  waiting = next;
  panel.announce(next);
}

async function followTable(next, file, titles = {}) {
  if (next.reader.kind === "audio") next.reader.check();
  const table = parseCsv(await file.text(), file.name);
  const names = seriesIn(table, next.reader.settings?.series);
  await follow(next, { title: file.name, subtitle: modelText(next), table, names, series: names[0], ...titles });
}

async function followSound(next, file) {
  if (next.reader.kind !== "audio") throw new Error(`${file.name} is audio, but the model was not trained on audio.`);
  await follow(next, { title: file.name, subtitle: modelText(next), chunks: await decode(file, next.reader.rate) });
}

async function followMicrophone() {
  panel.dismiss();
  const next = waiting ?? model;
  const chunks = [];
  const microphone = { title: "The microphone", subtitle: modelText(next), microphone: true, listening: true };
  let busy = false;
  const stop = await listen(next.reader.rate, async (samples) => {
    if (source !== microphone) return;
    if (chunks.length < MAX_WAITING) chunks.push(samples);
    else history.skip("the microphone is faster than the model");
    if (busy) return;
    busy = true;
    while (chunks.length && source === microphone) await take(chunks.shift());
    busy = false;
    panel.show();
  });
  await follow(next, microphone);
  stopListening = () => {
    stop();
    microphone.listening = false;
    stopListening = () => {};
  };
}

/** Follow a source with a model from its first record; the old one runs until all of this is known to work. */
async function follow(next, wanted) {
  const records = wanted.chunks ?? (wanted.table ? tableRecords(next.reader, wanted) : []);
  await player.load(records);
  stopListening();
  const before = new Set([model, waiting]);
  [model, waiting, source] = [next, null, wanted];
  begin();
  for (const old of before) if (old !== next) await old?.stream.close();
  if (records.length && !matchMedia("(prefers-reduced-motion: reduce)").matches) player.play();
}

/** Begin the stream again, from its first record. */
function begin() {
  model.stream.reset();
  model.reader.reset();
  player.position = 0;
  history = new History(new Session(model.stream, model.card, model.reader));
  panel.follow({ model, history, source, player }, (series) => follow(model, { ...source, series }).catch(complain));
}

/** The records of a table as its reader takes them. Throws if all would be rejected. */
function tableRecords(reader, { table, series }) {
  let [records, { columns }] = [recordsOf(table), table];
  const { settings } = reader;
  if (series !== undefined) records = records.filter((record) => record[settings.series] === series);
  // A table has the future in later rows; a live record has it in a field of its own.
  const ahead = settings?.known.map(aheadName) ?? [];
  if (
    columns &&
    settings?.known.every((name) => columns.includes(name)) &&
    !ahead.every((name) => columns.includes(name))
  ) {
    records = withAhead(records, reader);
    columns = [...columns, ...ahead];
  }
  reader.check(columns, table.width);
  return reader.ordered ? table.rows : records;
}

/** The names of the series in a table, if the model reads several. */
function seriesIn({ columns, rows }, name) {
  const place = columns && name ? columns.indexOf(name) : -1;
  return place < 0 ? [] : [...new Set(rows.map((cells) => cells[place]))];
}

/** Take in a record; one that cannot be read is counted and skipped. */
async function take(record, place) {
  const [current, where] = [history, place === undefined ? "" : `record ${place + 1}: `];
  try {
    const answers = await current.session.take(record);
    for (const answer of answers) current.add(answer);
    if (!answers.length && current.session.reader.note) current.skip(where + current.session.reader.note);
  } catch (error) {
    if (error instanceof RecordError) current.skip(where + error.message);
    else if (current === history) {
      player.playing = false;
      complain(error);
    } // else the last sound of a microphone that is no longer followed
  }
}

async function followSample() {
  panel.dismiss();
  const fetched = async (path) => {
    const response = await fetch(new URL(path, document.baseURI));
    if (!response.ok) throw new Error(`${path} is missing: run python prepare.py, then build the page again.`);
    return new File([await response.blob()], path.split("/").at(-1));
  };
  const [rows, ...files] = await Promise.all([SAMPLE.rows, ...SAMPLE.model].map(fetched));
  await followTable(await openModel(files), rows, {
    title: "Electricity demand, forecast an hour ahead",
    subtitle: "The total of 24 areas of the United States, in hours that the model has never seen.",
    sample: true,
  });
}

async function playOrPause() {
  if (source.listening) stopListening();
  else if (source.microphone) await followMicrophone();
  else if (player.playing) await player.pause();
  else player.play();
  panel.show();
}

async function restart() {
  await player.pause();
  begin();
  player.play();
}

function save() {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([history.lines.join("\n"), "\n"]));
  link.download = "answers.jsonl";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

const complain = (error) => panel.complain(error);
const guarded = (action) => (given) => action(given).catch(complain);

setUpTheme($("theme"), () => panel.show());
setUpDrop(
  {
    veil: $("veil"),
    pickers: [
      [$("pick"), $("files")],
      [$("pick-folder"), $("folder")],
    ],
  },
  guarded(open),
);
$("play").addEventListener("click", guarded(playOrPause));
$("restart").addEventListener("click", guarded(restart));
$("listen").addEventListener("click", guarded(followMicrophone));
$("sample").addEventListener("click", guarded(followSample));
$("save").addEventListener("click", save);
$("speed").addEventListener("change", () => (player.rate = Number($("speed").value)));
player.rate = Number($("speed").value);
addEventListener("keydown", (event) => {
  // The space bar plays and pauses, unless a control has the focus and uses it itself.
  if (event.key !== " " || !source || event.target.closest("button, select, input")) return;
  event.preventDefault();
  guarded(playOrPause)();
});

followSample().catch((error) => {
  $("title").textContent = "The sample is not here";
  $("subtitle").textContent = "Your own model can still be run: see below.";
  complain(error);
});

// At hand in the console, and for benchmarks/browser.py.
globalThis.nystream = { OnnxStream, openModel };
