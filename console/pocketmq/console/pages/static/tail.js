// The page that follows a topic. Messages are written by textContent only: they are not trusted.

import { readEvents } from "./following.js";
import { count, time } from "./numbers.js";

const ROWS_MAX = 500;
const TYPED_INTO = "input, textarea, select, button, summary, a, [contenteditable]";

const section = document.getElementById("tail");
const rows = section.querySelector("tbody");
const state = document.getElementById("tail-state");
const button = document.getElementById("tail-button");
const totals = { shown: 0, notShown: 0, notFitting: 0 };
let request = null;
let cursor = null;

async function start() {
  request = new AbortController();
  button.textContent = "Pause";
  state.textContent = "Following.";
  const query = new URLSearchParams(section.dataset.query);
  if (cursor) query.set("cursor", cursor);
  const { signal } = request;
  let why = "The connection has ended.";
  try {
    await readEvents(`${section.dataset.source}?${query}`, signal, (batch) => {
      if (signal.aborted) return;
      take(batch);
      if (batch.ended) why = `Ended: ${batch.why}.`;
    });
  } catch (error) {
    if (signal.aborted) return;
    why = error instanceof TypeError ? "The connection was lost." : error.message;
  }
  if (!signal.aborted) stop(why);
}

function stop(why) {
  request.abort();
  request = null;
  button.textContent = "Go on";
  state.textContent = why;
}

function turn() {
  if (request) stop("Paused. What comes meanwhile is counted.");
  else start();
}

function take(batch) {
  cursor = batch.cursor;
  totals.shown += batch.messages.length;
  totals.notShown += batch.notShown;
  totals.notFitting += batch.notFitting;
  for (const [name, number] of Object.entries(totals)) {
    document.getElementById(`tail-${name}`).textContent = count(number);
  }
  document.getElementById("tail-problems").textContent = batch.problems.join(" ");
  const made = batch.messages.map(messageRow).reverse();
  if (batch.notShown) made.push(gapRow(batch.notShown));
  rows.prepend(...made);
  while (rows.rows.length > ROWS_MAX) rows.deleteRow(-1);
}

function messageRow(message) {
  const row = document.createElement("tr");
  const link = document.createElement("a");
  link.href = `${section.dataset.messages}/${encodeURIComponent(message.msgId ?? "")}`;
  link.textContent = count(message.offset);
  cell(row, time(message.storedMs));
  cell(row, `${message.broker}:${message.queue}`);
  cell(row, "", "number").append(link);
  cell(row, message.keys);
  cell(row, message.tag ?? "");
  const body = cell(row, message.body ?? "", "body");
  if (message.isCut) body.append("…");
  if (message.body === null) {
    const small = document.createElement("small");
    small.textContent = section.dataset.bodies ? "binary" : "hidden";
    body.append(small);
  }
  return row;
}

function gapRow(number) {
  const row = document.createElement("tr");
  row.className = "gap";
  cell(row, `${count(number)} not shown`).colSpan = 6;
  return row;
}

function cell(row, text, kind = "") {
  const made = row.insertCell();
  made.textContent = text;
  made.className = kind;
  return made;
}

button.addEventListener("click", turn);
document.getElementById("tail-clear").addEventListener("click", () => rows.replaceChildren());
document.addEventListener("keydown", (event) => {
  if (event.key !== " " || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest?.(TYPED_INTO) || document.querySelector("dialog[open]")) return;
  event.preventDefault();
  turn();
});
addEventListener("pagehide", () => request?.abort());
start();
