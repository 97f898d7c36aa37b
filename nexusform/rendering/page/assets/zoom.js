"use strict";
// Detail view: one machine with its cells, VMs and pods.

/** Draws a machine: a column per cell, its VMs with details and pods, then the free capacity. */
function machineView(site, model, machine) {
  const side = map.view === "before" ? "before" : "after";
  const free = freeOf(model, machine, side);
  const loose = [];
  const columns = free.map(([cpus, memory], cell) => {
    const vms = machine[side].map((number) => model.vms[number]).filter((vm) => vm[side].slice(3).includes(cell));
    const ghosts = map.view === "change" ? machine.before.map((number) => model.vms[number]).filter((vm) => leaves(vm) && vm.before.slice(3).includes(cell)) : [];
    const rest = make("li", { class: "rest" }, hasUnknownCells(model, machine, side) ? "Free capacity unknown" : `${Math.max(cpus, 0)} of ${machine.cpus} vCPU and ${Math.max(memory, 0)} of ${machine.memory} GiB free`);
    return make("section", { class: "cell-card", "aria-label": `Cell ${cell}` }, make("h4", {}, `Cell ${cell}`),
      make("ul", {}, vms.map((vm) => vmCard(site, model, vm, side, false)), ghosts.map((vm) => vmCard(site, model, vm, "before", true)), rest));
  });
  for (const number of machine[side]) if (model.vms[number][side].length === 3) loose.push(vmCard(site, model, model.vms[number], side, false));
  if (loose.length) columns.push(make("section", { class: "cell-card" }, make("h4", {}, "Unknown cells"), make("ul", {}, loose)));
  const hardware = `${machine.sku ? `${machine.sku}: ` : ""}${machine.cells} x ${machine.cpus} vCPU / ${machine.memory} GiB`;
  const facts = [`${machine.rack.name}, zone ${machine.rack.zone}, slot ${machine.slot}`, hardware, machine.closed ? `takes no new VM: ${machine.closed}` : "schedulable"];
  const rules = sharedOn(machine.name).map((each) => make("p", { class: "broken" }, `${each.rule}: ${each.members.join(", ")} must not share it.`));
  return make("div", { class: "machine-view", id: "machine-view" }, make("p", { class: "quiet" }, facts.join(" \u00b7 ")), rules, make("div", { class: "cell-cards" }, columns));
}

function vmCard(site, model, vm, side, ghost) {
  const face = faceOf(model, vm, side, ghost);
  const swatch = make("span", { class: `swatch ${ghost ? "ghost" : `paint-${vm.paint.colour} ${vm.paint.pattern}`} ${MARKS[face.mark]} ${face.step ? `certainty-${face.step}` : ""}`, "aria-hidden": "true" }, `${SIGNS[face.mark]}${vm.paint.key}`);
  const pods = ghost ? [] : podsOf(vm);
  const opener = make("button", { type: "button", class: "link", "data-vm": vm.number, "data-side": ghost ? "before" : side }, vm.name);
  return make("li", { class: ghost ? "vm-card leaving" : "vm-card" }, swatch, make("div", {}, opener,
    make("div", { class: "quiet small" }, `${vm.paint.name}${vm.pool ? ` / ${vm.pool}` : ""} \u00b7 ${vm.sku.name} \u00b7 ${happens(vm)}${vm.step ? `, ${STEPS[vm.step]}` : ""}`),
    pods.length ? make("ul", { class: "pods" }, pods.map((pod) => make("li", {}, pod.object))) : null));
}
