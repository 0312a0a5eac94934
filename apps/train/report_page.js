"use strict";
// The charts of the report. The page has each chart as a picture; this script draws it again from
// the data of its figure, for the width of the screen, and adds the controls. It needs nothing
// outside the page.

const PAD = {top: 12, right: 14, bottom: 44};
const DOTS_UP_TO = 40;  // points; longer curves are drawn without dots, and can be smoothed
const AXES = {
  step: {name: "step", at: 0},
  epoch: {name: "epoch", at: 1},
  time: {name: "time", at: 2},
};
const view = {axis: "step", smoothing: 0, from: null, to: null};

// ---- texts

function grouped(value) {
  return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

function numberText(value) {
  if (typeof value !== "number") return String(value);  // "NaN", "infinity"
  // As number_text() of report_text.cc.
  const large = Math.abs(value) >= 9999.5 && Math.abs(value) < 1e9;
  return large ? value.toFixed(0) : String(Number(value.toPrecision(4)));
}

function countText(value) {
  if (typeof value !== "number") return String(value);
  if (Math.abs(value) >= 1e9) return numberText(value / 1e9) + "\u202fG";
  if (Math.abs(value) >= 1e7) return numberText(value / 1e6) + "\u202fM";
  return Math.abs(value) < 100 ? numberText(value) : grouped(value);
}

function timeText(seconds) {
  if (seconds < 60) return seconds.toFixed(1) + " s";
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

function valueText(kind, value) {
  if (kind === "share" && typeof value === "number") return (value * 100).toFixed(2) + " %";
  return kind === "count" ? countText(value) : numberText(value);
}

// ---- scales

// The least of 1, 2, 5, 10 times a power of ten that is not below `least`.
function roundStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map(factor => factor * power).find(step => step >= least * (1 - 1e-9));
}

// Multiples of a round step from `low` to `high`.
function linearTicks(low, high, most) {
  const step = roundStep((high - low) / most);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i <= high / step + 1e-9; ++i)
    ticks.push(Number((i * step).toPrecision(12)));
  return ticks;
}

// Powers of ten, with 2 and 5 between them where there are few.
function logTicks(low, high, most) {
  const powers = Math.log10(high / low);
  const factors = powers <= 2 ? [1, 2, 5] : [1];
  const every = Math.max(1, Math.ceil(powers / most));
  const ticks = [];
  const end = Math.ceil(Math.log10(high));
  for (let power = Math.floor(Math.log10(low)); power <= end; power += every)
    for (const factor of factors) {
      const tick = Number((factor * 10 ** power).toPrecision(12));
      if (tick >= low * (1 - 1e-9) && tick <= high * (1 + 1e-9)) ticks.push(tick);
    }
  return ticks.length > 1 ? ticks : [low, high];
}

// Where the values of a chart lie, and where the axis begins and ends.
function valueScale(values, kind, logarithmic) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (logarithmic && value <= 0) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  // Differences and quotients must be finite as well.
  const [least, most] = logarithmic ? [1e-150, 1e150] : [-1e300, 1e300];
  if (low <= high) [low, high] = [low, high].map(v => Math.min(most, Math.max(least, v)));
  if (low > high) [low, high] = logarithmic ? [0.1, 1] : [0, 1];
  if (kind === "count" && !logarithmic) low = Math.min(0, low);
  if (logarithmic) {
    if (high / low < 1.01) [low, high] = [low / 2, high * 2];
    const room = (high / low) ** 0.04;
    low /= room;
    high *= room;
    const place = value => Math.log(value / low) / Math.log(high / low);
    return {low, high, place, ticks: logTicks(low, high, 6)};
  }
  if (high - low <= 1e-12 * Math.max(Math.abs(low), Math.abs(high))) {
    const room = Math.abs(low) < 1e-300 ? 1 : Math.abs(low) * 0.5;
    [low, high] = [low - room, high + room];
  }
  const step = roundStep((high - low) / 6);
  low = Math.floor(low / step + 1e-9) * step;
  high = Math.ceil(high / step - 1e-9) * step;
  if (kind === "share") [low, high] = [Math.max(0, low), Math.min(1, high)];
  return {low, high, place: value => (value - low) / (high - low),
          ticks: linearTicks(low, high, 6)};
}

// The scale of the horizontal axis: its name, and its ticks with their labels. Time is shown in the
// unit that fits.
function rangeScale(low, high, width) {
  const seconds = view.axis === "time";
  const [unit, size] = !seconds ? ["", 1] : high > 7200 ? ["h", 3600] :
    high > 180 ? ["min", 60] : ["s", 1];
  const ticks = linearTicks(low / size, high / size, Math.max(2, Math.floor(width / 75)))
    .filter(tick => view.axis !== "step" || Number.isInteger(tick));
  return {low, high, place: value => (value - low) / (high - low),
          name: seconds ? `time, ${unit}` : AXES[view.axis].name,
          ticks: ticks.map(tick => tick * size), labels: ticks.map(countText)};
}

// Labels with the digits that distinguish neighbours.
function tickTexts(kind, ticks, logarithmic) {
  if (kind === "count") return ticks.map(countText);
  const scale = kind === "share" ? 100 : 1, end = kind === "share" ? " %" : "";
  if (logarithmic) return ticks.map(tick => numberText(tick * scale) + end);
  const step = ticks.length > 1 ? (ticks[1] - ticks[0]) * scale : 1;
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const most = Math.max(...ticks.map(Math.abs)) * scale;
  if (digits > 5 || most >= 1e7) return ticks.map(tick => numberText(tick * scale) + end);
  return ticks.map(tick => (tick * scale).toFixed(digits) + end);
}

// An exponential mean without the bias of its beginning; it begins again after a value that is not
// finite.
function smoothed(values, weight) {
  let sum = 0, count = 0;
  return values.map(value => {
    if (typeof value !== "number") {
      sum = count = 0;
      return value;
    }
    sum = sum * weight + value * (1 - weight);
    count += 1;
    return sum / (1 - weight ** count);
  });
}

// ---- drawing

function node(parent, name, attributes, text) {
  const element = document.createElementNS(parent.namespaceURI, name);
  for (const key in attributes) element.setAttribute(key, attributes[key]);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}

function button(text, action) {
  const element = document.createElement("button");
  element.type = "button";
  element.textContent = text;
  element.addEventListener("click", action);
  return element;
}

class Chart {
  constructor(figure) {
    Object.assign(this, JSON.parse(figure.dataset.chart));  // kind, log, series
    this.figure = figure;
    this.svg = figure.querySelector("svg");
    this.tip = figure.querySelector(".tip");
    this.svg.classList.add("drawn");
    if (this.kind !== "share") this.addLogButton();
    figure.querySelectorAll(".legend .series").forEach((entry, i) => {
      if (this.series.length < 2) return;
      const toggle = () => {
        this.series[i].hidden = !this.series[i].hidden;
        entry.classList.toggle("off", this.series[i].hidden);
        this.draw();
      };
      entry.tabIndex = 0;
      entry.setAttribute("role", "button");
      entry.addEventListener("click", toggle);
      entry.addEventListener("keydown", event => { if (event.key === "Enter") toggle(); });
    });
    this.svg.addEventListener("pointermove", event => this.move(event));
    this.svg.addEventListener("pointerleave", () => this.leave());
    this.svg.addEventListener("pointerdown", event => this.press(event));
    this.svg.addEventListener("pointerup", event => this.release(event));
    this.svg.addEventListener("pointercancel", () => { this.pressed = null; this.leave(); });
    this.svg.addEventListener("dblclick", () => zoom(null, null));
  }

  addLogButton() {
    const log = button("log", () => {
      this.log = !this.log;
      log.setAttribute("aria-pressed", this.log);
      this.draw();
    });
    log.setAttribute("aria-pressed", this.log);
    log.title = "logarithmic scale";
    this.figure.querySelector("figcaption").append(log);
  }

  draw() {
    this.width = this.svg.clientWidth || 560;
    this.height = this.width < 420 ? 230 : 300;
    const at = AXES[view.axis].at, [low, high] = range();
    const inside = point => point[at] >= low && point[at] <= high;
    this.curves = this.series.filter(series => !series.hidden).map(series => {
      const raw = series.points.map(point => point[3]);
      const smooth = view.smoothing > 0 && raw.length > DOTS_UP_TO;
      return {...series, raw, smooth, shown: smooth ? smoothed(raw, view.smoothing) : raw};
    });
    const values = [];
    for (const curve of this.curves)
      curve.points.forEach((point, i) => {
        if (inside(point) && typeof curve.raw[i] === "number") values.push(curve.raw[i]);
      });
    const y = valueScale(values, this.kind, this.log);
    const labels = tickTexts(this.kind, y.ticks, this.log);
    this.left = 14 + 7 * Math.max(...labels.map(label => label.length));
    this.right = this.width - PAD.right;
    this.bottom = this.height - PAD.bottom;
    const x = rangeScale(low, high, this.right - this.left);
    this.xOf = value => this.left + x.place(value) * (this.right - this.left);
    this.yOf = value => {
      const place = this.log && value <= 0 ? 0 : y.place(value);
      return this.bottom - Math.min(1, Math.max(0, place)) * (this.bottom - PAD.top);
    };
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
    this.svg.replaceChildren();
    this.drawGrid(x, y, labels);
    for (const curve of this.curves) this.drawCurve(curve, at, inside);
    this.cursor = node(this.svg, "line", {class: "cursor", y1: PAD.top, y2: this.bottom});
    this.selection = node(this.svg, "rect", {class: "selection", y: PAD.top, width: 0,
                                             height: this.bottom - PAD.top});
  }

  drawGrid(x, y, labels) {
    const {svg, left, right, bottom} = this;
    y.ticks.forEach((tick, i) => {
      const at = this.yOf(tick);
      node(svg, "line", {class: "grid", x1: left, x2: right, y1: at, y2: at});
      node(svg, "text", {x: left - 8, y: at + 4, "text-anchor": "end"}, labels[i]);
    });
    x.ticks.forEach((tick, i) => {
      const at = this.xOf(tick);
      node(svg, "line", {class: "tickmark", x1: at, x2: at, y1: bottom, y2: bottom + 5});
      node(svg, "text", {x: at, y: bottom + 19, "text-anchor": "middle"}, x.labels[i]);
    });
    node(svg, "line", {class: "axis", x1: left, x2: right, y1: bottom, y2: bottom});
    node(svg, "text", {x: (left + right) / 2, y: bottom + 37, "text-anchor": "middle"}, x.name);
  }

  // Draws the points inside the range, and the lines to the first points outside of it.
  drawCurve(curve, at, inside) {
    const clip = value => Math.min(this.right, Math.max(this.left, this.xOf(value)));
    const path = (values, name) => {
      let d = "", last = null;
      curve.points.forEach((point, i) => {
        const before = last;
        last = typeof values[i] === "number" ? {point, value: values[i]} : null;
        if (!last || !before) return;
        const line = this.clipped(before, last, at);
        if (line) d += `M${line[0]} ${line[1]}L${line[2]} ${line[3]}`;
      });
      node(this.svg, "path", {class: `curve ${name} ${curve.style}`, d});
    };
    if (curve.smooth) path(curve.raw, "raw");
    path(curve.shown, "");
    curve.points.forEach((point, i) => {
      if (!inside(point)) return;
      const x = clip(point[at]).toFixed(1);
      if (typeof curve.raw[i] !== "number") {
        node(this.svg, "path", {class: "bad", d: `M${x} ${PAD.top}l4 8h-8z`});
      } else if (curve.points.length <= DOTS_UP_TO) {
        node(this.svg, "circle", {class: `dot ${curve.style}`, cx: x,
                                  cy: this.yOf(curve.shown[i]).toFixed(1), r: 3});
      }
    });
  }

  // The part of a line between two points that lies in the range; null: none.
  clipped(a, b, at) {
    const [low, high] = range();
    const [xa, xb] = [a.point[at], b.point[at]];
    if (xb < low || xa > high || xb < xa) return null;
    const [ya, yb] = [this.yOf(a.value), this.yOf(b.value)];
    const share = x => xb > xa ? (x - xa) / (xb - xa) : 0;
    const [from, to] = [share(Math.max(low, xa)), xb > xa ? share(Math.min(high, xb)) : 1];
    const x = t => (this.xOf(xa) + t * (this.xOf(xb) - this.xOf(xa))).toFixed(1);
    const y = t => (ya + t * (yb - ya)).toFixed(1);
    return [x(from), y(from), x(to), y(to)];
  }

  // ---- pointer

  placeOf(event) {
    const box = this.svg.getBoundingClientRect();
    return Math.min(this.right, Math.max(this.left, event.clientX - box.left));
  }

  press(event) {
    if (event.button !== 0) return;
    this.pressed = this.placeOf(event);
    this.svg.setPointerCapture(event.pointerId);
    event.preventDefault();
  }

  release(event) {
    if (this.pressed == null) return;
    const [from, to] = [this.pressed, this.placeOf(event)].sort((a, b) => a - b);
    this.pressed = null;
    this.selection.setAttribute("width", 0);
    if (to - from < 8) return;
    const [low, high] = range();
    const valueAt = x => low + (x - this.left) / (this.right - this.left) * (high - low);
    zoom(valueAt(from), valueAt(to));
  }

  move(event) {
    const x = this.placeOf(event), at = AXES[view.axis].at;
    if (this.pressed != null) {
      this.selection.setAttribute("x", Math.min(x, this.pressed));
      this.selection.setAttribute("width", Math.abs(x - this.pressed));
    }
    const [low, high] = range();
    const found = [];
    for (const curve of this.curves) {
      let best = -1, distance = Infinity;
      curve.points.forEach((point, i) => {
        const away = Math.abs(this.xOf(point[at]) - x);
        if (point[at] < low || point[at] > high || away >= distance) return;
        [best, distance] = [i, away];
      });
      if (best >= 0) found.push({curve, i: best, distance});
    }
    if (found.length === 0) return this.leave();
    const nearest = found.reduce((a, b) => b.distance < a.distance ? b : a);
    const point = nearest.curve.points[nearest.i], place = this.xOf(point[at]);
    const near = found.filter(f => Math.abs(this.xOf(f.curve.points[f.i][at]) - place) < 12);
    this.tip.replaceChildren(
      this.row("", `step ${grouped(point[0])}, epoch ${numberText(point[1])}`, timeText(point[2])),
      ...near.map(f => this.row(f.curve.style, f.curve.name,
                                valueText(this.kind, f.curve.shown[f.i]))));
    this.tip.hidden = false;
    const box = this.svg.getBoundingClientRect(), frame = this.figure.getBoundingClientRect();
    const left = box.left - frame.left + place;
    const fits = left + 14 + this.tip.offsetWidth <= frame.width;
    this.tip.style.left = Math.max(4, fits ? left + 14 : left - this.tip.offsetWidth - 14) + "px";
    this.tip.style.top = box.top - frame.top + 20 + "px";
    this.cursor.setAttribute("x1", place);
    this.cursor.setAttribute("x2", place);
    this.cursor.style.visibility = "visible";
  }

  row(style, name, value) {
    const line = document.createElement("div");
    const left = document.createElement("span"), right = document.createElement("b");
    left.textContent = name;
    left.className = style;
    right.textContent = value;
    line.append(left, right);
    return line;
  }

  leave() {
    this.tip.hidden = true;
    this.cursor.style.visibility = "hidden";
  }
}

// ---- the page

const charts = [...document.querySelectorAll("figure[data-chart]")].map(f => new Chart(f));

// The ends of the horizontal axis, the same for all charts: the zoomed range or all points.
let whole = null;
function range() {
  if (view.from !== null) return [view.from, view.to];
  if (whole) return whole;
  const at = AXES[view.axis].at;
  let low = Infinity, high = -Infinity;
  for (const chart of charts)
    for (const series of chart.series)
      for (const point of series.points) {
        low = Math.min(low, point[at]);
        high = Math.max(high, point[at]);
      }
  if (low <= high - low) low = 0;  // from 0 if that is near
  whole = [low, high > low ? high : low + 1];
  return whole;
}

function drawAll() {
  for (const chart of charts) chart.draw();
}

let unzoom = null;
function zoom(from, to) {
  Object.assign(view, {from, to});
  if (unzoom) unzoom.hidden = from === null;
  drawAll();
}

function addControls() {
  const bar = document.createElement("div");
  bar.className = "controls";
  const labelled = (text, element) => {
    const label = document.createElement("label");
    label.append(text, element);
    bar.append(label);
    return element;
  };
  const axis = labelled("x axis ", document.createElement("select"));
  for (const name in AXES) axis.append(new Option(name, name));
  axis.addEventListener("change", () => {
    view.axis = axis.value;
    whole = null;
    zoom(null, null);
  });
  const smoothing = labelled("smoothing ", document.createElement("input"));
  Object.assign(smoothing, {type: "range", min: 0, max: 0.98, step: 0.01, value: 0});
  smoothing.addEventListener("input", () => {
    view.smoothing = Number(smoothing.value);
    drawAll();
  });
  unzoom = button("whole range", () => zoom(null, null));
  unzoom.hidden = true;
  const hint = document.createElement("span");
  hint.textContent = "Drag across a chart to zoom.";
  bar.append(hint, unzoom);
  document.querySelector(".cards").before(bar);
}

if (charts.length > 0) {
  addControls();
  drawAll();
  if (window.ResizeObserver) {
    let width = 0;
    new ResizeObserver(() => {
      const now = charts[0].svg.clientWidth;
      if (now !== width) drawAll();
      width = now;
    }).observe(document.querySelector(".cards"));
  }
}
