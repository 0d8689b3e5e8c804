// What a page can do besides being read: filter, zoom and pan charts, show what is behind a bar, copy commands.
// The page is complete without this script. Nothing is loaded, sent or stored.
"use strict";

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function button(label, attributes, act) {
  const made = element("button", { type: "button", ...attributes }, label);
  made.addEventListener("click", act);
  return made;
}

// --- copy -------------------------------------------------------------------------------------------------

async function copy(text, pressed) {
  let isCopied = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // A browser that has no clipboard for this page (plain HTTP) still copies what is selected.
    const field = element("textarea", { readonly: "" });
    field.value = text;
    field.style.position = "fixed"; // or the page scrolls to it
    document.body.append(field);
    field.select();
    isCopied = document.execCommand("copy");
    field.remove();
    pressed.focus();
  }
  const label = pressed.textContent;
  pressed.textContent = isCopied ? "Copied" : "Select and copy it";
  setTimeout(() => (pressed.textContent = label), 2000);
}

function addCopyButtons(root) {
  for (const text of root.querySelectorAll("[data-copy]:not([data-ready])")) {
    text.dataset.ready = "";
    const label = `Copy ${text.dataset.copy}`;
    const made = button("Copy", { class: "copy", "aria-label": label }, () => copy(text.textContent.trim(), made));
    const ticket = text.closest(".ticket");
    if (ticket) ticket.append(made);
    else text.after(" ", made);
  }
}

// --- parts that are folded --------------------------------------------------------------------------------

function unfold(target) {
  for (let part = target; part; part = part.parentElement) if (part.localName === "details") part.open = true;
}

function followAddress() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  unfold(target);
  target.scrollIntoView();
}

let folded = [];

function unfoldAll() {
  folded = [...document.querySelectorAll("details:not([open])")];
  for (const part of folded) part.open = true;
}

function foldAgain() {
  for (const part of folded) part.open = false;
}

// --- filter -----------------------------------------------------------------------------------------------

const ITEMS = ".chart > li[data-name], main article, main details:not(.whole), main tbody tr, .items > li";
const OUTCOMES = ".success, .failure, .interrupted, .running, .stopped";
const TROUBLES = ".failure, .interrupted";

// What an item is found by. The lines of a card below a service's name are found by that name, too.
function textOf(item) {
  const part = item.closest("main section section, main details.service");
  const name = part && part.querySelector("h3, summary");
  return `${item.dataset.name || ""} ${name ? name.textContent : ""} ${item.textContent}`.toLowerCase();
}

function isTrouble(item) {
  if (item.matches(OUTCOMES)) return item.matches(TROUBLES);
  const outcomes = [...item.querySelectorAll(item.localName === "li" ? ".label > :first-child" : OUTCOMES)];
  return !outcomes.length || outcomes.some((each) => each.matches(TROUBLES));
}

function filter(words, onlyTroubles) {
  const items = [...document.querySelectorAll(ITEMS)];
  const found = new Set();
  for (const item of items) {
    const text = words.length ? textOf(item) : "";
    if (words.every((word) => text.includes(word)) && (!onlyTroubles || isTrouble(item))) found.add(item);
  }
  for (const item of [...found]) {
    // A found stage keeps the row of its service, and a found line the parts that it is in.
    if (item.dataset.service) {
      for (const row of item.parentElement.querySelectorAll(":scope > .depth-0[data-service]"))
        if (row.dataset.service === item.dataset.service) found.add(row);
    }
    for (let around = item.parentElement; around; around = around.parentElement) {
      found.add(around);
      if (words.length && around.matches("main details.whole")) around.open = true;
    }
  }
  for (const item of items) item.hidden = !found.has(item);
  const isFiltered = words.length > 0 || onlyTroubles;
  for (const list of document.querySelectorAll(".chart")) list.classList.toggle("filtered", isFiltered);
  for (const part of document.querySelectorAll("main section")) {
    const inside = [...part.querySelectorAll(ITEMS)];
    part.hidden = isFiltered && inside.length > 0 && inside.every((item) => item.hidden);
  }
  const shown = items.filter((item) => !item.hidden).length;
  return isFiltered ? `${shown} of ${items.length} shown` : "";
}

function addFilter(header) {
  const items = [...document.querySelectorAll(ITEMS)];
  if (!items.length) return;
  const hasOutcomes = items.some((item) => item.matches(OUTCOMES) || item.querySelector(OUTCOMES));
  const input = element("input", { type: "search", id: "filter", placeholder: "service, stage, text" });
  const troubles = element("input", { type: "checkbox", id: "troubles" });
  const told = element("output", { class: "faint", role: "status" });
  const apply = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    told.textContent = filter(words, troubles.checked);
  };
  input.addEventListener("input", apply);
  troubles.addEventListener("change", apply);
  const form = element(
    "form",
    { class: "tools", role: "search", "aria-label": "Filter this page" },
    element("label", { for: "filter" }, "Filter"),
    input,
    ...(hasOutcomes ? [element("label", {}, troubles, " only troubles")] : []),
    told,
  );
  form.addEventListener("submit", (event) => event.preventDefault());
  header.after(form);
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !event.target.closest("input, textarea, select")) {
      event.preventDefault();
      input.focus();
    } else if (event.key === "Escape" && event.target === input) {
      input.value = "";
      apply();
    }
  });
}

// --- charts -----------------------------------------------------------------------------------------------

const MINUTE = 60, HOUR = 3600, DAY = 86400;
const STEPS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30].concat(
  [1, 2, 5, 10, 20, 30].map((count) => count * MINUTE),
  [1, 2, 3, 6, 12].map((count) => count * HOUR),
  [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].map((count) => count * DAY),
);
const NARROWEST = 0.01; // percent of a chart that a window shows at least
const DRAG_PIXELS = 5; // a shorter movement is a click

// Seconds as the server writes them: `0.25s`, `1m 10s`, `1d 12h`.
function offset(seconds) {
  if (seconds < 0) return `-${offset(-seconds)}`;
  const whole = Math.round(seconds * 1000) / 1000;
  const amounts = [
    [Math.floor(whole / DAY), "d"],
    [Math.floor((whole % DAY) / HOUR), "h"],
    [Math.floor((whole % HOUR) / MINUTE), "m"],
    [Math.round((whole % MINUTE) * 1000) / 1000, "s"],
  ];
  return amounts.filter(([amount]) => amount).map(([amount, unit]) => amount + unit).join(" ") || "0s";
}

const HINT = matchMedia("(pointer: coarse)").matches ? "two fingers zoom" : "drag over the bars to zoom";
const SVG = "http://www.w3.org/2000/svg";
// Kept while a live page is drawn anew: the part that is shown of each chart, and the services that are folded.
const windows = new Map();
const foldedServices = new Set();

class Chart {
  constructor(list) {
    this.list = list;
    this.id = list.dataset.chart;
    this.axis = JSON.parse(list.dataset.axis); // begin, end (seconds), left, right (percent) of each segment
    this.drawn = [];
    for (const part of list.querySelectorAll("svg rect, svg line, svg text")) {
      const at = part.localName === "line" ? part.getAttribute("x1") : part.getAttribute("x");
      const width = part.localName === "rect" ? parseFloat(part.getAttribute("width")) : 0;
      const isGrid = part.matches(".major, .minor");
      this.drawn.push({ part, left: parseFloat(at), width, isGrid });
    }
    this.addButtons();
    this.addFolding();
    this.addOverview();
    this.addPointers();
    [this.left, this.right] = windows.get(this.id) || [0, 100];
    if (windows.has(this.id)) this.draw();
  }

  addButtons() {
    this.told = element("output", { class: "faint", role: "status" }, HINT);
    const step = (label, name, act) => button(label, { "aria-label": name, title: name }, act);
    this.tools = element(
      "div",
      { class: "tools zoom", role: "group", "aria-label": "Zoom of the chart" },
      this.told,
      step("+", "Zoom in (+)", () => this.zoom(0.5)),
      step("−", "Zoom out (-)", () => this.zoom(2)),
      step("←", "Earlier (left arrow)", () => this.pan(-0.25)),
      step("→", "Later (right arrow)", () => this.pan(0.25)),
      step("Whole", "Whole chart (0)", () => this.show(0, 100)),
    );
    this.list.before(this.tools);
    const keys = {
      "+": () => this.zoom(0.5),
      "=": () => this.zoom(0.5),
      "-": () => this.zoom(2),
      0: () => this.show(0, 100),
      ArrowLeft: () => this.pan(-0.25),
      ArrowRight: () => this.pan(0.25),
    };
    for (const part of [this.tools, this.list]) {
      part.addEventListener("keydown", (event) => {
        if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) return;
        event.preventDefault();
        keys[event.key]();
      });
    }
  }

  // A button after the name of each service with stages hides them; a filter shows what it finds all the same.
  addFolding() {
    const folds = [];
    for (const row of this.list.querySelectorAll(":scope > .depth-0[data-service]")) {
      const { service } = row.dataset;
      const stages = [...this.list.querySelectorAll(":scope > li[data-service]:not(.depth-0)")].filter(
        (each) => each.dataset.service === service,
      );
      if (!stages.length) continue;
      const key = `${this.id} ${service}`;
      const fold = (isFolded) => {
        foldedServices[isFolded ? "add" : "delete"](key);
        for (const stage of stages) stage.classList.toggle("folded", isFolded);
        toggle.setAttribute("aria-expanded", String(!isFolded));
        toggle.textContent = isFolded ? `▸ ${stages.length}` : "▾";
      };
      const name = `Stages of ${service}`;
      const toggle = button("", { class: "fold", "aria-label": name, title: name }, () => fold(!foldedServices.has(key)));
      row.querySelector(".label").append(" ", toggle);
      fold(foldedServices.has(key));
      folds.push([key, fold]);
    }
    if (folds.length < 2) return;
    const foldAll = () => {
      const isFolded = folds.some(([key]) => !foldedServices.has(key));
      for (const [, fold] of folds) fold(isFolded);
    };
    this.tools.prepend(button("Fold stages", { title: "Hide or show the stages of all services" }, foldAll));
  }

  // While a part is shown: a strip of the whole chart, with a frame around that part. A pointer moves the frame.
  addOverview() {
    const rows = [...this.list.querySelectorAll(":scope > .depth-0[data-name]")];
    const height = Math.min(Math.max(rows.length * 4, 16), 48);
    const strip = document.createElementNS(SVG, "svg");
    strip.style.height = `${height}px`;
    const rect = (x, width, y, tall, look) => {
      const made = document.createElementNS(SVG, "rect");
      for (const [name, value] of [["x", `${x}%`], ["width", `${width}%`], ["y", y], ["height", tall], ["class", look]])
        made.setAttribute(name, value);
      strip.append(made);
      return made;
    };
    for (const { part, left, width } of this.drawn) {
      const row = rows.indexOf(part.closest("li"));
      if (row < 0 || !part.matches("a rect:not(.silence)")) continue;
      const step = height / rows.length;
      rect(left, width, row * step, Math.max(step - 1, 1), part.getAttribute("class"));
    }
    this.frame = rect(0, 100, 0, height, "frame");
    this.overview = element("li", { class: "overview", "aria-hidden": "true" }, element("span"), element("span"), strip);
    this.overview.hidden = true;
    this.list.querySelector(".axis").before(this.overview);
    const move = (event) => {
      event.stopPropagation(); // or the chart would begin a selection
      if (!event.buttons) return;
      strip.setPointerCapture(event.pointerId);
      const box = strip.getBoundingClientRect();
      const width = this.right - this.left;
      this.pan((((event.clientX - box.left) / box.width) * 100 - this.left - width / 2) / width);
    };
    strip.addEventListener("pointerdown", move);
    strip.addEventListener("pointermove", move);
  }

  // The place of a pointer, in percent of what is shown.
  place(event) {
    const box = this.list.querySelector(".axis svg").getBoundingClientRect();
    return Math.min(Math.max(((event.clientX - box.left) / box.width) * 100, 0), 100);
  }

  whole(place) {
    return this.left + (place / 100) * (this.right - this.left);
  }

  // A mouse selects what to zoom into, and with Shift moves the chart. A finger moves it; two fingers zoom.
  addPointers() {
    const pointers = new Map();
    let selection = null;
    let hasMoved = false;
    this.list.addEventListener("dragstart", (event) => event.preventDefault());
    this.list.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || !event.target.closest("svg")) return;
      pointers.set(event.pointerId, { begin: event.clientX, last: this.place(event), first: this.place(event) });
      hasMoved = false;
    });
    this.list.addEventListener("pointermove", (event) => {
      const pointer = pointers.get(event.pointerId);
      if (!pointer) return;
      if (!hasMoved && Math.abs(event.clientX - pointer.begin) < DRAG_PIXELS) return;
      if (!hasMoved) this.list.setPointerCapture(event.pointerId);
      hasMoved = true;
      const at = this.place(event);
      if (pointers.size === 2) {
        const other = [...pointers].find(([id]) => id !== event.pointerId)[1].last;
        const [before, after] = [Math.abs(pointer.last - other), Math.abs(at - other)];
        if (before > 1 && after > 1) this.zoom(before / after, other);
      } else if (event.pointerType !== "mouse" || event.shiftKey) {
        this.pan((pointer.last - at) / 100);
      } else {
        selection ??= this.list.appendChild(element("li", { class: "selection", "aria-hidden": "true" }));
        const box = this.list.querySelector(".axis svg").getBoundingClientRect();
        const around = this.list.getBoundingClientRect();
        const [left, right] = [pointer.first, at].sort((a, b) => a - b);
        selection.style.left = `${box.left - around.left + (box.width * left) / 100}px`;
        selection.style.width = `${(box.width * (right - left)) / 100}px`;
      }
      pointer.last = at;
    });
    const end = (event) => {
      const pointer = pointers.get(event.pointerId);
      pointers.delete(event.pointerId);
      if (selection) {
        selection.remove();
        selection = null;
        const [left, right] = [pointer.first, pointer.last].sort((a, b) => a - b).map((at) => this.whole(at));
        if (event.type === "pointerup") this.show(left, right);
      }
    };
    this.list.addEventListener("pointerup", end);
    this.list.addEventListener("pointercancel", end);
    this.list.addEventListener(
      "click",
      (event) => {
        if (hasMoved) event.preventDefault(), event.stopImmediatePropagation();
        hasMoved = false;
      },
      true,
    );
    this.list.addEventListener("dblclick", (event) => event.target.closest("svg") && this.show(0, 100));
    this.list.addEventListener(
      "wheel",
      (event) => {
        if (!event.target.closest("svg")) return;
        const isSideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
        if (event.ctrlKey || event.metaKey) this.zoom(Math.exp(event.deltaY / 300), this.place(event));
        else if (isSideways && this.right - this.left < 100) this.pan((event.deltaX || event.deltaY) / 1000);
        else return;
        event.preventDefault();
      },
      { passive: false },
    );
  }

  zoom(factor, place = 50) {
    const width = Math.max((this.right - this.left) * factor, NARROWEST);
    const left = this.whole(place) - (width * place) / 100;
    this.show(left, left + width);
  }

  pan(share) {
    const width = this.right - this.left;
    const left = Math.min(Math.max(this.left + share * width, 0), 100 - width);
    this.show(left, left + width);
  }

  show(left, right) {
    if (right - left < NARROWEST) right = left + NARROWEST;
    this.left = Math.max(left, 0);
    this.right = Math.min(right, 100);
    windows.set(this.id, [this.left, this.right]);
    this.draw();
  }

  draw() {
    const scale = 100 / (this.right - this.left);
    const isWhole = scale === 1;
    for (const { part, left, width, isGrid } of this.drawn) {
      const at = `${(left - this.left) * scale}%`;
      if (part.localName === "line") part.setAttribute("x1", at), part.setAttribute("x2", at);
      else part.setAttribute("x", at);
      if (part.localName === "rect") part.setAttribute("width", `${width * scale}%`);
      part.style.display = isGrid && !isWhole ? "none" : "";
    }
    this.overview.hidden = isWhole;
    this.frame.setAttribute("x", `${this.left}%`);
    this.frame.setAttribute("width", `${this.right - this.left}%`);
    for (const line of this.list.querySelectorAll(".zoomed")) line.remove();
    if (!isWhole) this.drawTicks(scale);
    const [begin, end] = [this.seconds(this.left), this.seconds(this.right)];
    this.told.textContent = isWhole ? HINT : `${offset(begin)} to ${offset(end)}`;
  }

  // The time at a place, in percent of the whole chart.
  seconds(place) {
    const segment = this.axis.find(([, , , right]) => place <= right) || this.axis[this.axis.length - 1];
    const [begin, end, left, right] = segment;
    return begin + ((Math.min(Math.max(place, left), right) - left) / (right - left)) * (end - begin);
  }

  drawTicks(scale) {
    const axis = this.list.querySelector(".axis svg");
    const rows = [...this.list.querySelectorAll("li[data-name] svg")];
    const most = Math.max(axis.getBoundingClientRect().width / 110, 1);
    for (const [begin, end, left, right] of this.axis) {
      const [from, to] = [Math.max(left, this.left), Math.min(right, this.right)];
      if (to <= from) continue;
      const perPercent = (end - begin) / (right - left);
      const [first, last] = [begin + (from - left) * perPercent, begin + (to - left) * perPercent];
      const wanted = (last - first) / (((to - from) * scale * most) / 100);
      const step = STEPS.find((each) => each >= wanted) || STEPS[STEPS.length - 1];
      for (let tick = Math.ceil(first / step) * step; tick <= last; tick += step) {
        const at = `${(left + (tick - begin) / perPercent - this.left) * scale}%`;
        const line = (top) => {
          const made = document.createElementNS(SVG, "line");
          for (const [name, value] of [["x1", at], ["x2", at], ["y1", top], ["y2", 24], ["class", "major zoomed"]])
            made.setAttribute(name, value);
          return made;
        };
        const label = document.createElementNS(SVG, "text");
        for (const [name, value] of [["x", at], ["dx", 4], ["y", 18], ["class", "zoomed"]])
          label.setAttribute(name, value);
        label.textContent = offset(tick);
        axis.append(line(8), label);
        for (const row of rows) row.prepend(line(0));
      }
    }
  }
}

// --- what is behind a bar ---------------------------------------------------------------------------------

let opened = null; // the panel and the bar that it belongs to

function closePanel() {
  if (!opened) return;
  opened.panel.remove();
  opened.bar.focus({ preventScroll: true });
  opened = null;
}

// Show the entries of an execution, and the lines of its failure, below its bar.
function openPanel(bar) {
  const line = document.getElementById(bar.dataset.entry);
  const isSame = opened && opened.bar === bar;
  closePanel();
  if (isSame || !line || line.cells.length < 2) return isSame;
  const heads = [...line.closest("table").querySelectorAll("thead th")].map((head) => head.textContent);
  const facts = element("dl");
  [...line.cells].forEach((cell, number) => {
    const text = cell.textContent.trim();
    if (text && heads[number].endsWith("entry")) facts.append(element("dt", {}, heads[number]), element("dd", {}, text));
  });
  const panel = element(
    "li",
    { class: "panel", tabindex: "-1", role: "listitem" },
    element("p", { class: "strong" }, bar.querySelector("title").textContent),
    facts,
  );
  const part = document.getElementById(bar.getAttribute("href").slice(1));
  if (part && part !== line) {
    for (const card of part.matches("article") ? [part] : part.querySelectorAll("article")) {
      const shown = card.cloneNode(true);
      for (const named of [shown, ...shown.querySelectorAll("[id]")]) named.removeAttribute("id");
      for (const old of shown.querySelectorAll("button")) old.remove();
      for (const text of shown.querySelectorAll("[data-ready]")) delete text.dataset.ready;
      panel.append(shown);
    }
  }
  if (!panel.querySelector("dt, article")) return false; // the table and the rest of the page say more
  panel.append(button("Close", {}, closePanel));
  bar.closest("li").after(panel);
  addCopyButtons(panel);
  opened = { panel, bar };
  panel.focus({ preventScroll: true });
  panel.scrollIntoView({ block: "nearest" });
  return true;
}

document.addEventListener("click", (event) => {
  const bar = event.target.closest("a[data-entry]");
  if (bar && !event.ctrlKey && !event.metaKey && openPanel(bar)) event.preventDefault();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && opened) closePanel();
});

// --- begin ------------------------------------------------------------------------------------------------

function prepare() {
  addCopyButtons(document);
  for (const list of document.querySelectorAll(".chart[data-axis]:not([data-ready])")) {
    list.dataset.ready = "";
    new Chart(list);
  }
}

prepare();
const header = document.querySelector("header[data-filter]");
if (header) addFilter(header);
const live = document.querySelector("[data-stream]");
if (live) new MutationObserver(prepare).observe(live, { childList: true, subtree: true });
addEventListener("hashchange", followAddress);
addEventListener("beforeprint", unfoldAll);
addEventListener("afterprint", foldAgain);
if (location.hash) followAddress();
