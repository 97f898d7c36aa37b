"use strict";
// The tree of changes: by module and type, each with its difference, found by search.

const OPEN_GROUPS = 40;
const KINDS = { "+": "added", "-": "removed", "~": "changed", "-/+": "removed", "+/-": "removed", ".": "removed", "<=": "changed" };

function diffOf(text, label) {
  const lines = text.split("\n").map((line) => {
    const kind = { "+": "added", "-": "removed", "~": "changed" }[line.trimStart()[0]];
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

  // Paper shows the differences of a plan that a person reads; of a longer one its objects.
  printers.push(() => {
    const opened = (all) => all.forEach((each) => { each.open = true; each.fill(); });
    opened(holder.querySelectorAll(":scope > details"));
    if (changes.filter(shown).length <= OPEN_GROUPS) opened(holder.querySelectorAll("details details"));
  });

  const search = searchBox("Search addresses and differences", "change-search", (text) => { state.text = text; draw(); });
  const same = tick("unchanged objects too", (value) => { state.same = value; draw(); });
  into.append(make("div", { class: "tools" }, search.label, same.label), status, holder);
  draw();
}
