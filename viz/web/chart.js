// Curves, bars or dots over tokens, layers or numbers, each series with its own places. Axes may be logarithmic; a value
// that is not finite leaves a gap. Lengths are CSS pixels.

import { unpack } from "./bytes.js";
import { element, ending, labelled, placeIn, presentedHeight, quantityText } from "./elements.js";
import { exact, precise } from "./numbers.js";
import { shown } from "./chips.js";
import { hover, tellPlace } from "./bus.js";
import { besideAxis, FONT, MARK, shortened } from "./pens.js";
import { axisMarks, finite, range, scaleOf, spread } from "./scales.js";
import { buildPlot, litOf, paintSoon, showPlot, showTip, within } from "./plot.js";

/** @typedef {any} ChartPlace */

const TALL = 240; // of the plane, unless the header says how much
const LEGEND = { line: 18, mark: 18, gap: 16 };
const BAND = "rgba(128,128,128,0.18)"; // behind what is chosen or lit
const MARK_LINES = 4; // of texts of what happened; for more there is no room
const SPELLED = 60; // labels of dots; above that they are shown under the pointer

/** @param {ShownSeries[]} series @param {Measure} measure @param {number} left @param {number} width */
function legendOf(series, measure, left, width) {
  const named = series.length > 1 ? series.filter(({ quiet }) => !quiet) : [];
  const rooms = named.map(({ name }) => LEGEND.mark + 5 + measure.words(name));
  const start = Math.max(0, ...rooms) > width - left ? 0 : left; // beside the plane where a name is too long for it
  let [x, line] = [start, 0];
  const places = rooms.map((room) => {
    if (x > start && x + room > width) [x, line] = [start, line + 1];
    const place = [x, line];
    x += room + LEGEND.gap;
    return place;
  });
  return { places, height: named.length ? (line + 1) * LEGEND.line + 4 : 0 };
}

// Between two bars of a numeric axis: their smallest distance, in CSS pixels.
/** @param {ShownSeries[]} series @param {number[]} pair @param {number} width */
function barWidth(series, [low, high], width) {
  const places = series.filter(({ mark }) => mark === "bars").flatMap(({ xs }) => [...xs]).sort((a, b) => a - b);
  const gaps = places.slice(1).map((place, index) => place - places[index]).filter((gap) => gap > 0);
  return (width * Math.min(high - low, ...gaps)) / (high - low);
}

// As much of a text as there is room for.
/** @param {string} text @param {number} room @param {Measure} measure */
function fitted(text, room, measure) {
  let kept = text;
  while (kept.length > 1 && measure.words(kept) > room) kept = kept.slice(0, -2) + "…";
  return kept;
}

// What is written at which places of the x-axis: texts that would touch stand below each other, or are left out.
/**
 * @param {MarkHeader[]} marks @param {number[]} pair @param {(value: number) => number} scale
 * @param {number} left @param {number} right @param {Measure} measure
 */
function placeMarks(marks, [low, high], scale, left, right, measure) {
  /** @type {number[]} */
  const ends = [];
  return marks.filter(({ x }) => x >= low && x <= high && finite(scale(x))).map(({ x, text: whole }) => {
    const text = fitted(whole, right - left - 4, measure);
    const [at, wide] = [scale(x), measure.words(text)];
    const from = Math.max(left + 2, at + 5 + wide > right ? at - 5 - wide : at + 5);
    let line = ends.findIndex((end) => end < from);
    if (line < 0 && ends.length < MARK_LINES) line = ends.length;
    if (line >= 0) ends[line] = from + wide + 8;
    return { at, text, from, wide, line };
  });
}

/**
 * @param {ShownChartHeader} header @param {number} width @param {number} ratio @param {Measure} measure
 * @returns {ChartPlace}
 */
function arrangeChart(header, width, ratio, measure) {
  const { x, y, series, marks: happened = [] } = header;
  const tall = Math.max(header.tall ?? TALL, presentedHeight());
  /** @param {"xs" | "ys"} side */
  const values = (side) => series.flatMap((each) => [...each[side]]);
  const bars = series.some(({ mark }) => mark === "bars");
  const ranges = {
    x: x.labels ? [-0.5, Math.max(x.labels.length, 1) - 0.5] : range(x, values("xs")),
    y: range({ ...y, zero: y.zero ?? bars }, values("ys")),
  };
  const marks = axisMarks(ranges.y, y.log, Math.max(2, Math.floor(tall / 34)));
  const titled = besideAxis(y.title, measure);
  const left = 26 + titled.room + Math.max(...marks.map(([, text]) => measure(text)), 8);
  const legend = legendOf(series, measure, left, width);
  const right = width - (x.labels ? 10 : 20); // the last number of an axis reaches out
  const across = scaleOf(ranges.x, x.log, left, right);
  const written = placeMarks(happened, ranges.x, across, left, right, measure);
  const top = 8 + legend.height + Math.max(0, ...written.map(({ line }) => line + 1)) * LEGEND.line;
  const names = x.labels?.map(shortened) ?? [];
  const widest = Math.max(0, ...names.map(measure));
  const wide = x.labels ? (right - left) / Math.max(1, names.length) : barWidth(series, ranges.x, right - left);
  const turn = widest + 6 <= wide ? 0 : -90;
  const named = spread(turn ? names.length : 0, wide, turn ? FONT + 1 : 0);
  const below = (x.labels ? (turn ? named.levels * (widest + 6) + 12 : FONT + 10) : 20) + (x.title ? 16 : 0);
  const place = {
    legend, names, turn, wide, left, right, top, marks, ranges, width, measure, written,
    bottom: top + tall,
    ...named, widest,
    x: across,
    y: scaleOf(ranges.y, y.log, top + tall, top),
    titled: Math.ceil(top + tall + below) - 7,
  };
  const dots = placeNames(header, place);
  return { ...place, ...dots, height: place.titled + 7 + (dots.unnamed ? LEGEND.line : 0) };
}

/** @param {Pen} pen @param {ChartPlace} place @param {any} given */
function drawAxes(pen, place, { x, y, lit, pointed }) {
  const { left, right, top, bottom, names, turn, every, levels, widest } = place;
  for (const [value, text] of place.marks) {
    const at = place.y(value);
    pen.line([[left, at], [right, at]], { width: 1, faint: true });
    pen.text(text, left - 6, at, { align: "right" });
  }
  const title = fitted(y.title, 2 * Math.min((top + bottom) / 2, place.height - (top + bottom) / 2), place.measure);
  const { turn: turned, middle } = besideAxis(y.title, place.measure);
  pen.text(title, middle, (top + bottom) / 2, { align: "center", turn: -turned });
  const shownX = names.length ? names.map((/** @type {string} */ name, /** @type {number} */ index) => /** @type {Mark} */ ([index, name])) : axisMarks(place.ranges.x, x.log, Math.floor((right - left) / 70));
  shownX.forEach((/** @type {Mark} */ [value, text], /** @type {number} */ index) => {
    const marked = names.length && (index === pointed.index || index === lit[x.side]);
    if (names.length && index % every && !marked) return;
    const align = turn && names.length ? "right" : "center";
    const down = names.length ? (index % levels) * (widest + 6) : 0;
    if (down) pen.line([[place.x(value), bottom + 3], [place.x(value), bottom + 10 + down]], { width: 1, faint: true });
    pen.text(text, place.x(value), bottom + 13 + down, { align, turn: names.length ? turn : 0, marked, token: names.length > 0 && !x.prose });
    if (!names.length) pen.line([[place.x(value), bottom], [place.x(value), bottom + 4]], { width: 1 });
  });
  pen.text(x.title, (left + right) / 2, place.titled, { align: "center" });
}

// The pieces of a curve between its gaps, as points on the plane.
/** @param {ShownSeries} series @param {ChartPlace} place @param {ShownChartHeader} header */
function pieces({ xs, ys }, place, { x, y }) {
  /** @type {Point[][]} */
  const found = [[]];
  ys.forEach((value, index) => {
    const usable = finite(value) && finite(xs[index]) && (!y.log || value > 0) && (!x.log || xs[index] > 0);
    if (usable) found[found.length - 1].push([place.x(xs[index]), place.y(value), index]);
    else if (found[found.length - 1].length) found.push([]);
  });
  return found;
}

/** @param {Pen} pen @param {ChartPlace} place @param {ShownChartHeader} header @param {ShownSeries} series */
function drawSeries(pen, place, header, series) {
  const { colour, dash, mark = "line" } = series;
  const style = { colour, dash: dash ? [5, 4] : [] };
  const bars = header.series.filter((each) => each.mark === "bars");
  const share = Math.max(1, (0.8 * place.wide) / bars.length);
  for (const piece of pieces(series, place, header)) {
    if (mark === "line") {
      if (piece.length > 1) pen.line(piece, style);
      if (piece.length === 1 || (piece.length < 40 && header.x.labels)) piece.forEach(([x, y]) => pen.dot(x, y, 2.4, colour));
    }
    for (const [x, y, index] of mark === "bars" ? piece : []) {
      const base = place.y(Math.max(place.ranges.y[0], Math.min(place.ranges.y[1], 0)));
      if (y === base) continue; // a bar of 0 is none
      const left = x - 0.4 * place.wide + bars.indexOf(series) * share;
      pen.box(left, Math.min(y, base), Math.max(1, share - 1), Math.max(0.5, Math.abs(base - y)), series.colours?.[index] ?? colour);
    }
    for (const [x, y, index] of mark === "dots" ? piece : []) pen.dot(x, y, 3.5, series.colours?.[index] ?? colour);
  }
}

// The dot of a token that is chosen, or lit somewhere on the page: larger, in a ring; if lit, with its name whatever that covers.
/**
 * @param {Pen} pen @param {ChartPlace} place @param {ShownChartHeader} header
 * @param {Record<string, number>} lit @param {number} chosen
 */
function drawLitDots(pen, place, header, lit, chosen) {
  for (const series of header.series) {
    if (!series.side) continue;
    for (const [x, y, index] of pieces(series, place, header).flat()) {
      if (index !== lit[series.side] && index !== chosen) continue;
      pen.dot(x, y, 7.5, MARK);
      pen.dot(x, y, 4.5, series.colours?.[index] ?? series.colour);
      const name = index === lit[series.side] ? shortened(series.labels?.[index] ?? "") : "";
      const right = x + 12 + place.measure(name) < place.width;
      if (name) pen.text(name, x + (right ? 12 : -12), y, { align: right ? "left" : "right", marked: true, token: true });
    }
  }
}

// Names of dots where there is room for them, in the order of series and dots, and how many have none: the pointer has to
// ask for these. Dots of one name in one place have it once.
/** @param {ShownChartHeader} header @param {ChartPlace} place */
function placeNames(header, place) {
  const dots = header.series.filter(({ mark }) => mark === "dots").map((series) => ({ series, points: pieces(series, place, header).flat() }));
  const taken = dots.flatMap(({ points }) => points.map(([x, y]) => boxAround(x, y, 3.5, 3.5)));
  /** @type {{ name: string, x: number, y: number }[]} */
  const seen = [];
  const spelled = [];
  let unnamed = 0;
  for (const { series: { labels, ys, side }, points } of dots) {
    const first = side ? points.filter(([, , index]) => index === header.chosen) : []; // its name is there before all
    for (const [x, y, index] of labels ? [...first, ...points] : []) {
      const name = shortened(labels?.[index] ?? "");
      if (seen.some((other) => other.name === name && Math.hypot(other.x - x, other.y - y) < 4)) continue;
      seen.push({ name, x, y });
      const spot = ys.length > SPELLED ? null : freeSpot(place, taken, x, y, place.measure(name));
      if (spot) spelled.push({ name, spot });
      else unnamed += 1;
    }
  }
  return { spelled, unnamed };
}

/** @param {number} x @param {number} y @param {number} wide @param {number} high */
const boxAround = (x, y, wide, high) => ({ left: x - wide, right: x + wide, top: y - high, bottom: y + high });

// Where a name so wide meets no other name, no dot and no edge of the plane: right or left of its dot, a line higher or
// lower, above or below it.
/** @param {ChartPlace} place @param {Box[]} taken @param {number} x @param {number} y @param {number} wide */
function freeSpot({ left, width, top, bottom }, taken, x, y, wide) {
  const [right, before, over] = [x + 6, x - 6 - wide, x - wide / 2];
  const places = [[right, 0], [before, 0], [right, -FONT], [before, -FONT], [right, FONT], [before, FONT], [over, -FONT], [over, FONT]];
  for (const [from, down] of places) {
    const box = boxAround(from + wide / 2, y + down, wide / 2, FONT / 2 + 1);
    /** @param {Box} other */
    const meets = (other) => box.left < other.right && other.left < box.right && box.top < other.bottom && other.top < box.bottom;
    if (from < left + 2 || box.right > width || box.top < top - 4 || box.bottom > bottom || taken.some(meets)) continue;
    taken.push(box);
    return [from, y + down];
  }
  return null;
}

// Lines at places of a numeric axis, with what happened there; a text that would meet another stands under it.
/** @param {Pen} pen @param {ChartPlace} place */
function drawMarks(pen, { legend, written, bottom }) {
  const above = 8 + legend.height;
  for (const { at } of written) pen.line([[at, above], [at, bottom]], { width: 1, dash: [2, 3] });
  for (const { text, from, wide, line } of written) {
    if (line < 0) continue;
    const y = above + 8 + line * LEGEND.line;
    pen.box(from - 2, y - FONT / 2 - 1, wide + 2, FONT + 2, pen.background); // over the lines
    pen.text(text, from, y, { faint: true });
  }
}

/** @param {Pen} pen @param {ChartPlace} place @param {ShownChart} shown */
function drawChart(pen, place, { header, lit = {}, pointed = {}, chosen = -1 }) {
  const { x, series } = header;
  const { left, right, top, bottom, wide } = place;
  /** @param {number} index @param {string} colour */
  const band = (index, colour) => pen.box(place.x(index) - wide / 2, top, wide, bottom - top, colour);
  if (chosen >= 0 && place.names.length) band(chosen, BAND);
  const token = litOf(lit, x);
  if (token >= 0 && token < place.names.length) band(token, BAND);
  drawAxes(pen, place, { ...header, lit, pointed });
  if (place.ranges.y[0] < 0 && place.ranges.y[1] > 0) pen.line([[left, place.y(0)], [right, place.y(0)]], { width: 1 });
  series.forEach((each) => drawSeries(pen, place, header, each));
  for (const { name, spot } of place.spelled) pen.text(name, spot[0], spot[1], { token: true });
  if (place.unnamed) {
    const said = header.words.unnamed.replace("{count}", place.unnamed.toLocaleString("en"));
    pen.text(fitted(said, place.width - left, place.measure), left, place.height - 8, { faint: true });
  }
  drawLitDots(pen, place, header, lit, chosen);
  drawMarks(pen, place);
  const named = series.filter(({ quiet }) => !quiet);
  place.legend.places.forEach((/** @type {number[]} */ [at, line], /** @type {number} */ index) => {
    const y = 8 + line * LEGEND.line;
    const { name, colour, dash, mark = "line" } = named[index];
    if (mark === "line") pen.line([[at, y], [at + LEGEND.mark, y]], { colour, width: 2.5, dash: dash ? [5, 4] : [] });
    else pen.dot(at + LEGEND.mark / 2, y, 4, colour);
    const from = at + LEGEND.mark + 5;
    pen.text(fitted(name, place.width - from, place.measure), from, y, {});
  });
  if (pointed.at) {
    pen.line([[pointed.at[0], top], [pointed.at[0], bottom]], { width: 1, faint: true });
    for (const [px, py, colour] of pointed.dots) pen.dot(px, py, 4, colour);
  }
}

// Number of a point on an axis of tokens, where a series may begin behind the first one; else its number in its series.
/** @param {ShownChartHeader} header @param {ShownSeries} series @param {number} index */
const placeOf = ({ x }, { xs }, index) => (x.labels ? xs[index] : index);

// For each series its point nearest to the pointer: by place on the axis, dots by distance on the plane.
/** @param {PlotRoot<ChartPlace, ShownChart>} root @param {Pointed} event */
function nearest(root, event) {
  const { place, canvas, shown } = root;
  const [px, py] = placeIn(canvas, event);
  if (px < place.left - 4 || px > place.right + 4 || py < place.top || py > place.bottom) return [];
  const found = shown.header.series.flatMap((series) => {
    let best = null;
    for (const [x, y, index] of pieces(series, place, shown.header).flat()) {
      const away = series.mark === "dots" ? Math.hypot(x - px, y - py) : Math.abs(x - px);
      if (!best || away < best.away) best = { x, y, index, series, away, apart: Math.abs(y - py) };
    }
    return best ? [best] : [];
  });
  const closest = Math.min(...found.map(({ away }) => away));
  return found.filter(({ away }) => away <= closest + 3).sort((a, b) => a.apart - b.apart);
}

/** @param {PlotRoot<ChartPlace, ShownChart>} root @param {Pointed} [event] */
function pointChart(root, event) {
  const { header } = root.shown;
  const found = event ? nearest(root, event) : [];
  const [first] = found;
  const at = first ? placeOf(header, first.series, first.index) : -1;
  root.pointed = first ? { index: at, at: [first.x, first.y], dots: found.map(({ x, y, series }) => [x, y, series.colour]) } : {};
  if (header.x.side) hover(header.x.side, header.x.labels ? at : -1);
  for (const { side } of header.series) if (side) hover(side, first?.series.side === side ? first.index : -1);
  paintSoon(root);
  if (!first) return showTip(root);
  const { series, index } = first;
  const label = series.labels?.[index] ?? header.x.labels?.[at];
  const title = label === undefined ? `${header.x.title} ${precise(series.xs[index])}`.trim() : shown(label);
  const inOrder = found.slice(0, 12).sort((a, b) => header.series.indexOf(a.series) - header.series.indexOf(b.series)); // of the legend
  const rows = inOrder.map(({ series: { name, xs, ys, mark }, index: point }) => {
    const said = label === undefined && xs[point] === series.xs[index]; // by the title
    const number = precise(ys[point]);
    const own = mark === "dots" && !said ? `${header.x.title} ${precise(xs[point])}, ${header.y.title} ${number}` : "";
    return element("div", "", header.series.length > 1 ? labelled(name, own || number) : own || quantityText(header.y.title, number));
  });
  showTip(root, [element("div", "pair", title), ...rows], first.x + 12, first.y);
}

/** @param {PlotRoot<ChartPlace, ShownChart>} root @param {Pointed} event */
function clickChart(root, event) {
  const [first] = nearest(root, event);
  const { header } = root.shown;
  if (first) root.choose({ series: header.series.indexOf(first.series), index: placeOf(header, first.series, first.index), point: first.index });
}

// The next point of a series, or the same one of another series.
/** @param {PlotRoot<ChartPlace, ShownChart>} root @param {any} from @param {number} right @param {number} down */
function walkChart({ place, shown: { header, chosen } }, from, right, down) {
  const drawn = header.series.map((line) => ({ line, points: pieces(line, place, header).flat() })).filter(({ points }) => points.length);
  if (!drawn.length) return { x: place.left, y: place.top };
  const series = within((from?.series ?? 0) + down, drawn.length);
  const { line, points } = drawn[series];
  const first = points.findIndex(([, , index]) => placeOf(header, line, index) === chosen);
  const point = within((from?.point ?? Math.max(0, first)) + right, points.length);
  const [x, y] = points[point];
  return { series, point, x, y };
}

/** @param {ShownChart} shown @returns {string[][]} */
function chartLines({ header }) {
  const { words, x, series } = header;
  return [
    words.csv,
    ...series.flatMap(({ name, xs, ys, labels }) =>
      [...ys].map((y, index) => [name, labels?.[index] ?? x.labels?.[xs[index]] ?? exact(xs[index]), exact(y)]),
    ),
  ];
}

/** @type {PlotKind<ChartPlace, ShownChart>} */
const CHART = {
  arrange: arrangeChart, draw: drawChart, point: pointChart, click: clickChart, walk: walkChart, lines: chartLines,
  sides: (/** @type {ChartHeader} */ { x, series }) => [x.side, ...series.map(({ side }) => side)],
};

/** @param {Given} given */
export default function ({ data, key, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".vitrine") ?? buildPlot(parentElement, "chart", CHART);
  /** @type {ShownChartHeader & Behind} */
  const header = unpack(data);
  header.series.forEach((/** @type {ShownSeries} */ series, /** @type {number} */ index) => {
    series.xs = header.arrays[2 * index];
    series.ys = header.arrays[2 * index + 1];
  });
  root.choose = (/** @type {{ series: number, index: number, point: number }} */ { series, index, point }) => {
    setTriggerValue("place", { series, index });
    tellPlace({ key, x: header.series[series].xs[point] });
  };
  root.explain = () => setTriggerValue("about", performance.now());
  showPlot(root, { header, chosen: header.chosen });
  return ending(root);
}
