"use strict";
// The tree of changes by module and type, with differences and a search.

const OPEN_GROUPS = 40;
const MOST_LINES = 120; // of differences on paper: two sheets
const KINDS = { "+": "added", "-": "removed", "~": "changed", "-/+": "removed", "+/-": "removed", ".": "removed", "<=": "changed" };

function diffOf(text, label) {
  // Column of the lines of a text (a manifest); change symbols are two columns to the right.
  let column = 0;
  const lines = text.split("\n").map((line) => {
    const own = column && line.search(/\S/) !== column + 2;
    const begins = /^( *)(?:[-+~] )?\S.*<<-EOT(?: #.*)?$/.exec(line);
    if (!column && begins) column = (Math.floor(begins[1].length / 4) + 1) * 4;
    else if (column && line.startsWith(`${" ".repeat(column)}EOT`)) column = 0;
    const kind = own ? "" : { "+": "added", "-": "removed", "~": "changed" }[line.trimStart()[0]];
    return kind ? make("span", { class: kind }, `${line}\n`) : `${line}\n`;
  });
  return make("pre", { class: "diff", tabindex: "0", role: "group", "aria-label": `Difference of ${label}` }, lines);
}

function changeItem(change) {
  const sign = make("span", { class: `sign ${KINDS[change.symbol] || ""}` }, change.symbol || "\u00a0");
  const place = change.file ? make("span", { class: "quiet" }, ` (${change.file}:${change.line})`) : null;
  const head = [sign, make("code", {}, breakable(change.address)), ` ${change.headline}`, place];
  if (!change.text) return make("div", { class: "plain" }, head);
  const found = make("details", { ontoggle: () => found.fill() }, make("summary", {}, head));
  found.change = change;
  found.fill = () => {
    if (found.open && found.children.length === 1) found.append(diffOf(change.text, change.address));
  };
  return found;
}

function startChanges(into) {
  const changes = plan.changes.map((row) => named("change", row));
  const state = { text: "", same: false };
  const status = make("p", { role: "status", class: "quiet", id: "change-status" });
  const holder = make("div", { class: "tree" });
  const shown = (change) => (state.same || change.symbol || change.text)
    && (!state.text || change.address.toLowerCase().includes(state.text) || change.headline.includes(state.text)
      || change.text.toLowerCase().includes(state.text));

  const group = (title, rows, open) => {
    const inner = make("div", {});
    const wrap = make("div", {});
    const found = make("details", { ontoggle: () => found.fill() }, make("summary", {}, `${title} (${rows.length.toLocaleString("en")})`), inner);
    found.fill = () => {
      if (found.open && !inner.children.length) { inner.append(wrap); chunked(inner, rows, changeItem, wrap); }
    };
    found.open = open;
    return found;
  };

  const draw = () => {
    const rows = changes.filter(shown);
    const groups = new Map();
    for (const change of rows) {
      const title = change.module ? `${change.module} \u203a ${change.type}` : change.type;
      if (!groups.has(title)) groups.set(title, []);
      groups.get(title).push(change);
    }
    const open = Boolean(state.text) || rows.length <= OPEN_GROUPS;
    holder.replaceChildren(...[...groups].map(([title, listed]) => group(title, listed, open)));
    status.textContent = rows.length ? `${counted(rows.length, "object")}.` : "Nothing found.";
  };

  // The list above names every object. Print shows all differences if they are few, else those of existing objects
  // with changes, never pages of created or deleted objects.
  printers.push(() => {
    const listed = changes.filter(shown).filter((change) => change.text);
    const lines = (rows) => rows.reduce((sum, change) => sum + change.text.split("\n").length, 0);
    const existing = listed.filter((change) => KINDS[change.symbol] === "changed" || change.symbol.includes("/"));
    const printed = new Set([listed, existing, []].find((rows) => lines(rows) <= MOST_LINES));
    holder.replaceChildren(...[...printed].map((change) => { const item = changeItem(change); item.open = true; item.fill(); return item; }));
    const left = listed.length - printed.size;
    status.textContent = `${counted(changes.filter(shown).length, "object")}${left ? `; the arguments of ${left.toLocaleString("en")} of them are not printed; see the page` : ""}.`;
    return draw;
  });

  const search = searchBox("Search addresses and differences", "change-search", (text) => { state.text = text; draw(); });
  const same = tick("unchanged objects too", (value) => { state.same = value; draw(); });
  into.append(make("div", { class: "tools" }, search.label, same.label), status, holder);
  draw();
}

/** Opens the list of objects at one object. */
function showChange(address) {
  const search = document.getElementById("change-search");
  if (!search) return;
  search.closest("details").open = true;
  search.value = address;
  search.dispatchEvent(new Event("input"));
}
