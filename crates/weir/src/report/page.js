// The filters, what they do to the rest of the page, and the state in the address.

const form = document.getElementById("filter");
const FIELDS = ["q", "transaction", "table", "verdict", "costly"];
const SHOWN = 24; // diagrams at a time

const diamonds = document.getElementById("diamonds");
const moreDiamonds = document.getElementById("more-diamonds");
const figures = [...(diamonds?.children ?? []), ...(moreDiamonds?.content.children ?? [])];
const figureAt = new Map(figures.map((figure) => [figure.id, figure]));
const showMore = document.getElementById("show-more");
let figuresShown = SHOWN;

function diamondOf(row, transaction) {
  return figureAt.get("w" + row + "-" + transaction);
}

// What is in the address: the filter, and which verdict is open.
const state = { show: "", by: "" };
function readAddress() {
  const parameters = new URLSearchParams(location.hash.slice(1));
  const known = location.hash.includes("=");
  for (const name of FIELDS) {
    const field = form.elements[name];
    const value = (known && parameters.get(name)) || "";
    if (field.type === "checkbox") field.checked = value === "1";
    else field.value = value;
    if (field.tagName === "SELECT" && field.selectedIndex < 0) field.value = "";
  }
  state.show = parameters.get("show") ?? "";
  state.by = parameters.get("by") ?? "";
  return known;
}

function filter() {
  const values = Object.fromEntries(FIELDS.map((name) => [name, form.elements[name].value]));
  values.costly = form.elements.costly.checked;
  return values;
}

function writeAddress() {
  const parameters = new URLSearchParams();
  const values = { ...filter(), ...state };
  for (const [name, value] of Object.entries(values)) if (value) parameters.set(name, value === true ? "1" : value);
  const hash = parameters.toString();
  history.replaceState(null, "", hash ? "#" + hash : location.pathname + location.search);
}

// Does an element with marks pass? What has no mark of a kind is about everything of it.
function passing(values) {
  const transaction = String(data.transactions.findIndex((one) => one.name === values.transaction));
  const table = String(data.tables.indexOf(values.table));
  const words = values.q.toLowerCase().split(/\s+/).filter(Boolean);
  const has = (list, one) => !list || list.split(" ").includes(one);
  const wanted = WANTED[values.verdict];
  return (element) => {
    const { t, b, s, costly } = element.dataset;
    if (values.transaction && !has(t, transaction)) return false;
    if (values.table && !has(b, table)) return false;
    if (values.costly && t !== undefined && costly === undefined) return false;
    if (wanted && s !== undefined && !wanted(Number(s))) return false;
    const text = words.length ? element.textContent.toLowerCase() : "";
    return words.every((word) => text.includes(word));
  };
}

function apply() {
  const values = filter();
  const passes = passing(values);
  drawMatrix(values);
  for (const element of document.querySelectorAll(".filtered")) element.classList.toggle("gone", !passes(element));
  if (diamonds) {
    const matching = figures.filter(passes);
    diamonds.replaceChildren(...matching.slice(0, figuresShown));
    if (showMore) showMore.hidden = matching.length <= figuresShown;
  }
  for (const section of document.querySelectorAll("main > section")) {
    const shown = section.querySelectorAll(".filtered, #diamonds > figure");
    const none = (shown.length > 0 || section.id === "witnesses" && figures.length) && ![...shown].some((one) => !one.classList.contains("gone"));
    section.classList.toggle("none", Boolean(none) && !section.querySelector(".empty"));
  }
  drawGraph(values);
  const set = FIELDS.some((name) => values[name]);
  form.classList.toggle("set", set);
}

// Edges of others fade, and so do nodes without an edge that is left.
function drawGraph(values) {
  const passes = passing({ ...values, q: "" });
  const near = new Set();
  for (const edge of document.querySelectorAll(".graph .edge")) {
    const on = passes(edge);
    edge.classList.toggle("off", !on);
    if (on) for (const node of edge.dataset.t.split(" ")) near.add(node);
  }
  const any = values.transaction || values.table || values.costly;
  for (const node of document.querySelectorAll(".graph .node")) {
    node.classList.toggle("off", Boolean(any) && !near.has(node.dataset.node) && data.transactions[node.dataset.node].name !== values.transaction);
  }
}

function changed() {
  figuresShown = SHOWN;
  writeAddress();
  apply();
}

let opener = null;
function openDetail(row, transaction, from) {
  if (from && !detail.contains(from)) opener = { row, transaction };
  state.show = data.invariants[row].id;
  state.by = transaction === undefined ? "" : data.transactions[transaction].name;
  writeAddress();
  showDetail(state.show, state.by);
  markOpen();
  detail.focus({ preventScroll: true });
}

function closeDetail() {
  if (detail.hidden) return;
  detail.hidden = true;
  state.show = state.by = "";
  writeAddress();
  markOpen();
  const back = opener && [...grid.querySelectorAll(`[data-row="${opener.row}"]`)].find((one) => one.dataset.transaction === String(opener.transaction));
  back?.focus({ preventScroll: true });
}

function markOpen() {
  grid.querySelector(".open")?.classList.remove("open");
  if (detail.hidden || !state.by) return;
  const row = data.invariants.findIndex((one) => one.id === state.show);
  const at = data.transactions.findIndex((one) => one.name === state.by);
  const cell = grid.querySelector(`.cell[data-row="${row}"][data-transaction="${at}"]`);
  cell?.classList.add("open");
  cell?.scrollIntoView({ block: "nearest", inline: "nearest" });
}

function only(name) {
  const field = form.elements.transaction;
  field.value = field.value === name ? "" : name;
  changed();
}

// An anchor within the page: opens what it is folded in, and leaves the address to the filter.
function jump(id) {
  const target = document.getElementById(id);
  if (!target) return;
  for (let around = target; around; around = around.parentElement) if (around.tagName === "DETAILS") around.open = true;
  target.scrollIntoView({ block: "start" });
}

let typing = 0;
form.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(changed, 120);
});
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("reset", () => setTimeout(changed));
showMore?.addEventListener("click", () => {
  figuresShown += SHOWN;
  apply();
});

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href^='#']");
  if (link) {
    event.preventDefault();
    return jump(link.getAttribute("href").slice(1));
  }
  if (event.target.closest(".close")) return closeDetail();
  const node = event.target.closest(".node");
  if (node) return only(data.transactions[node.dataset.node].name);
  const button = event.target.closest("#grid button, #detail button");
  if (!button) return;
  const { row, transaction, key, column } = button.dataset;
  if (row !== undefined) openDetail(Number(row), transaction === undefined ? undefined : Number(transaction), button);
  else if (column !== undefined) only(data.transactions[column].name);
  else if (key !== undefined) {
    const expanded = grid.querySelector(`.fold[data-key="${CSS.escape(key)}"]`).getAttribute("aria-expanded") === "true";
    open.set(key, !expanded);
    const top = grid.scrollTop;
    drawMatrix(filter());
    while (grid.scrollHeight < top + grid.clientHeight && drawMore());
    grid.scrollTop = top;
    grid.querySelector(`.fold[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
  }
});

document.addEventListener("keydown", (event) => {
  const typed = ["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName);
  if (event.key === "Escape") closeDetail();
  else if (event.key === "/" && !typed) {
    event.preventDefault();
    form.elements.q.focus();
  } else if (event.key === "Enter" && event.target.closest?.(".node")) {
    only(data.transactions[event.target.closest(".node").dataset.node].name);
  }
});

// The graph's edges of the node that is pointed at.
document.querySelector(".graph")?.addEventListener("pointerover", (event) => {
  const node = event.target.closest(".node")?.dataset.node;
  for (const edge of document.querySelectorAll(".graph .edge")) {
    edge.classList.toggle("on", node !== undefined && edge.dataset.t.split(" ").includes(node));
  }
});

function restore() {
  const anchor = readAddress() ? "" : location.hash.slice(1);
  apply();
  if (state.show) showDetail(state.show, state.by);
  else detail.hidden = true;
  markOpen();
  if (anchor) jump(anchor);
}
window.addEventListener("hashchange", restore);
window.addEventListener("beforeprint", () => {
  for (let chunks = 0; chunks < 20 && drawMore(); chunks += 1);
});
form.hidden = false;
restore();
