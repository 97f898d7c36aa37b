"use strict";
// The rack map: racks are drawn when they come into sight and emptied when they leave it.

const filters = { cluster: "", pool: "", trigger: "", changed: false };
const listeners = [];
const map = { site: 0, side: "after" };

/** What belongs to the plan that was drawn last: who listens to filters, a site that may be gone, open details. */
function forget() {
  listeners.length = 0;
  map.site = 0;
  Object.assign(filters, { cluster: "", pool: "", trigger: "", changed: false });
  detail.opener = null;
  detail.close();
  tip.hidden = true;
}

function passes(vm) {
  return (!filters.cluster || vm.paint.name === filters.cluster)
    && (!filters.pool || vm.pool === filters.pool)
    && (!filters.trigger || vm.trigger === filters.trigger)
    && (!filters.changed || vm.mark !== 0);
}

function filtered() { return filters.cluster || filters.pool || filters.trigger || filters.changed; }

const detail = {
  box: make("aside", { class: "detail", id: "detail", "aria-live": "polite", "aria-label": "Details", hidden: true }),
  opener: null,
  show(title, pairs, opener) {
    const close = make("button", { type: "button", class: "close", onclick: () => this.close() }, "Close");
    const list = make("dl", {}, pairs.filter(([, value]) => value !== "" && value !== undefined)
      .map(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
    this.box.replaceChildren(close, make("h3", {}, title), list);
    this.box.hidden = false;
    document.querySelectorAll(".chosen").forEach((old) => old.classList.remove("chosen"));
    if (opener) opener.classList.add("chosen");
    this.opener = opener || null;
  },
  close() {
    if (this.box.hidden) return;
    this.box.hidden = true;
    document.querySelectorAll(".chosen").forEach((old) => old.classList.remove("chosen"));
    if (this.opener && this.opener.isConnected) this.opener.focus();
  },
};

function share(part) { return `${Math.round(part * 100)} %`; }

function showVm(vm, opener) {
  const more = vm.more;
  const sure = more.certainty
    ? `this rack in ${share(more.certainty[0])}, this machine in ${share(more.certainty[1])} of ${plan.tieBreaks} tie-breaks` : "";
  const scores = Object.entries(more.scores || {}).map(([name, value]) => `${name} ${value}`).join(", ");
  const refused = (more.rejected || []).map(([who, rule, why]) => make("div", {}, `${who}: ${why} (${rule})`));
  detail.show(vm.name, [
    ["Cluster", vm.paint.name], ["Pool", vm.pool],
    ["SKU", `${vm.sku.name}: ${vm.sku.cpus} host vCPUs, ${vm.sku.memory} GiB`],
    ["What happens", happens(vm)], ["Why", more.reason || ""],
    ["Before", placeText(vm.before)], ["After", placeText(vm.after)],
    ["Certainty", sure], ["Scores", scores], ["Known from", more.provenance || ""],
    ["Declared at", vm.address ? make("code", {}, vm.address) : ""],
    ["Refused", refused.length ? make("div", {}, refused) : ""],
  ], opener);
}

function showMachine(site, machine, rack, opener) {
  const numbers = machine[map.side];
  const free = Array.from({ length: machine.cells }, () => [machine.cpus, machine.memory]);
  let unknown = 0;
  for (const number of numbers) {
    const vm = vmOf(site, number);
    if (vm[map.side].length === 3) unknown += 1;
    for (const cell of vm[map.side].slice(3)) {
      if (free[cell]) { free[cell][0] -= vm.sku.cpusInCell; free[cell][1] -= vm.sku.memoryInCell; }
    }
  }
  detail.show(machine.name, [
    ["Rack", `${rack.name}, zone ${rack.zone}, slot ${machine.slot}`],
    ["Hardware", `${machine.sku ? `${machine.sku}: ` : ""}${machine.cells} x ${machine.cpus} vCPU / ${machine.memory} GiB`],
    ["Takes new VMs", machine.refusal ? `no: ${machine.refusal}` : "yes"],
    ...(unknown
      ? [["Cells", `not known of ${unknown} of its VMs`]]
      : free.map(([cpus, memory], cell) => [`Cell ${cell}`, `${Math.max(cpus, 0)} vCPU and ${Math.max(memory, 0)} GiB free`])),
    ["VMs", numbers.map((number) => site.vms[number][0]).join(", ") || "none"],
  ], opener);
}

const tip = make("div", { class: "tip", hidden: true, "aria-hidden": "true" });

function hover(event) {
  const target = event.target.closest ? event.target.closest("[data-tip]") : null;
  tip.hidden = !target;
  if (!target) return;
  tip.textContent = target.dataset.tip;
  const wide = tip.offsetWidth, high = tip.offsetHeight;
  const x = Math.min(event.clientX + 12, window.innerWidth - wide - 8);
  const y = event.clientY + 18 + high > window.innerHeight ? event.clientY - high - 10 : event.clientY + 18;
  tip.style.left = `${Math.max(x, 4)}px`;
  tip.style.top = `${Math.max(y, 4)}px`;
}

function vmButton(vm, machine, cell, first) {
  const wide = machine.memory ? Math.min(vm.sku.memoryInCell / machine.memory, 1) * 100 : 100;
  const here = map.side === "after" ? vm.mark === 1 || vm.mark === 2 : vm.mark === 2 || vm.mark === 3;
  const mark = here ? vm.mark : 0;
  // A box is about 54 pixels wide; where the key does not fit beside the sign, the sign matters more.
  const fits = (text) => wide * 1.08 / machine.cells >= 7.3 * text.length + 4.5;
  const shown = [`${SIGNS[mark]}${vm.paint.key}`, SIGNS[mark]].find(fits) || "";
  const words = `${shown ? `${shown}: ` : ""}${vm.name}, ${vm.paint.name}${vm.pool ? ` ${vm.pool}` : ""}, ${machine.name} cell ${cell}, ${happens(vm)}`;
  const found = make("button", {
    type: "button", tabindex: "-1", "data-vm": vm.number,
    "aria-label": first ? words : null, "aria-hidden": first ? null : "true",
    class: `vm paint-${vm.paint.colour} ${vm.paint.pattern} ${MARKS[mark]}${passes(vm) ? "" : " faded"}`,
    "data-tip": `${vm.name}\n${vm.paint.name}${vm.pool ? ` / ${vm.pool}` : ""}, ${vm.sku.name}\n${placeText(vm[map.side])}\n${happens(vm)}`,
  }, make("span", {}, shown));
  found.style.width = `${wide}%`;
  return found;
}

function machineRow(site, rack, row) {
  const machine = named("machine", row);
  const other = map.side === "after" ? 3 : 1;
  const cells = Array.from({ length: machine.cells }, () => make("div", { class: "cell" }));
  const loose = make("div", { class: "cell" });  // beside them: VMs whose cells nobody told
  for (const number of machine[map.side]) {
    const vm = vmOf(site, number);
    const own = vm[map.side].slice(3);
    own.forEach((cell, at) => {
      if (cells[cell]) cells[cell].append(vmButton(vm, machine, cell, at === 0));
    });
    if (!own.length) loose.append(vmButton(vm, machine, "not known", true));
  }
  if (loose.childElementCount) cells.push(loose);
  const refused = machine.refusal ? `, takes no new VMs: ${machine.refusal}` : "";
  const number = String(machine.slot).padStart(2, "0");
  const slot = make("button", {
    type: "button", class: "slot", tabindex: "-1", "aria-label": `${number}: machine ${machine.name}${refused}`,
    "data-tip": `${machine.name}${refused}`, onclick: (event) => showMachine(site, machine, rack, event.currentTarget),
  }, number);
  const kind = `machine${machine.refusal ? " refused" : ""}${machine.mark === other ? " gone" : ""}`;
  return make("div", { class: kind }, slot, make("div", { class: "cells" }, cells));
}

const ROW = 25;
// More racks than these scroll in a box of their own and are emptied when out of sight.
const MANY_RACKS = 48;
let grid = null;
let watcher = null;

function drawRack(box, site, rack) {
  const rows = rack.machines.map((row) => machineRow(site, rack, row));
  box.replaceChildren(box.firstElementChild, ...rows);
  const current = grid.querySelector('[tabindex="0"]');
  if (!current) { const first = box.querySelector("button.vm, button.slot"); if (first) first.tabIndex = 0; }
}

function drawGrid() {
  const site = plan.sites[map.site];
  if (watcher) watcher.disconnect();
  grid.replaceChildren();
  grid.classList.toggle("tall", site.racks.length > MANY_RACKS);
  const boxes = new Map();
  watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const rack = boxes.get(entry.target);
      if (entry.isIntersecting) drawRack(entry.target, site, rack);
      else if (site.racks.length > MANY_RACKS) entry.target.replaceChildren(entry.target.firstElementChild);
    }
  }, { root: site.racks.length > MANY_RACKS ? grid : null, rootMargin: "600px 0px" });
  for (const rack of site.racks) {
    const zone = rack.zone === rack.name ? "" : ` \u00b7 zone ${rack.zone}`;
    const words = `${rack.name}${zone}${rack.planned ? " (planned)" : ""}`;
    const box = make("div", { class: "rack", role: "group", "aria-label": `Rack ${rack.name}, zone ${rack.zone}` }, make("h3", {}, words));
    box.style.minHeight = `${rack.machines.length * ROW + 22}px`;
    boxes.set(box, rack);
    grid.append(box);
    watcher.observe(box);
  }
}

function steer(event) {
  const from = event.target.closest("button");
  const keys = ["ArrowRight", "ArrowLeft", "ArrowDown", "ArrowUp", "Home", "End"];
  if (!from || !keys.includes(event.key)) return;
  event.preventDefault();
  const all = [...grid.querySelectorAll('button:not([aria-hidden="true"])')];
  const at = all.indexOf(from);
  let to = null;
  if (event.key === "ArrowRight") to = all[at + 1];
  else if (event.key === "ArrowLeft") to = all[at - 1];
  else if (event.key === "Home") to = all[0];
  else if (event.key === "End") to = all[all.length - 1];
  else {
    const here = from.getBoundingClientRect();
    const down = event.key === "ArrowDown";
    let best = Infinity;
    for (const other of all) {
      const box = other.getBoundingClientRect();
      const far = down ? box.top - here.top : here.top - box.top;
      if (far < 4) continue;
      const distance = far + 3 * Math.abs(box.left - here.left);
      if (distance < best) { best = distance; to = other; }
    }
  }
  if (!to) return;
  from.tabIndex = -1;
  to.tabIndex = 0;
  to.focus();
}

function legendOf(site) {
  const after = new Array(site.clusters.length).fill(0);
  for (const vm of site.vms) if (vm[7]) after[vm[2]] += 1;
  const entries = site.clusters.map((paint, at) => make("li", {},
    make("span", { class: `swatch paint-${paint.colour} ${paint.pattern}` }, paint.key), `${paint.name} (${after[at]})`));
  const marks = [["placed", "+"], ["moved", "~"], ["removed", "\u2212"], ["free", ""], ["refusing", ""]];
  const words = { refusing: "takes no new VMs" };
  return make("ul", { class: "legend", "aria-label": "Legend" }, entries, marks.map(([kind, sign]) => make("li", {},
    make("span", { class: `swatch ${kind}`, "aria-hidden": "true" }, sign), words[kind] || kind)));
}

function namesOf(key) {
  const found = new Set();
  for (const site of plan.sites) {
    if (key === "cluster") site.clusters.forEach((paint) => found.add(paint.name));
    else if (key === "pool") site.pools.forEach((pool) => pool && found.add(pool));
    else site.vms.forEach((vm) => vm[8] && vm[8].trigger && found.add(vm[8].trigger));
  }
  return [...found];
}

function sideChoice() {
  const radios = ["before", "after"].map((side) => make("label", { class: "inline" }, make("input", {
    type: "radio", name: "side", value: side, checked: side === map.side,
    onchange: () => { map.side = side; drawGrid(); tell(); },
  }), side === "before" ? "Before" : "After"));
  return make("fieldset", {}, make("legend", {}, "Show"), radios);
}

const status = make("p", { role: "status", class: "quiet", id: "map-status" });

function tell() {
  const site = plan.sites[map.site];
  let shown = 0, all = 0;
  for (let number = 0; number < site.vms.length; number += 1) {
    const vm = vmOf(site, number);
    if (!vm[map.side]) continue;
    all += 1;
    if (passes(vm)) shown += 1;
  }
  const words = filtered() ? `${shown.toLocaleString("en")} of ${all.toLocaleString("en")} VMs match the filter` : `${all.toLocaleString("en")} VMs`;
  status.textContent = `${map.side === "after" ? "After" : "Before"} the plan: ${words} on ${site.name}.`;
}

function changedFilter() {
  grid.querySelectorAll("button.vm").forEach((button) => {
    button.classList.toggle("faded", !passes(vmOf(plan.sites[map.site], Number(button.dataset.vm))));
  });
  tell();
  listeners.forEach((listener) => listener());
}

function startMap(into) {
  grid = make("div", { class: "racks", id: "rack-grid", role: "group", "aria-label": "Rack map; the arrow keys move between machines and VMs" });
  const set = (key) => (value) => { filters[key] = value; changedFilter(); };
  const tools = ["cluster", "pool", "trigger"].map((key) => {
    const made = choose(key[0].toUpperCase() + key.slice(1), namesOf(key), set(key));
    made.select.id = `filter-${key}`;
    return made;
  });
  const changed = tick("changed VMs only", set("changed"));
  changed.input.id = "filter-changed";
  const reset = make("button", { type: "button", onclick: () => {
    tools.forEach((tool) => { tool.select.value = ""; });
    changed.input.checked = false;
    Object.assign(filters, { cluster: "", pool: "", trigger: "", changed: false });
    changedFilter();
  } }, "Reset");
  let legend = legendOf(plan.sites[0]);
  const sites = make("select", { id: "map-site", onchange: () => {
    map.site = Number(sites.value);
    const fresh = legendOf(plan.sites[map.site]);
    legend.replaceWith(fresh);
    legend = fresh;
    drawGrid();
    tell();
  } }, plan.sites.map((site, at) => make("option", { value: at }, site.name)));
  const site = plan.sites.length > 1 ? make("label", {}, "Site", sites) : null;
  into.append(make("div", { class: "tools" }, site, sideChoice(), tools.map((tool) => tool.label), changed.label, reset), status, legend, grid);
  grid.addEventListener("keydown", steer);
  grid.addEventListener("click", (event) => {
    tip.hidden = true;
    const button = event.target.closest("button.vm");
    if (button) showVm(vmOf(plan.sites[map.site], Number(button.dataset.vm)), button);
  });
  grid.addEventListener("mousemove", hover);
  grid.addEventListener("mouseleave", () => { tip.hidden = true; });
  drawGrid();
  tell();
}
