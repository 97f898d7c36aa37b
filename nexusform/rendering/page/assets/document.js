"use strict";
// The plan as data, and the few ways in which every part of the page makes elements from it.

// Set by `render` in page.js, and by it alone; every part of the page reads it when it draws.
let plan = null;
const MARKS = ["kept", "placed", "moved", "removed"];
const SIGNS = ["", "+", "~", "\u2212"];
const CHUNK = 100;

/** Rows are lists; this gives them the names of their fields. */
function named(kind, row) {
  const found = {};
  plan.fields[kind].forEach((field, at) => { found[field] = row[at]; });
  return found;
}

/** An element. Text goes in as text, never as markup. */
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

/** `choose("Cluster", [...])` is a labelled select whose first option stands for all. */
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

/** Rows shown a chunk at a time, with a button for more. */
function chunked(into, rows, draw, wrap) {
  let shown = 0;
  const more = make("button", { type: "button", onclick: () => step() });
  const step = () => {
    wrap.append(...rows.slice(shown, shown + CHUNK).map(draw));
    shown = Math.min(shown + CHUNK, rows.length);
    more.textContent = `Show ${Math.min(CHUNK, rows.length - shown)} more of ${(rows.length - shown).toLocaleString("en")}`;
    more.hidden = shown >= rows.length;
  };
  step();
  into.append(more);
}

function counted(count, noun) { return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`; }

function placeText(place) {
  if (!place) return "";
  const [rack, machine, , ...cells] = place;
  if (!cells.length) return `${rack} / ${machine}`;
  return `${rack} / ${machine} / ${cells.length === 1 ? "cell" : "cells"} ${cells.join("+")}`;
}

/** Everything that is known of a site's VM, by name. */
function vmOf(site, number) {
  const vm = named("vm", site.vms[number]);
  vm.number = number;
  vm.paint = site.clusters[vm.cluster];
  vm.pool = site.pools[vm.pool];
  vm.address = site.addresses[vm.address];
  vm.sku = named("sku", site.skus[vm.sku]);
  vm.more = vm.more || {};
  vm.trigger = vm.more.trigger || "";
  return vm;
}

function happens(vm) {
  const why = vm.trigger ? ` (${vm.trigger})` : "";
  return vm.mark === 0 ? "stays" : `${MARKS[vm.mark]}${why}`;
}
