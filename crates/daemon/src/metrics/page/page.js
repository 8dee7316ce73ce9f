// The live page: asks for the status each second and shows it. Names come from the pool and its clients: they are set as
// text, never as HTML. A figure that is absent is shown as "-".
"use strict";

const EVERY_MS = 1000;
// A plot begins with one minute and grows to five.
const [POINTS_MIN, POINTS_MAX] = [60, 300];
const SVG = "http://www.w3.org/2000/svg";

const $ = (id) => document.getElementById(id);
const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
const list = (value) => (Array.isArray(value) ? value : []);
const at = (value, path) => path.split(".").reduce((found, key) => (found == null ? undefined : found[key]), value);
const named = (entries, name) => list(entries).find((entry) => entry.name === name);

function element(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

// --- forms of figures ---

function digits(value, unit) {
  return `${value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2)} ${unit}`;
}

function size(bytes) {
  if (!isNumber(bytes)) return "-";
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  let unit = 0;
  while (bytes >= 1024 && unit < units.length - 1) { bytes /= 1024; unit += 1; }
  return unit === 0 ? `${Math.round(bytes)} B` : digits(bytes, units[unit]);
}

function time(ns) {
  if (!isNumber(ns)) return "-";
  const units = ["ns", "us", "ms", "s"];
  let unit = 0;
  while (ns >= 1000 && unit < units.length - 1) { ns /= 1000; unit += 1; }
  return unit === 0 ? `${Math.round(ns)} ns` : digits(ns, units[unit]);
}

const rate = (bytes) => (isNumber(bytes) ? `${size(bytes)}/s` : "-");
const count = (value) => (isNumber(value) ? Math.round(value).toLocaleString("en") : "-");
const percent = (part) => (isNumber(part) ? `${(part * 100).toFixed(part < 0.1 ? 1 : 0)} %` : "-");
const ratio = (value) => (isNumber(value) ? value.toFixed(2) : "-");

function duration(seconds) {
  if (!isNumber(seconds)) return "-";
  const days = seconds / 86400;
  if (days >= 730) return `${(days / 365).toFixed(1)} years`;
  if (days >= 2) return `${days.toFixed(1)} days`;
  if (seconds >= 7200) return `${(seconds / 3600).toFixed(1)} hours`;
  return seconds >= 120 ? `${(seconds / 60).toFixed(0)} min` : `${seconds.toFixed(0)} s`;
}

// --- rates: differences of two looks ---

let before = null;

// How much `path` of an entry has grown by the second since the last look.
function grown(was, is, path, seconds) {
  const [old, now] = [at(was, path), at(is, path)];
  return isNumber(old) && isNumber(now) && now >= old && seconds > 0 ? (now - old) / seconds : undefined;
}

function sum(values) {
  const known = values.filter(isNumber);
  return known.length > 0 ? known.reduce((all, value) => all + value, 0) : undefined;
}

function meanOf(was, is, total, requests) {
  const [time, number] = [grown(was, is, total, 1), grown(was, is, requests, 1)];
  return number > 0 ? time / number : undefined;
}

// --- plots ---

const series = {};

function plot(name, value, form) {
  const points = (series[name] ??= []);
  points.push(isNumber(value) ? value : null);
  if (points.length > POINTS_MAX) points.shift();
  $(`now-${name}`).textContent = form(value);
  const [width, height] = [300, 48];
  const most = Math.max(...points.map((point) => point ?? 0), 1);
  const steps = Math.max(points.length, POINTS_MIN) - 1;
  const x = (index) => width - ((points.length - 1 - index) * width) / steps;
  const y = (point) => height - 1 - ((point ?? 0) * (height - 4)) / most;
  const line = points.map((point, index) => `${x(index).toFixed(1)},${y(point).toFixed(1)}`).join(" ");
  const svg = $(`plot-${name}`);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("preserveAspectRatio", "none");
  const draw = (tag, className, attributes) => {
    const made = document.createElementNS(SVG, tag);
    made.setAttribute("class", className);
    for (const [key, to] of Object.entries(attributes)) made.setAttribute(key, to);
    return made;
  };
  svg.replaceChildren(
    draw("line", "base", { x1: 0, x2: width, y1: height - 0.5, y2: height - 0.5 }),
    draw("polygon", "area", { points: `${x(0).toFixed(1)},${height} ${line} ${width},${height}` }),
    draw("polyline", "line", { points: line }),
  );
}

// --- parts of the page ---

// Cells with figures carry the exact ones, for whoever reads the page by a program.
function table(id, head, rows) {
  const cell = ({ text, raw, bad }) => {
    const made = element("td", text, bad ? "bad" : undefined);
    if (raw !== undefined && raw !== null) made.dataset.value = String(raw);
    return made;
  };
  const row = (cells) => {
    const made = element("tr");
    made.append(...cells.map(cell));
    made.firstChild.title = cells[0].text;
    return made;
  };
  const [top, body] = [element("thead"), element("tbody")];
  const names = element("tr");
  names.append(...head.map((text) => element("th", text)));
  top.append(names);
  body.append(...rows.map(row));
  $(id).replaceChildren(top, body);
}

const name = (text) => ({ text: typeof text === "string" && text !== "" ? text : "-" });
const as = (form, raw) => ({ text: form(raw), raw });

function tiers(status) {
  const each = list(status.tiers).map((tier) => {
    const made = element("div", undefined, "tier");
    const part = (bytes) => (tier.total_bytes > 0 ? Math.min(bytes / tier.total_bytes, 1) : 0);
    const head = element("p");
    const figures = `${size(tier.live_bytes)} live, ${size(tier.used_bytes)} used of ${size(tier.total_bytes)}`;
    head.append(element("span", `${tier.name} ${percent(part(tier.used_bytes))}`), element("span", figures));
    const bar = element("div", undefined, "bar");
    for (const [key, bytes] of [["used", tier.used_bytes], ["live", tier.live_bytes]]) {
      const fill = element("i");
      fill.style.width = `${(part(bytes) * 100).toFixed(2)}%`;
      fill.dataset[key] = String(bytes);
      bar.append(fill);
    }
    made.append(head, bar);
    return made;
  });
  $("tiers").replaceChildren(...each);
  const wears = list(status.wear);
  const left = wears.filter((tier) => isNumber(tier.years_left)).sort((a, b) => a.years_left - b.years_left);
  const written = wears.map((tier) => `${tier.name} ${size(tier.written_bytes)}`).join(", ");
  const life = (tier) => `${tier.name} in ${duration(tier.years_left * 365 * 86400)}`;
  $("wear").textContent = left.length > 0
    ? `Worn first at the rate since the start: ${left.map(life).join(", then ")}. Written over the pool's life: ${written}.`
    : `Written over the pool's life: ${written || "-"}. Which tier is worn first is known once [[fast]] and [[capacity]] have endurance.`;
}

function now(status, was, seconds) {
  const stalls = grown(was, status, "counters.stalls", seconds);
  const entries = [
    ["Pool in use", percent(at(status, "pool.fill"))],
    ["Free bands", `${count(at(status, "bands.free"))} of ${count(at(status, "bands.total"))}`],
    ["Requests in flight", count(status.requests_in_flight)],
    ["Connections", count(at(status, "server.connections"))],
    ["Waits for space", stalls === undefined ? "-" : `${count(stalls)}/s`],
    ["Journal", `${size(at(status, "journal.used_bytes"))} of ${size(at(status, "journal.len_bytes"))}`],
    ["Memory", `${size(at(status, "memory.resident_bytes"))} of ${size(at(status, "memory.limit_bytes"))}`],
    ["Checkpoint", count(status.checkpoint)],
  ];
  $("now").replaceChildren(...entries.map(([key, value]) => {
    const made = element("div");
    made.append(element("dt", key), element("dd", value));
    return made;
  }));
}

function head(status) {
  const pool = status.pool ?? {};
  $("pool").textContent = pool.name ?? "Forebay";
  document.title = `${pool.name ?? "Forebay"} - Forebay`;
  const trouble = at(status, "left.label") ?? (pool.read_only ? `read-only: ${pool.read_only_reason ?? ""}` : null)
    ?? (pool.flush_failed ? "a device flush failed, and what it covered is being written again" : null);
  $("state").textContent = trouble ?? `serving for ${duration(status.uptime_seconds)}`;
  $("state").className = trouble ? "state bad" : "state good";
  const notes = [];
  if (pool.fill_mark) notes.push(`The pool is ${pool.fill_mark.toLowerCase()}.`);
  for (const device of list(status.devices)) {
    if (device.errors > 0) notes.push(`${device.name}: ${count(device.errors)} requests failed, the last: ${device.last_error ?? "-"}.`);
    if (device.unanswered_ns >= 5e9) notes.push(`${device.name} has not answered a request for ${Math.floor(device.unanswered_ns / 1e9)} s.`);
  }
  if (status.capacity_checkpoint_error) notes.push(status.capacity_checkpoint_error);
  $("notes").textContent = notes.join(" ");
  $("notes").hidden = notes.length === 0;
}

function show(status) {
  const was = before;
  const seconds = was ? status.uptime_seconds - was.uptime_seconds : 0;
  // The server was asked twice within what it calls now.
  if (was && seconds === 0) return;
  head(status);
  tiers(status);
  now(status, was, seconds);
  const kinds = (look, kind) => list(look?.latency_by_kind).find((entry) => entry.kind === kind);
  const overDisks = (path) => sum(list(status.disks).map((disk) => grown(named(was?.disks, disk.name), disk, path, seconds)));
  const overClasses = (path) => sum(list(status.classes).map((entry) => grown(named(was?.classes, entry.name), entry, path, seconds)));
  const latency = (kind) => meanOf(kinds(was, kind), kinds(status, kind), "sum_ns", "count");
  plot("read", overDisks("reads.bytes"), rate);
  plot("write", overDisks("writes.bytes"), rate);
  plot("destage", overClasses("destaged_bytes"), rate);
  plot("collect", overClasses("collected_bytes"), rate);
  plot("read-latency", latency("read"), time);
  plot("write-latency", latency("write"), time);
  table("latency", ["Kind", "Requests", "Mean now", "p50", "p90", "p99", "p99.9"], list(status.latency_by_kind)
    .filter((entry) => entry.count > 0)
    .map((entry) => [
      name(entry.kind), as(count, entry.count), { text: time(latency(entry.kind)) },
      as(time, entry.p50), as(time, entry.p90), as(time, entry.p99), as(time, entry.p999),
    ]));
  table("disks", ["Disk", "Size", "Holds at most", "Reads/s", "Read", "Writes/s", "Written", "Flushes/s"], list(status.disks).map((disk) => {
    const more = (path) => grown(named(was?.disks, disk.name), disk, path, seconds);
    return [
      name(disk.name), as(size, disk.size_bytes), as(size, disk.mapped_bytes_max), { text: count(more("reads.requests")) },
      { text: rate(more("reads.bytes")), raw: at(disk, "reads.bytes") }, { text: count(more("writes.requests")) },
      { text: rate(more("writes.bytes")), raw: at(disk, "writes.bytes") }, { text: count(more("flushes.requests")) },
    ];
  }));
  table("classes", ["Class", "Place", "On fast", "On capacity", "Written", "Destaged", "Collected", "Alpha", "Beta", "Hits"], list(status.classes).map((entry) => {
    const more = (path) => grown(named(was?.classes, entry.name), entry, path, seconds);
    const bytes = (blocks) => (isNumber(blocks) ? blocks * 4096 : undefined);
    const moved = (path) => ({ text: rate(more(path)), raw: entry[path] });
    return [
      name(entry.name), name(entry.place), as(size, bytes(entry.fast_blocks)), as(size, bytes(entry.capacity_blocks)),
      moved("host_written_bytes"), moved("destaged_bytes"), moved("collected_bytes"),
      as(ratio, entry.alpha), as(ratio, entry.beta), as(percent, entry.hit_ratio),
    ];
  }));
  table("devices", ["Device", "Reads/s", "Read", "Mean", "Writes/s", "Written", "Mean", "Flushes/s", "Depth", "Errors"], list(status.devices).map((device) => {
    const old = named(was?.devices, device.name);
    const more = (path) => grown(old, device, path, seconds);
    // Little's law: time in requests by time is requests in flight.
    const depth = sum(["reads", "writes", "flushes", "discards"].map((kind) => more(`${kind}.busy_ns`)));
    const mean = (kind) => ({ text: time(meanOf(old, device, `${kind}.busy_ns`, `${kind}.requests`)) });
    return [
      name(device.name), { text: count(more("reads.requests")) }, { text: rate(more("reads.bytes")), raw: at(device, "reads.bytes") }, mean("reads"),
      { text: count(more("writes.requests")) }, { text: rate(more("writes.bytes")), raw: at(device, "writes.bytes") }, mean("writes"),
      { text: count(more("flushes.requests")) }, { text: isNumber(depth) ? (depth / 1e9).toFixed(1) : "-" },
      { text: count(device.errors), raw: device.errors, bad: device.errors > 0 },
    ];
  }));
  document.body.dataset.uptime = String(status.uptime_seconds);
  // A server that was started again counts from zero: its first look has no rates.
  before = status;
}

async function look() {
  try {
    const answer = await fetch("status.json", { cache: "no-store", signal: AbortSignal.timeout(5000) });
    if (!answer.ok) throw new Error((await answer.text()).trim() || `HTTP ${answer.status}`);
    show(await answer.json());
  } catch (error) {
    $("state").textContent = `no answer: ${error.message}`;
    $("state").className = "state bad";
  }
  // Nobody looks at a hidden page: it costs nothing then.
  setTimeout(look, document.hidden ? 10 * EVERY_MS : EVERY_MS);
}

look();
