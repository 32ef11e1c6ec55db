// Charts of rates over time, each with its table; the server computes the rates.

import { count, rate, time } from "./numbers.js";

const HEIGHT = 180;
const SHOWN_S = 60;
const TRY_AGAIN_MS = 5000;

for (const section of document.querySelectorAll("[data-rates]")) keep(section);

async function keep(section) {
  const state = section.querySelector(".rates-state");
  let chart = null;
  let stepMs = TRY_AGAIN_MS;
  for (;;) {
    try {
      const answer = await fetch(section.dataset.rates);
      const found = await answer.json();
      if (!answer.ok) throw new Error(`${found.title}: ${found.detail}`);
      stepMs = found.stepS * 1000;
      state.textContent = found.points.length ? "" : `The first step ends in ${found.stepS} s.`;
      if (found.points.length) chart = drawn(section, chart, found.points);
      fillTable(section, found.points);
    } catch (error) {
      state.textContent = error instanceof TypeError ? "The console does not answer." : error.message;
    }
    await pause(stepMs);
  }
}

async function pause(ms) {
  await new Promise((done) => setTimeout(done, ms));
  while (document.hidden) {
    await new Promise((done) => document.addEventListener("visibilitychange", done, { once: true }));
  }
}

function drawn(section, chart, points) {
  const columns = [points.map((point) => point.timeMs / 1000)];
  for (const name of names(section)) columns.push(points.map((point) => point[name]));
  if (chart) {
    chart.setData(columns);
    return chart;
  }
  const place = section.querySelector(".chart");
  const text = () => getComputedStyle(place).color;
  const line = () => getComputedStyle(place).borderTopColor;
  const axis = { stroke: text, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
  const options = {
    width: place.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    scales: {
      x: { range: (_, first, last) => [Math.min(first, last - SHOWN_S), last] },
      y: { range: (_, low, high) => [0, Math.max(high, 1)] },
    },
    axes: [{ ...axis, values: (_, ticks) => ticks.map(clock), space: 80 }, { ...axis, size: 70 }],
    series: [{}, ...names(section).map((name) => seriesOf(section, name))],
  };
  const made = new uPlot(options, columns, place);
  new ResizeObserver(() => made.setSize({ width: place.clientWidth, height: HEIGHT })).observe(place);
  return made;
}

function clock(seconds) {
  return new Date(seconds * 1000).toISOString().slice("2026-11-25T".length, -".000Z".length);
}

function names(section) {
  return section.dataset.series.split(" ");
}

function seriesOf(section, name) {
  const mark = section.querySelector(`.mark-${name}`);
  const dash = name === "outRate" ? [6, 4] : [];
  return { stroke: () => getComputedStyle(mark).color, width: 2, dash, points: { show: false } };
}

function fillTable(section, points) {
  const rows = [...points].reverse().map((point) => {
    const row = document.createElement("tr");
    row.insertCell().textContent = time(point.timeMs);
    number(row, rate(point.inRate));
    number(row, rate(point.outRate));
    if ("left" in section.dataset) number(row, point.left === null ? "–" : count(point.left));
    return row;
  });
  section.querySelector("tbody").replaceChildren(...rows);
}

function number(row, text) {
  const cell = row.insertCell();
  cell.className = "number";
  cell.textContent = text;
}
