// Adds to the page what needs a script: a read-out of points, zoom along time, and saving. Everything is shown without it; all texts
// that come from results are read from the page and set as text.
"use strict";

const SPACE = "http://www.w3.org/2000/svg";

function made(tag, text, className) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  return element;
}

// The place of a point in the units of its picture.
function placeOf(dot) {
  if (dot.tagName === "rect") {
    const of = (name) => Number(dot.getAttribute(name));
    return [of("x") + of("width") / 2, of("y") + of("height") / 2];
  }
  return dot.getAttribute("d").slice(1).split("h")[0].split(" ").map(Number);
}

// --- a picture's points: by pointer and by arrow keys ---

function readOut(figure, svg) {
  const said = figure.querySelector(".said");
  const dots = [...svg.querySelectorAll(".dot")].map((dot) => ({ dot, place: placeOf(dot) }));
  const inOrder = [...dots].sort((a, b) => a.place[0] - b.place[0] || a.place[1] - b.place[1]);
  const view = { by: 1, from: 0 };
  let now = -1;
  const show = (at) => {
    if (now >= 0) inOrder[now].dot.classList.remove("now");
    now = at;
    if (now < 0) { said.textContent = ""; return; }
    inOrder[now].dot.classList.add("now");
    const title = inOrder[now].dot.querySelector("title");
    said.textContent = title ? title.textContent : "";
  };
  const shown = ([x, y]) => [view.by * x + view.from, y];
  svg.addEventListener("pointermove", (event) => {
    const matrix = svg.getScreenCTM();
    if (!matrix || dots.length === 0) return;
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse());
    let [nearest, least] = [-1, 40 ** 2];
    inOrder.forEach(({ place }, index) => {
      const [x, y] = shown(place);
      const far = (x - at.x) ** 2 + (y - at.y) ** 2;
      if (far < least) [nearest, least] = [index, far];
    });
    if (nearest !== now) show(nearest);
  });
  svg.addEventListener("pointerleave", () => show(-1));
  svg.addEventListener("blur", () => show(-1));
  svg.addEventListener("keydown", (event) => {
    const last = inOrder.length - 1;
    if (last < 0) return;
    const to = {
      ArrowRight: now >= last ? last : now + 1, ArrowLeft: now <= 0 ? 0 : now - 1, Home: 0, End: last,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    show(to);
  });
  return view;
}

// --- zoom along an even horizontal axis ---

function zoom(figure, svg, view) {
  const plot = svg.querySelector(".plot[data-x-low]");
  if (!plot) return [];
  const of = (name) => Number(plot.dataset[name]);
  const [low, high, from, to] = [of("xLow"), of("xHigh"), of("from"), of("to")];
  const ticks = svg.querySelector(".x-ticks");
  const whole = ticks.cloneNode(true);
  let ends = [low, high];
  const set = (begin, end) => {
    const span = Math.min(high - low, Math.max(end - begin, (high - low) / 1e6));
    begin = Math.min(Math.max(begin, low), high - span);
    ends = [begin, begin + span];
    view.by = (high - low) / span;
    view.from = from - view.by * (from + ((begin - low) / (high - low)) * (to - from));
    plot.setAttribute("transform", `translate(${view.from} 0) scale(${view.by} 1)`);
    if (view.by === 1) { ticks.replaceChildren(...whole.cloneNode(true).childNodes); return; }
    const model = whole.querySelector("text");
    const texts = [0.1, 0.3, 0.5, 0.7, 0.9].map((part) => {
      const text = document.createElementNS(SPACE, "text");
      for (const name of ["class", "text-anchor", "y"]) text.setAttribute(name, model.getAttribute(name));
      text.setAttribute("x", from + part * (to - from));
      const digits = Math.max(0, Math.ceil(-Math.log10(span)) + 2);
      text.textContent = `${(ends[0] + part * span).toFixed(Math.min(digits, 9))}`;
      return text;
    });
    ticks.replaceChildren(...texts);
  };
  const about = (share, by) => {
    const span = (ends[1] - ends[0]) * by;
    const middle = ends[0] + share * (ends[1] - ends[0]);
    set(middle - share * span, middle + (1 - share) * span);
  };
  const shift = (by) => set(ends[0] + by * (ends[1] - ends[0]), ends[1] + by * (ends[1] - ends[0]));
  svg.addEventListener("keydown", (event) => {
    const does = { "+": () => about(0.5, 0.5), "-": () => about(0.5, 2), 0: () => set(low, high), PageDown: () => shift(0.5), PageUp: () => shift(-0.5) }[event.key];
    if (!does) return;
    event.preventDefault();
    does();
  });
  const button = (text, name, does) => {
    const element = made("button", text);
    element.type = "button";
    element.setAttribute("aria-label", name);
    element.addEventListener("click", does);
    return element;
  };
  figure.zoomTo = set;
  return [
    button("+", "Zoom in", () => about(0.5, 0.5)), button("\u2212", "Zoom out", () => about(0.5, 2)),
    button("\u2190", "Earlier", () => shift(-0.5)), button("\u2192", "Later", () => shift(0.5)),
    button("All", "All of the time", () => set(low, high)),
  ];
}

// --- saving ---

function save(name, type, parts) {
  const link = made("a");
  link.href = URL.createObjectURL(new Blob(parts, { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

const fileName = (title, ending) => `${title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 60) || "picture"}.${ending}`;

const STYLED = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "stroke-opacity", "opacity", "font-size", "font-weight", "font-style", "font-family", "paint-order", "vector-effect"];

// The picture with its style inside, on the ground that it stands on.
function alone(svg) {
  const copy = svg.cloneNode(true);
  const from = [svg, ...svg.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((element, index) => {
    const style = getComputedStyle(from[index]);
    if (["title", "desc", "clipPath"].includes(element.tagName)) return;
    element.setAttribute("style", STYLED.map((name) => `${name}:${style.getPropertyValue(name)}`).join(";"));
  });
  const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
  copy.setAttribute("width", width * 2);
  copy.setAttribute("height", height * 2);
  const ground = document.createElementNS(SPACE, "rect");
  ground.setAttribute("width", width);
  ground.setAttribute("height", height);
  ground.setAttribute("fill", getComputedStyle(document.documentElement).getPropertyValue("--card").trim());
  copy.insertBefore(ground, copy.querySelector("desc").nextSibling);
  return { text: new XMLSerializer().serializeToString(copy), width: width * 2, height: height * 2 };
}

function savePng(svg, name) {
  const { text, width, height } = alone(svg);
  const image = new Image();
  image.onload = () => {
    const canvas = made("canvas");
    [canvas.width, canvas.height] = [width, height];
    canvas.getContext("2d").drawImage(image, 0, 0, width, height);
    canvas.toBlob((blob) => save(name, "image/png", [blob]));
  };
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
}

// Raw numbers where there are such; an interval is two columns, in which an end that is open or not known is empty. A text that a
// spreadsheet would take for a formula gets a sign before it.
function csv(table) {
  const quoted = (text) => /[",\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
  const cell = (element) => {
    let text = element.dataset.value ?? element.textContent;
    if (element.dataset.value === undefined && /^[=+\-@\t]/.test(text) && text !== "-") text = `'${text}`;
    return quoted(text);
  };
  const heads = [...table.tHead.rows[0].cells];
  const isInterval = heads.map((element) => element.dataset.holds === "intervals");
  const head = heads.flatMap((element, at) => {
    const names = isInterval[at] ? [`${element.textContent} low`, `${element.textContent} high`] : [element.textContent];
    const unit = element.dataset.unit;
    return names.map((name) => cell({ dataset: {}, textContent: unit ? `${name} [${unit}]` : name }));
  });
  const row = (of) => [...of.cells].flatMap((element, at) =>
    isInterval[at] ? [element.dataset.low ?? "", element.dataset.high ?? ""] : [cell(element)]);
  const rows = [...table.tBodies[0].rows].map((of) => row(of).join(","));
  return `${[head.join(","), ...rows].join("\r\n")}\r\n`;
}

for (const figure of document.querySelectorAll("figure")) {
  const svg = figure.querySelector(":scope > svg");
  const table = figure.querySelector("table");
  const title = figure.querySelector("h3").textContent;
  const tools = made("div", undefined, "tools");
  const button = (text, does) => {
    const element = made("button", text);
    element.type = "button";
    element.setAttribute("aria-label", `${text}: ${title}`);
    element.addEventListener("click", does);
    tools.append(element);
  };
  if (svg) {
    tools.append(...zoom(figure, svg, readOut(figure, svg)));
    button("SVG", () => save(fileName(title, "svg"), "image/svg+xml", [alone(svg).text]));
    button("PNG", () => savePng(svg, fileName(title, "png")));
  }
  if (table) button("CSV", () => save(fileName(title, "csv"), "text/csv", [csv(table)]));
  figure.insertBefore(tools, figure.querySelector("details") ?? figure.querySelector(".scroll"));
}

// Paper has no pointer: what is folded is unfolded there.
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((details) => { details.open = true; }));
