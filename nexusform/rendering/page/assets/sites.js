"use strict";
// Sites as read by the map: every VM, machine and rack, by number and by name.

/** Returns the VMs and machines of a site, decoded on first use; for a simulation, in the current step. */
function modelOf(site) {
  const at = Math.min(map.step, Math.max(site.steps.length - 1, 0));
  site.models = site.models || [];
  if (!site.models[at]) site.models[at] = decoded(site, at);
  return site.models[at];
}

function decoded(site, at) {
  const model = { vms: site.vms.map((row, number) => decodedVm(site, row, number)), machines: new Map(), racks: new Map(), byName: new Map() };
  model.vms.forEach((vm) => model.byName.set(vm.plain, vm).set(vm.name, vm));
  const atStep = site.steps.length ? halted(site, model.vms, at) : null;
  for (const rack of site.racks) {
    const machines = rack.machines.map((row) => ({ ...named("machine", row), ...(atStep && atStep(row[0])) }));
    machines.forEach((machine) => { machine.rack = rack; model.machines.set(machine.name, machine); });
    model.racks.set(rack.name, { name: rack.name, zone: rack.zone, planned: rack.planned, machines });
  }
  model.marks = [0, 0, 0, 0, 0];
  model.steps = [0, 0, 0, 0];
  for (const vm of model.vms) {
    model.marks[vm.mark] += 1;
    if (arrives(vm)) model.steps[vm.step] += 1;
  }
  model.stood = model.vms.some((vm) => vm.before && (vm.address || !vm.after));
  const arriving = model.marks[1] + model.marks[2];
  // The most frequent change needs no mark: it is in the legend.
  model.plainMark = model.marks[1] * 2 > model.vms.length ? 1 : 0;
  model.plainStep = model.plainMark ? model.steps.findIndex((count) => count * 2 > arriving) : -1;
  return model;
}

/** Sets the positions of VMs in a step: its moves are in progress, earlier ones done, later ones pending. */
function halted(site, vms, at) {
  const movesIn = new Map(site.steps.flatMap((step, number) => step.moves.map((vm) => [vm, number])));
  const sides = { before: new Map(), after: new Map() };
  for (const vm of vms) {
    const step = movesIn.has(vm.number) ? movesIn.get(vm.number) : Infinity;
    if (step < at) vm.before = vm.after;
    if (step > at) vm.after = vm.before;
    if (step !== at) vm.mark = 0;
    for (const [side, machines] of Object.entries(sides)) {
      const machine = vm[side] && vm[side][1];
      if (machine && !machines.has(machine)) machines.set(machine, []);
      if (machine) machines.get(machine).push(vm.number);
    }
  }
  return (machine) => ({ before: sides.before.get(machine) || [], after: sides.after.get(machine) || [] });
}

function decodedVm(site, row, number) {
  const vm = named("vm", row);
  vm.number = number;
  // The name used by the platform, if known, follows in brackets.
  vm.plain = vm.name.split(" [")[0];
  vm.paint = site.clusters[vm.cluster];
  vm.pool = site.pools[vm.pool];
  vm.address = site.addresses[vm.address];
  vm.sku = named("sku", site.skus[vm.sku]);
  vm.more = vm.more || {};
  vm.trigger = vm.more.trigger || "";
  vm.step = vm.more.step || 0;
  return vm;
}

function arrives(vm) { return vm.mark === 1 || vm.mark === 2; }
function leaves(vm) { return vm.mark === 2 || vm.mark === 3; }

/** Computes the free capacity per cell of a machine on a side: [vCPUs, GiB]; VMs with unknown cells are not counted. */
function freeOf(model, machine, side) {
  const free = Array.from({ length: machine.cells }, () => [machine.cpus, machine.memory]);
  for (const number of machine[side]) {
    const vm = model.vms[number];
    for (const cell of vm[side].slice(3)) {
      if (free[cell]) { free[cell][0] -= vm.sku.cpusInCell; free[cell][1] -= vm.sku.memoryInCell; }
    }
  }
  return free;
}

/** Returns whether the cells of a VM on the machine are unknown. */
function hasUnknownCells(model, machine, side) { return machine[side].some((number) => model.vms[number][side].length === 3); }

/** Computes the share of a machine's memory used by VMs, 0 to 1. */
function loadOf(model, machine, side) {
  const all = machine.cells * machine.memory;
  if (!all) return 0;
  let used = 0;
  for (const number of machine[side]) used += model.vms[number].sku.memory;
  return Math.min(used / all, 1);
}

/** Returns the pods of the plan by cluster and node. */
function podsByNode() {
  if (!plan.podsByNode) {
    plan.podsByNode = new Map();
    for (const row of plan.rows) {
      if (row[0] !== "pod") continue;
      const pod = named("row", row);
      const key = `${pod.at[0]}\n${pod.at[1]}`;
      if (!plan.podsByNode.has(key)) plan.podsByNode.set(key, []);
      plan.podsByNode.get(key).push(pod);
    }
  }
  return plan.podsByNode;
}

function podsOf(vm) { return podsByNode().get(`${vm.paint.name}\n${vm.plain}`) || []; }

/** Returns the bindings of a VM's cluster; members have their own names. */
function bindingsOf(site, vm) {
  const members = plan.members.filter(([, id]) => id === `${site.id}/${vm.paint.name}`).map(([name]) => name);
  const names = members.length ? members : [vm.paint.name];
  return plan.rows.filter((row) => row[0] === "binding").map((row) => named("row", row)).filter((row) => names.includes(row.at[0]));
}

function happens(vm) {
  const why = vm.trigger && vm.mark !== 4 ? ` (${vm.trigger})` : "";
  if (vm.mark === 0) return vm.more.outcome || "unchanged";
  if (siteShown().steps.length) return plan.marks[vm.mark];
  return `${plan.denied ? "would be " : ""}${vm.more.outcome || MARKS[vm.mark]}${why}`;
}

function placeText(place) {
  if (!place) return "";
  const [rack, machine, , ...cells] = place;
  if (!cells.length) return `${rack} / ${machine}`;
  return `${rack} / ${machine} / ${cells.length === 1 ? "cell" : "cells"} ${cells.join("+")}`;
}
