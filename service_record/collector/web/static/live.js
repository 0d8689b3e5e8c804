// Updates an open page: counts elapsed times up each second, and replaces changed parts by HTML that the
// server rendered and sent as events. Without this script, pages are complete but do not change.
"use strict";

const LONGEST_WAIT = 60000; // milliseconds between two attempts to connect

const region = document.querySelector("[data-stream]");
// Milliseconds that the collector's clock is ahead of the browser's.
const skew = region ? Number(region.dataset.now) * 1000 - Date.now() : 0;

// Format a duration in seconds like `took` in pages.py on the server: `12s`, `2m 3s`, `1h 5m`, `3d 4h`.
function took(seconds) {
  const whole = Math.max(Math.floor(seconds), 0);
  if (whole < 60) return `${whole}s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}m ${whole % 60}s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)}h ${Math.floor((whole % 3600) / 60)}m`;
  return `${Math.floor(whole / 86400)}d ${Math.floor((whole % 86400) / 3600)}h`;
}

function setText(element, text) {
  if (element && element.textContent !== text) element.textContent = text;
}

function tick() {
  const now = (Date.now() + skew) / 1000;
  for (const each of document.querySelectorAll("[data-ago]")) {
    setText(each, `${took(now - each.dataset.ago)} ago`);
  }
  for (const each of document.querySelectorAll("[data-since]")) setText(each, took(now - each.dataset.since));
}

// --- changes of the page ----------------------------------------------------------------------------------

function parseHtml(html) {
  const holder = document.createElement("template");
  holder.innerHTML = html;
  return holder.content;
}

// Replace an element by a fragment with one element. Keep open details, scroll positions and the focus.
function replace(old, made) {
  const findFocused = old.contains(document.activeElement) ? makeFinder(old, document.activeElement) : null;
  const opened = [...old.querySelectorAll("details[id][open]")].map((each) => each.id);
  const scrolled = [...old.querySelectorAll(".scroll")].map((each) => each.scrollLeft);
  const fresh = made.firstElementChild;
  old.replaceWith(made);
  for (const id of opened) {
    const found = document.getElementById(id);
    if (found) found.open = true;
  }
  fresh.querySelectorAll(".scroll").forEach((each, number) => (each.scrollLeft = scrolled[number] || 0));
  if (findFocused) findFocused(fresh)?.focus({ preventScroll: true });
}

// Return a function that finds the counterpart of an element in the new content: by its id, by the address of
// a link, or by its position among elements of the same kind.
function makeFinder(around, element) {
  if (element.id) return (fresh) => fresh.querySelector(`#${CSS.escape(element.id)}`);
  const selector = element.hasAttribute("href")
    ? `${element.localName}[href="${CSS.escape(element.getAttribute("href"))}"]`
    : element.localName;
  const place = [...around.querySelectorAll(selector)].indexOf(element);
  return (fresh) => fresh.querySelectorAll(selector)[place] || fresh.querySelector(selector);
}

let shownTitle = document.title;

function change(event) {
  const changes = JSON.parse(event.data);
  region.dataset.state = changes.state;
  if ("whole" in changes) replace(region.firstElementChild, parseHtml(changes.whole));
  for (const [name, html] of Object.entries(changes.rows || {})) {
    const row = region.querySelector(`[data-row="${CSS.escape(name)}"]`);
    if (row) replace(row, parseHtml(html));
  }
  const tally = document.getElementById("tally");
  if ("tally" in changes && tally) replace(tally, parseHtml(changes.tally));
  const title = document.getElementById("tally")?.dataset.title;
  if (title && title !== shownTitle) document.title = shownTitle = title;
  if ("sentence" in changes) setText(document.querySelector("[data-sentence]"), changes.sentence);
  tick();
}

// --- the stream -------------------------------------------------------------------------------------------

const liveState = document.querySelector("[data-live-state]");
const pause = document.createElement("button");
let stream = null;
let failures = 0;
let retryTimer = 0;

function connect() {
  disconnect();
  const address = new URL(region.dataset.stream, location.href);
  address.searchParams.set("state", region.dataset.state);
  stream = new EventSource(address);
  stream.addEventListener("open", () => {
    failures = 0;
    setText(liveState, "Live");
  });
  stream.addEventListener("change", change);
  for (const last of ["over", "gone"]) {
    stream.addEventListener(last, (event) => {
      stop();
      setText(liveState, `Not live: ${event.data}.`);
    });
  }
  stream.addEventListener("poll", (event) => {
    disconnect();
    retryTimer = setTimeout(connect, 1000 * Number(event.data) * (0.5 + Math.random()));
  });
  stream.addEventListener("error", () => {
    disconnect();
    failures += 1;
    const wait = Math.min(1000 * 2 ** failures, LONGEST_WAIT) * (0.5 + Math.random() / 2);
    setText(liveState, "Not live: trying to connect again.");
    retryTimer = setTimeout(connect, wait);
  });
}

function disconnect() {
  clearTimeout(retryTimer);
  if (stream) stream.close();
  stream = null;
}

function stop() {
  disconnect();
  document.removeEventListener("visibilitychange", follow);
  pause.remove();
}

// Connect only while the page is visible and not paused: a browser has few connections for all its tabs.
function follow() {
  const isPaused = pause.getAttribute("aria-pressed") === "true";
  if (document.hidden || isPaused) {
    disconnect();
    setText(liveState, "Paused");
  } else if (!stream) {
    connect();
  }
}

tick();
setInterval(tick, 1000);
if (region) {
  pause.type = "button";
  pause.textContent = "Pause";
  pause.setAttribute("aria-pressed", "false");
  pause.addEventListener("click", () => {
    pause.setAttribute("aria-pressed", String(pause.getAttribute("aria-pressed") !== "true"));
    follow();
  });
  liveState.after(" ", pause);
  document.addEventListener("visibilitychange", follow);
  follow();
}
