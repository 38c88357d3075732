// One verdict with its words, rule, places and witness; or one invariant with all its verdicts.

const detail = document.getElementById("detail");
const KEPT = {
  proved: "Run by itself it keeps the invariant: proved from its text.",
  checked: "Run by itself it keeps the invariant: the engine checks what it writes.",
  no: "That it keeps the invariant when run by itself is neither proved nor checked before the commit.",
};
const DECIDED_BY = { rule: "a rule", proof: "a proof (z3)", search: "search", assumption: "nothing: assumed" };

function part(title, ...children) {
  return make("section", "", make("h4", "", title), ...children);
}

function placed(place, statement) {
  const shown = [make("div", "mono small soft", place)];
  if (statement) shown.push(make("pre", "", statement));
  return make("div", "place", ...shown);
}

function goTo(row, transaction) {
  const button = make("button", "link", transaction === null ? data.invariants[row].id : data.transactions[transaction].name);
  button.type = "button";
  button.dataset.row = row;
  if (transaction !== null) button.dataset.transaction = transaction;
  return button;
}

function declared(one) {
  return part("The invariant", make("div", "", one.kind.replace("_", " "), one.table === null ? "" : " of " + data.tables[one.table]), placed(one.place, one.text));
}

// The statements that write what the invariant speaks of.
function statements(one, transaction) {
  const touches = ([table, kind, columns]) =>
    one.tables.includes(table) && (kind !== "update" || table !== one.table || !one.columns.length || columns.some((column) => one.columns.includes(column)));
  const seen = new Set();
  const shown = data.transactions[transaction].writes.filter((write) => touches(write) && !seen.has(write[3]) && seen.add(write[3]));
  return shown.map(([table, kind, columns, place, statement]) => {
    const what = kind + " " + data.tables[table] + (kind === "update" ? " (" + columns.join(", ") + ")" : "");
    return make("div", "", make("div", "small", what), placed(string(place), string(statement)));
  });
}

function verdictParts(row, transaction) {
  const one = data.invariants[row];
  const verdict = verdictsOf[row].get(transaction);
  const name = data.transactions[transaction].name;
  if (!verdict) {
    return [
      make("p", "", name + " writes nothing that the invariant speaks of: both branches, and their merge, hold of it what was there before."),
      declared(one),
    ];
  }
  const parts = [];
  const beside = verdict[WITH] === transaction ? ["another call of it"] : verdict[WITH] === null ? null : [goTo(row, verdict[WITH])];
  parts.push(make("p", "", name + " " + string(verdict[OPERATION]), beside ? make("span", "", ", beside ", ...beside) : "", "."));
  parts.push(make("p", "because", string(verdict[BECAUSE])));
  if (verdict[ALLOWED] !== null) parts.push(make("p", "", "Let through by a comment: " + string(verdict[ALLOWED])));
  for (const [guard, why, place, statement] of verdict[GUARDS]) {
    parts.push(part("Kept by", make("div", "", make("span", "badge warn", string(guard)), string(why)), placed(string(place), string(statement))));
  }
  const figure = diamondOf(row, transaction);
  if (figure) {
    const copy = figure.cloneNode(true);
    copy.removeAttribute("id");
    copy.hidden = false;
    parts.push(part("Two branches and their merge", copy));
  }
  if (verdict[BROKEN_ALONE] !== null) parts.push(part("Broken by one call alone", make("pre", "", string(verdict[BROKEN_ALONE]))));
  for (const suggestion of document.querySelectorAll(".suggestion")) {
    if (suggestion.dataset.i === String(row) && suggestion.dataset.t.split(" ").includes(String(transaction))) {
      const copy = suggestion.cloneNode(true);
      copy.classList.remove("filtered", "gone");
      parts.push(part("Cheaper", copy));
    }
  }
  const rule = data.rules[string(verdict[RULE])];
  const id = string(verdict[RULE]);
  const words = [];
  const undecided = id === "WEIR-V01";
  // What no rule decides has no argument but its own.
  if (rule && !undecided) {
    words.push(make("div", "", make("b", "", id), " " + rule[0] + ": " + rule[1]), make("p", "small soft", rule[2]), make("p", "small soft", rule[3]));
  } else words.push(make("div", "", make("b", "", id), rule ? " " + rule[0] : ""));
  const decided = string(verdict[DECIDED]) === "assumption" && !undecided ? "a rule, without a witness: assumed" : DECIDED_BY[string(verdict[DECIDED])];
  parts.push(part("Decided by " + (decided ?? string(verdict[DECIDED])), ...words, make("p", "small", KEPT[string(verdict[ALONE])] ?? "")));
  if (verdict[ASSUMES].length) parts.push(part("Assumes", make("ul", "", ...verdict[ASSUMES].map((at) => make("li", "", string(at))))));
  parts.push(declared(one));
  const written = statements(one, transaction);
  if (written.length) parts.push(part("Where " + name + " writes it", ...written));
  return parts;
}

function invariantParts(row) {
  const touching = [...verdictsOf[row].values()].sort((a, b) => b[STANDING] - a[STANDING]);
  const lines = touching.map((verdict) =>
    make("li", "", make("span", "cell s" + verdict[STANDING], glyph(verdict)), goTo(row, verdict[TRANSACTION]), " " + string(verdict[OPERATION])));
  const others = data.transactions.length - touching.length;
  return [declared(data.invariants[row]), part("Its transactions", make("ul", "verdicts", ...lines), make("p", "soft small", others + " do not touch it."))];
}

// Names in, because they outlive an index; false if nothing is called so.
function showDetail(invariant, transaction) {
  const row = data.invariants.findIndex((one) => one.id === invariant);
  const at = transaction ? data.transactions.findIndex((one) => one.name === transaction) : -1;
  if (row < 0 || (transaction && at < 0)) {
    detail.hidden = true;
    return false;
  }
  const close = make("button", "close", "×");
  close.type = "button";
  close.setAttribute("aria-label", "Close");
  const state = transaction ? standing(row, at) : null;
  const title = make("h3", "", transaction ? make("span", "", transaction, make("span", "soft", " × ")) : "", goTo(row, null));
  const badge = state === null ? null : make("span", "badge " + ["", "good", "warn", "bad", "bad", "bad"][state], STANDINGS[state]);
  detail.replaceChildren(close, title, badge ?? "", ...(transaction ? verdictParts(row, at) : invariantParts(row)));
  detail.hidden = false;
  detail.scrollTop = 0;
  return true;
}
