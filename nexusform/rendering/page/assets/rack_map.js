"use strict";
// Racks, machines, cells and VMs as boxes. One picture shows all changes: VMs at their positions after the plan,
// ghosts at old positions, arrows between them (arrows.js). Layers (layers.js) colour cells instead of VMs.

const VIEWS = { change: "Before \u2192 after", before: "Before", after: "After", sides: "Side by side" };
const filters = { cluster: "", pool: "", trigger: "", changed: false };
const listeners = [];
const map = { site: 0, view: "change", layer: "cluster", lost: "", rack: "", machine: "", step: 0, playing: 0 };

function passes(vm) {
  return (!filters.cluster || vm.paint.name === filters.cluster)
    && (!filters.pool || vm.pool === filters.pool)
    && (!filters.trigger || vm.trigger === filters.trigger)
    && (!filters.changed || vm.mark !== 0);
}

function filtered() { return filters.cluster || filters.pool || filters.trigger || filters.changed; }

function siteShown() { return plan.sites[map.site]; }

/** Lists the useful views of a site: only one if it was empty before or nothing changes. */
function viewsOf(model) {
  if (siteShown().steps.length) return [];
  const changes = model.marks[1] + model.marks[2] + model.marks[3] + model.marks[4];
  if (!changes || !model.stood) return ["after"];
  return Object.keys(VIEWS).filter((view) => view !== "sides" || !isFar(model));
}

/** Returns the content of a VM's box on a side: {mark, step, ghost}; marks are at new and at old positions. */
function faceOf(model, vm, side, ghost) {
  const marked = vm.mark === 4 || (side === "after" ? arrives(vm) : leaves(vm));
  const mark = ghost || (marked && vm.mark !== model.plainMark) ? vm.mark : 0;
  const step = side === "after" && arrives(vm) && vm.step !== model.plainStep ? vm.step : 0;
  return { mark, step, ghost };
}

function vmTip(vm) {
  const lines = [vm.name, `${vm.paint.name}${vm.pool ? ` / ${vm.pool}` : ""}, ${vm.sku.name}`];
  if (vm.mark === 2) lines.push(`${placeText(vm.before)} \u2192 ${placeText(vm.after)}`);
  else lines.push(placeText(vm.after || vm.before));
  lines.push(`${happens(vm)}${vm.step ? `, ${STEPS[vm.step]}` : ""}`);
  const pods = podsOf(vm).length;
  if (pods) lines.push(counted(pods, "pod"));
  return lines.join("\n");
}

/** Draws a VM's box in one cell; `part` is its share of the cell's memory. */
function vmBox(model, vm, machine, side, ghost, part, cell) {
  const face = faceOf(model, vm, side, ghost);
  const sign = SIGNS[face.mark];
  const kind = ["vm", ghost ? "ghost" : "", `paint-${vm.paint.colour}`, ghost ? "" : vm.paint.pattern, MARKS[face.mark], face.step ? `certainty-${face.step}` : "", passes(vm) ? "" : "faded"];
  const where = cell === undefined ? machine.name : `${machine.name} cell ${cell}`;
  const words = `${vm.name}, ${vm.paint.name}${vm.pool ? ` ${vm.pool}` : ""}, ${where}, ${ghost ? "removed here, " : ""}${happens(vm)}`;
  const box = make("button", {
    type: "button", tabindex: "-1", "data-vm": vm.number, "data-side": ghost ? "before" : side, class: kind.filter(Boolean).join(" "), "data-tip": vmTip(vm),
  }, make("span", { class: "unseen" }, words), make("span", { class: "key", "aria-hidden": "true" }, sign ? make("i", {}, sign) : null, make("span", vm.paint.key.length > 2 ? { class: "three" } : {}, vm.paint.key)),
  make("span", { class: "long", "aria-hidden": "true" }, make("span", {}, `${sign}${vm.plain}`)));
  box.style.setProperty("--part", `${Math.round(part * 1000) / 10}%`);
  return box;
}

function sharePart(size, whole) { return whole ? Math.min(size / whole, 1) : 1; }

function machineRow(model, machine, side) {
  const other = side === "after" ? 3 : 1;
  const cells = Array.from({ length: machine.cells }, () => make("div", { class: "cell" }));
  const loose = [];
  const put = (number, at, ghost) => {
    const vm = model.vms[number];
    const places = vm[at].slice(3);
    if (!places.length) loose.push(vmBox(model, vm, machine, side, ghost, sharePart(vm.sku.memory, machine.memory * machine.cells)));
    places.forEach((cell, which) => {
      if (!cells[cell]) return;
      const box = vmBox(model, vm, machine, side, ghost, sharePart(vm.sku.memoryInCell, machine.memory), cell);
      if (which) box.setAttribute("aria-hidden", "true");
      cells[cell].append(box);
    });
  };
  machine[side].forEach((number) => put(number, side, false));
  if (map.view === "change") machine.before.filter((number) => leaves(model.vms[number])).forEach((number) => put(number, "before", true));
  paintCells(model, machine, side, cells);
  if (loose.length) {
    // Without this, cells with unknown VMs would look free.
    if (cells.every((cell) => !cell.children.length)) cells.length = 0;
    cells.push(make("div", { class: "cell loose", "data-tip": "The cells of these VMs are unknown." }, loose));
  }
  const closed = machine.closed ? `, takes no new VM: ${machine.closed}` : "";
  const number = String(machine.slot).padStart(2, "0");
  const slot = make("button", {
    type: "button", class: "slot", tabindex: "-1", "data-machine": machine.name,
    "aria-label": `${number}: machine ${machine.name}${closed}`, "data-tip": `${machine.name}${closed}`,
  }, make("span", { class: "short" }, number), make("span", { class: "whole" }, machine.name));
  const shared = sharedOn(machine.name).length ? " shared" : "";
  const step = siteShown().steps[map.step];
  const down = step && step.down.includes(machine.name) ? " down" : "";
  // A deleted machine is shown with the ghosts: its VMs start there.
  const going = machine.mark !== other ? "" : map.view === "change" ? " going" : " gone";
  const kind = `machine${down}${machine.closed ? " closed" : ""}${going}${shared}`;
  const holder = make("div", { class: "cells" }, cells);
  holder.style.setProperty("--cells", machine.cells);
  return make("div", { class: kind, "data-machine": machine.name }, slot, holder);
}

function sharedOn(machine) { return plan.shared.filter((each) => each.machine === machine); }

function rackBox(site, model, rack, side) {
  const zone = rack.zone === rack.name || !rack.zone ? "" : ` \u00b7 zone ${rack.zone}`;
  const lost = map.layer === "loss" && map.lost === rack.name;
  // Racks of different sites may have the same name: next to other sites, and in print, each shows its site.
  const owner = plan.sites.length > 1 ? make("span", { class: "quiet" }, `${site.name}/`) : null;
  const title = make("h3", {}, owner, make("a", { href: linkTo(site, "rack", rack.name) }, rack.name), make("span", { class: "quiet" }, `${zone}${rack.planned ? " (planned)" : ""}${lost ? " \u00b7 lost" : ""}`));
  return make("div", { class: `rack${lost ? " lost" : ""}`, role: "group", "aria-label": `Rack ${rack.name}, zone ${rack.zone}` }, title, rack.machines.map((machine) => machineRow(model, machine, side)));
}

function racksShown(model) {
  const all = [...model.racks.values()];
  return map.rack ? all.filter((rack) => rack.name === map.rack) : all;
}

// Pixels, with the gap.
const NARROWEST_RACK = 134;
const NARROWEST_ON_PAPER = 112;
const SLOT = 45;
const LEGIBLE = 20; // height of a VM with its key
const WIDEST_NEED = 380;

/** Computes the maximum number of boxes side by side in a machine, from its fullest cell. */
function boxesAbreast(model) {
  let most = 0;
  for (const machine of model.machines.values()) {
    const counts = new Map();
    for (const number of machine.after) for (const cell of model.vms[number].after.slice(3)) counts.set(cell, (counts.get(cell) || 0) + 1);
    const loose = machine.after.filter((number) => model.vms[number].after.length === 3).length;
    most = Math.max(most, loose, machine.cells * Math.max(0, ...counts.values()));
  }
  return most;
}

/** Computes the number of racks per row: as many as fit, with rows filled evenly. */
function across(racks, width, model) {
  const least = document.documentElement.classList.contains("paper") ? NARROWEST_ON_PAPER : NARROWEST_RACK;
  const narrowest = Math.max(least, Math.min(SLOT + boxesAbreast(model) * LEGIBLE, WIDEST_NEED));
  const most = Math.max(Math.floor(width / narrowest), 1);
  return Math.max(Math.ceil(racks / Math.ceil(racks / most)), 1);
}

function racksGrid(site, model, side, id) {
  const grid = make("div", { class: `racks layer-${map.layer}${map.rack ? " one" : ""}`, id, role: "group", "aria-label": `Racks ${side === "before" ? "before" : "after"} the plan; the arrow keys move between machines and VMs` });
  grid.style.setProperty("--across", across(racksShown(model).length, frame.stage.clientWidth / (map.view === "sides" && window.innerWidth > 640 ? 2 : 1), model));
  grid.append(...racksShown(model).map((rack) => rackBox(site, model, rack, side)));
  const first = grid.querySelector("button.vm, button.slot");
  if (first) first.tabIndex = 0;
  grid.addEventListener("keydown", steer);
  return grid;
}

/** Draws the selection: a machine, a rack, a site, or the overview of a large site. */
function drawStage(stage) {
  const site = siteShown();
  const model = modelOf(site);
  const machine = map.machine && model.machines.get(map.machine);
  stage.className = `stage view-${map.view}`;
  if (machine) stage.replaceChildren(machineView(site, model, machine));
  else if (isFar(model)) stage.replaceChildren(overviewOf(site, model, stage.clientWidth));
  else if (map.view === "sides") {
    const panel = (side, id) => make("div", { class: "panel" }, make("h3", { class: "side" }, side === "before" ? "Before" : "After"), racksGrid(site, model, side, id));
    stage.replaceChildren(panel("before", "rack-grid-before"), panel("after", "rack-grid"));
  } else stage.replaceChildren(racksGrid(site, model, map.view === "before" ? "before" : "after", "rack-grid"));
  drawArrows(stage, model);
}

function steer(event) {
  const grid = event.currentTarget;
  const from = event.target.closest("button");
  const keys = ["ArrowRight", "ArrowLeft", "ArrowDown", "ArrowUp", "Home", "End"];
  if (!from || !keys.includes(event.key)) return;
  event.preventDefault();
  const all = [...grid.querySelectorAll('button:not([aria-hidden="true"])')].filter((button) => button.offsetWidth);
  const at = all.indexOf(from);
  let to = null;
  if (event.key === "ArrowRight") to = all[at + 1];
  else if (event.key === "ArrowLeft") to = all[at - 1];
  else if (event.key === "Home") to = all[0];
  else if (event.key === "End") to = all[all.length - 1];
  else to = nearest(all, from, event.key === "ArrowDown");
  if (!to) return;
  from.tabIndex = -1;
  to.tabIndex = 0;
  to.focus();
}

/** Returns the nearest button below or above. */
function nearest(all, from, down) {
  const here = from.getBoundingClientRect();
  let best = Infinity;
  let to = null;
  for (const other of all) {
    const box = other.getBoundingClientRect();
    const far = down ? box.top - here.top : here.top - box.top;
    if (far < 4) continue;
    const distance = far + 3 * Math.abs(box.left - here.left);
    if (distance < best) { best = distance; to = other; }
  }
  return to;
}
