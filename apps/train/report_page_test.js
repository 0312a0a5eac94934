"use strict";
// node report_page_test.js [PAGE.html WIDTH]: tests report_page.js on a small model of the DOM.
// With a page, it draws the charts of that page instead, and prints their SVG.
const assert = require("assert");
const fs = require("fs");
const path = require("path");
const vm = require("vm");

class Element {
  constructor(name) {
    Object.assign(this, {name, children: [], attributes: {}, dataset: {}, style: {}, handlers: {},
                         namespaceURI: "svg", clientWidth: Element.width, offsetWidth: 80});
    const classes = new Set();
    this.classList = {
      add: name => classes.add(name),
      toggle: (name, on) => on ? classes.add(name) : classes.delete(name),
    };
  }
  setAttribute(name, value) { this.attributes[name] = String(value); }
  append(...nodes) { this.children.push(...nodes); }
  before(node) { Element.bar = node; }
  replaceChildren(...nodes) { this.children = nodes; }
  addEventListener(name, handler) { this.handlers[name] = handler; }
  setPointerCapture() {}
  getBoundingClientRect() { return {left: 0, top: 0, width: Element.width}; }
  fire(name, event = {}) { this.handlers[name]({button: 0, preventDefault() {}, ...event}); }
  all(name) {
    const nested = this.children.flatMap(child => child.all ? child.all(name) : []);
    return (this.name === name ? [this] : []).concat(nested);
  }
  get value() { return this.given ?? ""; }
  set value(value) { this.given = value; }
  text() {
    const attributes = Object.entries(this.attributes).map(([k, v]) => ` ${k}="${v}"`).join("");
    const inside = (this.textContent ?? "") + this.children.map(child => child.text()).join("");
    return `<${this.name}${attributes}>${inside}</${this.name}>`;
  }
}

function figureOf(data) {
  const figure = new Element("figure");
  figure.dataset.chart = JSON.stringify(data);
  const parts = {svg: new Element("svg"), ".tip": new Element("div"),
                 figcaption: new Element("figcaption")};
  figure.parts = parts;
  figure.legend = data.series.map(() => new Element("span"));
  figure.querySelector = name => parts[name];
  figure.querySelectorAll = () => figure.legend;
  return figure;
}

// Runs the script on a page with these charts. The result has its functions and variables.
function pageOf(charts, width) {
  Element.width = width;
  const figures = charts.map(figureOf);
  const cards = new Element("div");
  const document = {
    querySelectorAll: () => figures,
    querySelector: () => cards,
    createElement: name => new Element(name),
    createElementNS: (_, name) => new Element(name),
  };
  const context = vm.createContext({document, window: {}, Option: class extends Element {}});
  const script = fs.readFileSync(path.join(__dirname, "report_page.js"), "utf8");
  vm.runInContext(script + "\nglobalThis.page = {view, range, smoothed, linearTicks, logTicks, " +
                  "valueScale, tickTexts, valueText, countText, timeText};", context);
  return {...context.page, figures, bar: Element.bar};
}

function check(page) {
  for (const figure of page.figures) {
    const text = figure.parts.svg.text();
    assert(!/NaN|Infinity|undefined/.test(text.replace(/>[^<]*</g, "><")), text);
  }
}

const points = [...Array(100).keys()].map(i => [i + 1, (i + 1) / 50, (i + 1) * 2, 10 / (i + 1)]);
const loss = {kind: "number", log: false, series: [
  {name: "train", style: "train", points},
  {name: "test", style: "test", points: [[50, 1, 100, 0.5], [75, 1.5, 150, "NaN"],
                                         [100, 2, 200, 0]]}]};
const accuracy = {kind: "share", log: false, series: [
  {name: "test", style: "accuracy", points: [[50, 1, 100, 0.8], [100, 2, 200, 0.9]]}]};
const speed = {kind: "count", log: false, series: [
  {name: "all", style: "speed", points: [[100, 2, 200, 12345]]}]};
const equal = (a, b) => assert.deepStrictEqual(JSON.parse(JSON.stringify(a)), b);

if (process.argv[2]) {
  const html = fs.readFileSync(process.argv[2], "utf8");
  const charts = [...html.matchAll(/data-chart="([^"]*)"/g)].map(found => JSON.parse(
    found[1].replace(/&quot;/g, '"').replace(/&#39;/g, "'").replace(/&lt;/g, "<")
      .replace(/&gt;/g, ">").replace(/&amp;/g, "&")));
  const page = pageOf(charts, Number(process.argv[3]));
  for (const figure of page.figures) console.log(figure.parts.svg.text());
  process.exit(0);
}

for (const width of [300, 560]) {
  const page = pageOf([loss, accuracy, speed], width);
  check(page);
  const [lossFigure, accuracyFigure] = page.figures;
  const svg = lossFigure.parts.svg;
  equal(svg.attributes.viewBox.split(" ").map(Number), [0, 0, width, width < 420 ? 230 : 300]);
  const curves = () => svg.all("path").filter(path => path.attributes.class.includes("curve"));
  assert.equal(curves().length, 2);
  assert.equal(svg.all("path").length, 3);    // the loss that is not finite has a mark
  assert.equal(svg.all("circle").length, 2);  // only the short curve has dots

  // Smoothing draws the long curve twice, and leaves the short one.
  const [axis, smoothing] = ["select", "input"].map(name => page.bar.all(name)[0]);
  smoothing.value = 0.9;
  smoothing.fire("input");
  check(page);
  assert.equal(curves().length, 3);
  smoothing.value = 0;
  smoothing.fire("input");

  // The logarithmic scale shows the zero at the bottom; shares have no such scale.
  const log = lossFigure.parts.figcaption.all("button")[0];
  log.fire("click");
  check(page);
  assert.equal(log.attributes["aria-pressed"], "true");
  assert.equal(accuracyFigure.parts.figcaption.all("button").length, 0);

  // A drag over the middle half of a chart zooms all of them; a double click shows everything.
  const lines = svg.all("line").filter(line => line.attributes.class === "axis");
  const [left, right] = [Number(lines[0].attributes.x1), Number(lines[0].attributes.x2)];
  const at = share => ({clientX: left + share * (right - left)});
  svg.fire("pointerdown", at(0.25));
  svg.fire("pointermove", at(0.5));
  svg.fire("pointerup", at(0.75));
  check(page);
  assert.deepEqual([...page.range()].map(Math.round), [25, 75]);
  assert.equal(page.bar.all("button")[0].hidden, false);
  svg.fire("dblclick");
  equal(page.range(), [0, 100]);

  // By time, the pointer finds the point of that time.
  axis.value = "time";
  axis.fire("change");
  check(page);
  equal(page.range(), [0, 200]);
  svg.fire("pointermove", at(0.5));
  const tip = lossFigure.parts[".tip"].text();
  assert(tip.includes("step 50, epoch 1") && tip.includes("1 min 40 s"), tip);

  // A click on the legend hides a curve.
  lossFigure.legend[0].fire("click");
  assert.equal(curves().length, 1);
  check(page);
}

const page = pageOf([{...loss, series: [{...loss.series[0], points: [[5, 1, 1, 0.5]]}]}], 300);
check(page);
equal(page.linearTicks(0, 100, 5), [0, 20, 40, 60, 80, 100]);
equal(page.linearTicks(0.3, 0.7, 4), [0.3, 0.4, 0.5, 0.6, 0.7]);
equal(page.logTicks(0.001, 100, 6), [0.001, 0.01, 0.1, 1, 10, 100]);
equal(page.logTicks(0.15, 2, 6), [0.2, 0.5, 1, 2]);
equal(page.smoothed([2, 2, "NaN", 4, 4], 0.9).map(v => typeof v === "number" ? +v.toFixed(9) : v),
      [2, 2, "NaN", 4, 4]);
equal(page.tickTexts("share", [0.84, 0.86], false), ["84 %", "86 %"]);
equal(page.tickTexts("number", [0, 0.05, 0.1], false), ["0.00", "0.05", "0.10"]);
equal(page.valueText("share", 0.87654), "87.65 %");
equal(page.countText(1234567), "1\u202f234\u202f567");
equal(page.timeText(3725), "1 h 2 min");
for (const values of [[], [0], [5, 5], [5e-324], [5e-324, 1.7e308], [-1.7e308, 1.7e308], [-1, 1]])
  for (const log of [false, true]) {
    const scale = page.valueScale(values, "number", log);
    assert(scale.low < scale.high && scale.ticks.length > 1 && scale.ticks.every(Number.isFinite),
           JSON.stringify([values, log, scale]));
  }
console.log("ok");
