/** The state of the service: tiles, charts and facts. */

import { LatencyChart, RateChart } from "./chart/bars.js";
import { bytesText, counted, countText, durationText, rowsText, shortText, uptimeText } from "./words.js";

const KEPT = 300; // rates that there is room for
const RECENT = 10; // of them that count as now
const DURABILITY = {
  log: "every acknowledged record survives a crash",
  snapshot: "snapshots survive a crash",
  none: "nothing survives a restart",
};

const element = (id) => document.getElementById(id);
const put = (id, text) => (element(id).textContent = text);

export class ServiceView {
  #rates = new RateChart(element("rates"));
  #latencies = new LatencyChart(element("latencies"));
  #now = null;

  /** What does not change. */
  describe({ model, service, version }) {
    this.service = service;
    const variants = model.variants.join(", ");
    put("model-name", model.name);
    put("model-facts", [model.task, variants, `window ${countText(model.window)}`].filter(Boolean).join(" · "));
    document.title = model.name ? `${model.name} · nystream` : "nystream";
    const facts = {
      Task: model.task ?? "none declared",
      Attention: variants,
      Window: counted(model.window, "token") + (model.seconds ? `, ${rowsText(model.window, model.seconds)}` : ""),
      Landmarks: model.landmarks === null ? "none" : countText(model.landmarks),
      Blocks: `${countText(model.blocks)}, ${countText(model.width)} wide`,
      Parameters: countText(model.parameters),
      Inputs: countText(model.inputs),
      Answers:
        model.labels.length > 6
          ? `${model.labels.slice(0, 6).join(", ")} and ${model.labels.length - 6} more`
          : model.labels.join(", ") || countText(model.outputs),
      Horizons: model.horizons
        .map((rows) => rowsText(rows, model.seconds))
        .slice(0, 8)
        .join(", "),
      Quantiles: model.quantiles.join(", "),
      Durability: `${service.durability}: ${DURABILITY[service.durability] ?? ""}`,
      Batches: `up to ${counted(service.max_batch, "record")} that arrive within ${shortText(service.max_wait_ms)} ms`,
      "Streams in memory": `up to ${countText(service.max_streams)}`,
      Backend: service.backend,
      "Memory of a stream": bytesText(service.bytes_per_stream),
      Version: version,
    };
    element("facts").replaceChildren(
      ...Object.entries(facts)
        .filter(([, value]) => value)
        .map(([name, value]) => {
          const pair = document.createElement("div");
          pair.append(document.createElement("dt"), document.createElement("dd"));
          [pair.firstChild.textContent, pair.lastChild.textContent] = [name, value];
          return pair;
        }),
    );
    element("metrics").hidden = service.tokens; // a link carries no token
  }

  /** What changes. */
  show(now) {
    this.#now = now;
    const recent = now.throughput.rates.slice(-RECENT);
    const rate = recent.reduce((sum, value) => sum + value, 0) / recent.length;
    put("rate", shortText(recent.length ? rate : 0));
    const taken = ["answered", "dropped", "rejected"].reduce((sum, name) => sum + now.records[name], 0);
    put(
      "rate-note",
      `${countText(taken)} so far${now.records.rejected ? `, ${countText(now.records.rejected)} not readable` : ""}`,
    );
    put("median", durationText(now.latency.p50_ms ?? NaN));
    put("median-note", now.latency.p99_ms === null ? "no records lately" : `p99 ${durationText(now.latency.p99_ms)}`);
    put("resident", countText(now.streams_in_memory));
    put("resident-note", "in memory");
    put("memory", bytesText(now.memory_bytes ?? NaN));
    put("memory-note", now.store_bytes === null ? "no store" : `store ${bytesText(now.store_bytes)}`);
    put("uptime", uptimeText(now.uptime_seconds));
    put("uptime-note", `durability: ${this.service.durability}`);
    const count = now.latency.counts.reduce((sum, value) => sum + value, 0);
    const span = Math.round(now.latency.seconds);
    put(
      "latencies-note",
      count ? `${counted(count, "record")} of the last ${span} s, in milliseconds` : "no records lately",
    );
    this.draw();
  }

  draw() {
    if (!this.#now) return;
    const { throughput, latency } = this.#now;
    this.#rates.draw(throughput.rates, KEPT, throughput.seconds);
    this.#latencies.draw(latency.edges_ms, latency.counts);
  }
}
