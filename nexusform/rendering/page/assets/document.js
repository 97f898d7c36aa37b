"use strict";
// The plan as data, and helpers to create elements from it.

// Set only by `render` in page.js; read by every part of the page.
let plan = null;
const MARKS = ["kept", "placed", "moved", "removed", "choice"];
const SIGNS = ["", "+", "~", "\u2212", "?"];
// Certainty of a position: 0 if not computed, or not part of this plan.
const STEPS = ["", "rack count exact", "rack count likely", "rack count uncertain"];
const CHUNK = 100;
// Functions called before printing, to show lists in full; each returns a function that restores them.
const printers = [];
const MOST_PRINTED = 300;

/** Unpacks the document (data_compression.py): repeated values and lines are stored once. */
function unpacked(data) {
  if (!data.packed) return data;
  const { values, lines, rows, changes } = data.packed;
  const textOf = (runs) => {
    const found = [];
    for (let at = 0; at < runs.length; at += 2) found.push(...lines.slice(runs[at], runs[at] + runs[at + 1]));
    return found.join("\n");
  };
  const whole = (row) => row.map((part) => (Array.isArray(part) ? textOf(part) : values[part]));
  return { ...data, changes: changes.map(whole), rows: rows.map(whole) };
}

/** Converts rows from lists to objects with named fields. */
function named(kind, row) {
  const found = {};
  plan.fields[kind].forEach((field, at) => { found[field] = row[at]; });
  return found;
}

/** Creates an element. Text is inserted as text, never as markup. */
function make(name, attributes, ...children) {
  const found = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) found.addEventListener(key.slice(2), value);
    else if (value === true) found.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) found.setAttribute(key, value);
  }
  found.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return found;
}

/** `choose("Cluster", [...])` is a labelled select; its first option means all. */
function choose(label, names, changed) {
  const options = [make("option", { value: "" }, "all"), ...names.map((name) => make("option", { value: name }, name))];
  const select = make("select", { onchange: () => changed(select.value) }, options);
  return { select, label: make("label", {}, label, select) };
}

function searchBox(label, id, changed) {
  let waiting = 0;
  const input = make("input", {
    type: "search", id, autocomplete: "off", spellcheck: "false",
    oninput: () => { clearTimeout(waiting); waiting = setTimeout(() => changed(input.value.trim().toLowerCase()), 120); },
  });
  return { input, label: make("label", {}, label, input) };
}

function tick(label, changed) {
  const input = make("input", { type: "checkbox", onchange: () => changed(input.checked) });
  return { input, label: make("label", { class: "inline" }, input, label) };
}

/** Returns a name with line breaks allowed after dots and underscores. */
function breakable(text) {
  return text.split(/(?<=[._[])/).flatMap((part, at) => (at ? [make("wbr"), part] : [part]));
}

/** Shows rows in chunks, with a button for more. */
function chunked(into, rows, draw, wrap, first = CHUNK) {
  let shown = 0;
  const more = make("button", { type: "button", onclick: () => step() });
  const step = (most = CHUNK) => {
    wrap.append(...rows.slice(shown, shown + most).map(draw));
    shown = Math.min(shown + most, rows.length);
    more.textContent = `Show ${Math.min(CHUNK, rows.length - shown)} more of ${(rows.length - shown).toLocaleString("en")}`;
    more.hidden = shown >= rows.length;
  };
  step(first);
  into.append(more);
}

function counted(count, noun) { return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`; }
