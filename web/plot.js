// SPDX-License-Identifier: Apache-2.0
// Small line plots in SVG.

const NS = "http://www.w3.org/2000/svg";
const LEFT = 44, RIGHT = 8, TOP = 10, BOTTOM = 22;

function node(name, attributes = {}, text) {
  const made = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// The next 1, 2 or 5 times a power of ten.
function roundUp(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  for (const step of [1, 2, 5, 10]) if (value <= step * power * 1.0001) return step * power;
  return 10 * power;
}

// Points that follow each other; where one is missing, nothing is known.
function pieces(points) {
  const found = [[]];
  for (const point of points) if (point) found.at(-1).push(point); else if (found.at(-1).length) found.push([]);
  return found.filter((piece) => piece.length);
}

// A line through each piece; a point alone is a dot.
const line = (piece) => `M${piece.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L")}${piece.length === 1 ? "h0" : ""}`;
const path = (points) => pieces(points).map(line).join("");
const area = (points, floor) => pieces(points).filter((piece) => piece.length > 1)
  .map((piece) => `${line(piece)}L${piece.at(-1)[0].toFixed(1)} ${floor}L${piece[0][0].toFixed(1)} ${floor}Z`).join("");

// SERIES: [{ name, values }], each value a number or null, newest last, STEP_S apart.
// SHOW turns a number into words; NAME says what the plot is, for those who hear it.
export function plot(into, series, { count, stepS, show, name }) {
  const width = into.clientWidth || 480, height = into.clientHeight || 170;
  const floor = height - BOTTOM;
  const all = series.flatMap((s) => s.values).filter((v) => v !== null);
  const top = roundUp(Math.max(0, ...all));
  const x = (i) => LEFT + (width - LEFT - RIGHT) * (i / (count - 1));
  const y = (v) => floor - (floor - TOP) * (v / top);
  const last = series.map((s) => s.values.at(-1)).map((v) => v === null || v === undefined ? "none" : show(v));
  const svg = node("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${name}: now ${last.join(", ")}` });

  for (const part of [0, 0.5, 1]) {
    svg.append(node("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(top * part), y2: y(top * part) }),
               node("text", { x: LEFT - 8, y: y(top * part) + 4, "text-anchor": "end" }, show(top * part)));
  }
  const minutes = Math.floor((count - 1) * stepS / 60);
  for (let m = 0; m <= minutes; m++) {
    const at = count - 1 - m * 60 / stepS;
    svg.append(node("text", { x: x(at), y: height - 4, "text-anchor": m === 0 ? "end" : "middle" }, m === 0 ? "now" : `−${m} min`));
  }
  series.forEach((s, index) => {
    const group = node("g", { class: s.name });
    const offset = count - s.values.length;
    const points = s.values.map((v, i) => v === null ? null : [x(offset + i), y(v)]);
    if (index === 0) group.append(node("path", { class: "fill", d: area(points, floor) }));
    group.append(node("path", { class: "line", d: path(points) }));
    svg.append(group);
  });
  into.replaceChildren(svg);
}

// A bar of PART (0 to 1).
export function bar(part) {
  const svg = node("svg", { viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" });
  svg.append(node("rect", { width: Math.max(part > 0 ? 1 : 0, part * 100), height: 8, rx: 2 }));
  return svg;
}
