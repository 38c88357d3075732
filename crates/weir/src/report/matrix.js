// The matrix of transactions and invariants: rows by table, a cell for each pair, drawn as far as one scrolls.
// All text goes in as text; nothing here makes markup of data.

const COLUMNS_MAX = 40; // with more transactions a row lists those that touch it
const OPEN_MAX = 400; // with more rows the tables are folded at first
const CHUNK = 120;
const STANDINGS = ["not touched", "confluent", "needs a guard", "needs an order", "undecided, runs in order", "broken by one call alone"];
const SHORT = ["", "confluent", "guarded", "in order", "undecided", "broken"];
const WANTED = { touched: (s) => s > 0, confluent: (s) => s === 1, guard: (s) => s === 2, order: (s) => s === 3 || s === 4, undecided: (s) => s === 4, broken: (s) => s === 5 };
const KINDS = { primary_key: 0, unique: 1, exclude: 2, foreign_key: 3, check: 4, domain: 5, sequence: 6, index: 7, not_null: 8 };

const data = JSON.parse(document.getElementById("data").textContent);
const grid = document.getElementById("grid");
const open = new Map(); // group or fold → did somebody open or close it

// The order of a verdict's fields in the data.
const [INVARIANT, TRANSACTION, STANDING, WITH, OPERATION, BECAUSE, RULE, DECIDED, ALONE, ASSUMES, GUARDS, ALLOWED, BROKEN_ALONE] = Array(13).keys();
const string = (at) => data.strings[at];

const verdictsOf = data.invariants.map(() => new Map());
for (const verdict of data.verdicts) verdictsOf[verdict[INVARIANT]].set(verdict[TRANSACTION], verdict);
const standing = (invariant, transaction) => verdictsOf[invariant].get(transaction)?.[STANDING] ?? 0;
for (const one of data.invariants) {
  const tables = one.tables.map((table) => data.tables[table]);
  one.words = [one.id, one.kind.replace("_", " "), one.text, ...tables].join(" ").toLowerCase();
}

function make(tag, className, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// S, E or C for the guard that keeps it.
function glyph(verdict) {
  if (!verdict) return "·";
  const guard = verdict[GUARDS].length ? string(verdict[GUARDS][0][0]).replace("shared ", "") : "";
  return ["·", "✓", guard.charAt(0).toUpperCase() || "G", "O", "?", "!"][verdict[STANDING]];
}

// Which columns and rows the filter leaves.
function choose(filter) {
  const words = filter.q.toLowerCase().split(/\s+/).filter(Boolean);
  const has = (text) => words.every((word) => text.includes(word));
  let columns = [...data.transactions.keys()].filter((at) => {
    const one = data.transactions[at];
    return (!filter.transaction || one.name === filter.transaction) && (!filter.costly || one.costly);
  });
  const wanted = WANTED[filter.verdict] ?? (filter.costly ? (s) => s > 1 : null);
  const table = filter.table ? data.tables.indexOf(filter.table) : null;
  const named = columns.filter((at) => words.length && has(data.transactions[at].name.toLowerCase()));
  const matching = (rows) => rows.filter((at) => has(data.invariants[at].words));
  let rows = [...data.invariants.keys()].filter((at) => table === null || data.invariants[at].tables.includes(table));
  const found = words.length ? matching(rows) : rows;
  if (found.length || !named.length) rows = found; // words of an invariant,
  else columns = named; // or else names of transactions
  if (wanted) {
    const shown = new Set(columns);
    rows = rows.filter((row) => [...verdictsOf[row].values()].some((one) => shown.has(one[TRANSACTION]) && wanted(one[STANDING])));
    columns = columns.filter((at) => filter.transaction || rows.some((row) => wanted(standing(row, at))));
  } else if (filter.transaction && data.invariants.length > OPEN_MAX) {
    rows = rows.filter((row) => standing(row, columns[0]) > 0);
  }
  return { columns, rows, wanted, searched: words.length > 0 };
}

// Groups, and in them rows; NOT NULLs that nothing breaks are one row until opened.
function arrange({ rows, searched }) {
  const groups = new Map();
  const named = { assertion: "Assertions", view: "Materialized views", sequence: "Sequences" };
  for (const row of rows) {
    const one = data.invariants[row];
    const table = one.kind === "assertion" || one.table === null ? -1 : one.table;
    const key = table < 0 ? named[one.kind] ?? "Others" : "table " + table;
    if (!groups.has(key)) groups.set(key, { key, table, title: table < 0 ? key : data.tables[table], rows: [] });
    groups.get(key).rows.push(row);
  }
  const order = [...groups.values()].sort((a, b) => (a.table - b.table) || (a.key < b.key ? -1 : 1));
  const items = [];
  for (const group of order) {
    const opened = open.get(group.key) ?? (group.key === "Assertions" || rows.length <= OPEN_MAX);
    items.push({ ...group, kind: "group", opened });
    if (!opened) continue;
    const kind = (row) => KINDS[data.invariants[row].kind] ?? 9;
    group.rows.sort((a, b) => kind(a) - kind(b) || a - b);
    const dull = (row) => data.invariants[row].kind === "not_null" && [...verdictsOf[row].values()].every((one) => one[STANDING] < 2);
    const folded = searched ? [] : group.rows.filter(dull);
    const key = group.key + " not null";
    const fold = folded.length > 1;
    for (const row of group.rows) if (!fold || !dull(row)) items.push({ kind: "row", row });
    if (fold) {
      const unfolded = open.get(key) ?? false;
      items.push({ kind: "fold", key, rows: folded, opened: unfolded, title: folded.length + " × NOT NULL" });
      if (unfolded) for (const row of folded) items.push({ kind: "row", row });
    }
  }
  return items;
}

function cell(row, transaction, view, label) {
  const verdict = verdictsOf[row].get(transaction);
  const state = verdict?.[STANDING] ?? 0;
  const button = make("button", "cell s" + state, label ?? glyph(verdict));
  button.type = "button";
  button.tabIndex = -1;
  button.dataset.row = row;
  button.dataset.transaction = transaction;
  if (view.wanted && !view.wanted(state)) button.classList.add("off");
  button.title = data.transactions[transaction].name + " × " + data.invariants[row].id + ": " + STANDINGS[state];
  return button;
}

// The worst of several rows, and how many touch.
function sum(rows, transaction, key) {
  let worst = 0, touching = 0;
  for (const row of rows) {
    const state = standing(row, transaction);
    worst = Math.max(worst, state);
    touching += state > 0;
  }
  const button = make("button", "cell sum s" + worst, touching ? String(touching) : "·");
  button.type = "button";
  button.tabIndex = -1;
  button.dataset.key = key;
  button.title = touching + " of " + rows.length + " touched by " + data.transactions[transaction].name + "; worst: " + STANDINGS[worst];
  return button;
}

function line(item, view) {
  const heading = make("div", "heading");
  const th = make("th", "", heading);
  th.scope = "row";
  const tr = make("tr", item.kind === "fold" ? "folded" : item.kind, th);
  if (item.kind === "row") {
    const one = data.invariants[item.row];
    const name = make("button", "name mono", one.id);
    name.type = "button";
    name.dataset.row = item.row;
    name.title = one.text.slice(0, 300);
    heading.append(name, make("span", "kind", one.kind.replace("_", " ")));
  } else {
    const fold = make("button", "fold", item.title);
    fold.type = "button";
    fold.dataset.key = item.key;
    fold.setAttribute("aria-expanded", item.opened);
    heading.append(fold);
    if (item.kind === "group") heading.append(make("span", "kind", String(item.rows.length)));
  }
  if (view.listed) tr.append(make("td", "list", ...listed(item, view)));
  else if (item.kind === "row") for (const at of view.columns) tr.append(make("td", "", cell(item.row, at, view)));
  else for (const at of view.columns) tr.append(make("td", "", item.opened ? "" : sum(item.rows, at, item.key)));
  return tr;
}

// With many transactions: only those that touch the row, the worst first.
function listed(item, view) {
  const shown = new Set(view.columns);
  if (item.kind !== "row") {
    if (item.opened) return [];
    const worst = new Map();
    for (const row of item.rows) {
      for (const [at, one] of verdictsOf[row]) {
        if (shown.has(at)) worst.set(at, Math.max(worst.get(at) ?? 0, one[STANDING]));
      }
    }
    const count = (state) => [...worst.values()].filter((one) => one === state).length;
    return [1, 2, 3, 4, 5].filter(count).map((state) => make("span", "tally s" + state, count(state) + " " + SHORT[state]));
  }
  const touching = [...verdictsOf[item.row].values()].filter((one) => shown.has(one[TRANSACTION]) && (!view.wanted || view.wanted(one[STANDING])));
  touching.sort((a, b) => b[STANDING] - a[STANDING] || a[TRANSACTION] - b[TRANSACTION]);
  const chips = touching.slice(0, 24).map((one) => cell(item.row, one[TRANSACTION], view, glyph(one) + " " + data.transactions[one[TRANSACTION]].name));
  if (touching.length > 24) {
    const more = make("button", "link", "and " + (touching.length - 24) + " more");
    more.type = "button";
    more.dataset.row = item.row;
    chips.push(more);
  }
  return touching.length ? chips : [make("span", "soft small", "nobody touches it")];
}

function head(view) {
  const tr = make("tr", "", make("th", "corner", view.rows.length + " of " + data.invariants.length + " invariants"));
  if (view.listed) tr.append(make("th", "list", view.columns.length + " transactions: those that touch it"));
  else for (const at of view.columns) {
    const one = data.transactions[at];
    const button = make("button", "column", make("span", "", one.name));
    button.type = "button";
    button.dataset.column = at;
    button.title = one.name + ": " + one.class + ", " + one.mechanism + ". Shows only this transaction.";
    const th = make("th", one.costly ? "costly" : "", button);
    th.scope = "col";
    tr.append(th);
  }
  return make("thead", "", tr);
}

// Draws the rows on from where it stopped; the rest when one has scrolled there.
let drawMore = () => false;
function drawMatrix(filter) {
  const view = choose(filter);
  view.listed = view.columns.length > COLUMNS_MAX;
  const items = arrange(view);
  const body = make("tbody");
  const upright = view.columns.length > 8 || view.columns.length * 110 > grid.clientWidth - 260;
  const table = make("table", view.listed ? "listed" : upright ? "upright" : "", head(view), body);
  grid.replaceChildren(items.length ? table : make("p", "soft", "No invariant matches the filter."));
  let at = 0;
  drawMore = (count = CHUNK) => {
    body.append(...items.slice(at, at + count).map((item) => line(item, view)));
    at += count;
    return at < items.length;
  };
  drawMore();
  const first = grid.querySelector(".cell");
  if (first) first.tabIndex = 0;
}

grid.addEventListener("scroll", () => {
  if (grid.scrollTop + grid.clientHeight > grid.scrollHeight - 600) drawMore();
}, { passive: true });

// Arrow keys: to the next cell that way.
grid.addEventListener("keydown", (event) => {
  const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
  const from = event.target.closest("button");
  const td = from?.closest("td, th");
  if (!step || !td) return;
  event.preventDefault();
  let next = null;
  if (step[1]) {
    const siblings = [...td.parentElement.querySelectorAll("button")];
    next = siblings[siblings.indexOf(from) + step[1]];
  } else {
    let tr = td.parentElement;
    do {
      tr = step[0] > 0 ? tr.nextElementSibling ?? (drawMore(), tr.nextElementSibling) : tr.previousElementSibling;
      next = (tr?.children[td.cellIndex] ?? tr?.lastElementChild)?.querySelector("button");
    } while (tr && !next);
  }
  if (!next) return;
  if (from.classList.contains("cell")) from.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
  next.scrollIntoView({ block: "nearest", inline: "nearest" });
});
