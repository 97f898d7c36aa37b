"use strict";
// Layers that colour cells instead of VMs: load, free cells, broken cells, a lost rack.

const LAYERS = { cluster: "clusters", load: "load", free: "free cells", fragments: "fragmentation", loss: "loss of a rack" };
const LOADS = ["empty", "to 25 %", "to 50 %", "to 75 %", "to 99 %", "full"];

/** Returns the largest SKU in use by share of a cell: a broken cell has no capacity for it. */
function largestSku(site) {
  const skus = site.skus.map((row) => named("sku", row));
  return skus.reduce((best, sku) => (!best || sku.memoryInCell > best.memoryInCell ? sku : best), null);
}

function loadStep(part) {
  if (part <= 0) return 0;
  return part >= 0.995 ? 5 : Math.min(1 + Math.floor(part * 4), 4);
}

/** Returns whether a cell is empty, and whether its free capacity is too small for the largest SKU. */
function cellState(machine, [cpus, memory], largest) {
  const untouched = cpus === machine.cpus && memory === machine.memory;
  return { untouched, broken: Boolean(!untouched && memory > 0 && largest && (memory < largest.memoryInCell || cpus < largest.cpusInCell)) };
}

function figure(cell, kind, text, tip) {
  cell.classList.add(kind);
  cell.dataset.tip = tip;
  cell.append(make("span", { class: "figure" }, text));
}

/** Colours the cells of one machine; the layers of clusters and of a lost rack keep the VMs unchanged. */
function paintCells(model, machine, side, cells) {
  if (map.layer === "cluster" || map.layer === "loss") return;
  const free = freeOf(model, machine, side);
  const largest = largestSku(siteShown());
  if (map.layer !== "load" && hasUnknownCells(model, machine, side)) {
    cells.forEach((cell, at) => figure(cell, "is-taken", "?", `${machine.name} cell ${at}: cells of a VM unknown`));
    return;
  }
  const load = Math.round(loadOf(model, machine, side) * 100);
  if (map.layer === "load" && hasUnknownCells(model, machine, side)) {
    cells.forEach((cell) => figure(cell, `load-${loadStep(load / 100)}`, `${load}%`, `${machine.name}: ${load} % of the memory is used, cells unknown`));
    return;
  }
  free.forEach(([cpus, memory], at) => {
    const where = `${machine.name} cell ${at}`;
    const rest = `${Math.max(cpus, 0)} vCPU and ${Math.max(memory, 0)} GiB free`;
    const part = machine.memory ? 1 - Math.max(memory, 0) / machine.memory : 0;
    const { untouched, broken } = cellState(machine, [cpus, memory], largest);
    if (map.layer === "load") figure(cells[at], `load-${loadStep(part)}`, `${Math.round(part * 100)}%`, `${where}: ${Math.round(part * 100)} % of the memory is used`);
    else if (map.layer === "free") figure(cells[at], untouched && !machine.closed ? "is-free" : "is-taken", untouched && !machine.closed ? "free" : "", `${where}: ${machine.closed ? `takes no new VM: ${machine.closed}` : rest}`);
    else figure(cells[at], broken ? "is-broken" : "is-whole", broken ? `${memory}` : "", broken ? `${where}: fragmented, ${rest}, too little for ${largest.name}` : `${where}: ${rest}`);
  });
}

/** Lists the losses of pools without a rack, largest first. */
function lossOf(model, rack, side) {
  const pools = new Map();
  for (const vm of model.vms) {
    if (!vm[side]) continue;
    const key = `${vm.paint.name}${vm.pool ? ` / ${vm.pool}` : ""}`;
    const count = pools.get(key) || [0, 0];
    count[1] += 1;
    if (vm[side][0] === rack) count[0] += 1;
    pools.set(key, count);
  }
  return [...pools].filter(([, [lost]]) => lost).sort(([, a], [, b]) => b[0] / b[1] - a[0] / a[1]);
}

function lossNote(model) {
  const rows = lossOf(model, map.lost, map.view === "before" ? "before" : "after");
  const lost = rows.reduce((sum, [, [count]]) => sum + count, 0);
  return make("div", { class: "loss" }, make("p", {}, `Without ${map.lost}: ${counted(lost, "VM")} of ${counted(rows.length, "pool")} are lost.`),
    make("ul", {}, rows.map(([pool, [count, all]]) => make("li", {}, make("b", {}, `${count} of ${all}`), ` ${pool}`))));
}

function layerLegend(site, model, layer) {
  if (layer === "load") return LOADS.map((word, step) => entry(`load-${step}`, "", word));
  if (layer === "free") return [entry("is-free", "", "free"), entry("is-taken", "", "partly used"), entry("closed", "", "takes no new VMs")];
  if (layer === "fragments") {
    const largest = largestSku(site);
    return [entry("is-broken", "56", `GiB left, too little for ${largest ? largest.name : "a VM"}`), entry("is-whole", "", "free or full")];
  }
  return clusterLegend(site, model);
}

function entry(kind, text, words) {
  return make("li", {}, make("span", { class: `swatch ${kind}`, "aria-hidden": "true" }, text), words);
}

const MOST_NAMED = 16; // clusters in a legend; above it only changed ones are expanded, up to the same number

/** Shows a cluster with its VMs; for a changed one among many, before and after. */
function clusterEntry(paint, text) {
  const chosen = filters.cluster === paint.name;
  const button = make("button", { type: "button", class: "pick", "aria-pressed": chosen ? "true" : "false", onclick: () => setFilter("cluster", chosen ? "" : paint.name) },
    make("span", { class: `swatch paint-${paint.colour} ${paint.pattern}`, "aria-hidden": "true" }, paint.key), text);
  return make("li", {}, button);
}

function clusterEntries(site, model) {
  const counts = { before: new Map(), after: new Map() };
  const changed = new Set();
  for (const vm of model.vms) {
    for (const side of ["before", "after"]) if (vm[side]) counts[side].set(vm.paint, (counts[side].get(vm.paint) || 0) + 1);
    if (vm.mark) changed.add(vm.paint);
  }
  const count = (paint, side) => counts[side].get(paint) || 0;
  const alone = (paint) => clusterEntry(paint, `${paint.name} (${count(paint, map.view === "before" ? "before" : "after")})`);
  if (site.clusters.length <= MOST_NAMED) return site.clusters.map(alone);
  const both = (paint) => clusterEntry(paint, `${paint.name} (${count(paint, "before")} \u2192 ${count(paint, "after")})`);
  const first = site.clusters.filter((paint) => changed.has(paint));
  const rest = site.clusters.filter((paint) => !changed.has(paint));
  const all = counted(site.clusters.length, "cluster");
  const changing = first.length > MOST_NAMED ? [foldedClusters(first, rest.length ? `${first.length.toLocaleString("en")} clusters that change` : all, both)] : first.map(both);
  if (!rest.length) return changing;
  return [...changing, foldedClusters(rest, first.length ? `${rest.length.toLocaleString("en")} clusters that do not change` : all, alone)];
}

function foldedClusters(paints, words, entryOf) {
  const open = paints.some((paint) => filters.cluster === paint.name);
  return make("li", { class: "rest" }, make("details", { class: "screen", open }, make("summary", {}, words), make("ul", { class: "legend" }, paints.map(entryOf))));
}

/** Shows clusters with their VMs, then the marks in use on the map. */
function clusterLegend(site, model) {
  const entries = clusterEntries(site, model);
  const verb = plan.denied ? "would be placed" : "placed";
  const words = site.steps.length ? plan.marks : ["", verb, ...[2, 3, 4].map((mark) => listOutcomes(model, mark).join(" or "))];
  if (site.steps.some((step) => step.down.length)) entries.push(entry("is-down", "", "machine down"));
  if (model.plainMark) entries.push(make("li", { class: "quiet" }, `unmarked: ${verb}${model.plainStep > 0 ? `, ${STEPS[model.plainStep]}` : ""}`));
  [1, 2, 3, 4].filter((mark) => model.marks[mark] && mark !== model.plainMark).forEach((mark) => entries.push(entry(MARKS[mark], SIGNS[mark], words[mark])));
  if (leavesAny(model)) entries.push(entry("ghost", "", "previous location"));
  if (map.view === "change" && [...model.machines.values()].some((machine) => machine.mark === 3)) entries.push(entry("going", "", "machine to be removed"));
  [1, 2, 3].filter((step) => model.steps[step] && step !== model.plainStep).forEach((step) => entries.push(entry(`certainty-${step}`, "", STEPS[step])));
  if ([...model.machines.values()].some((machine) => machine.closed)) entries.push(entry("closed", "", "takes no new VMs"));
  if ([...model.machines.values()].some((machine) => hasUnknownCells(model, machine, "after"))) entries.push(entry("unknown", "", "unknown cells"));
  if (plan.shared.length) entries.push(entry("sharing", "", "violates a separation rule"));
  return entries;
}

/** Lists the changes of the VMs with a mark, each once. */
function listOutcomes(model, mark) {
  return [...new Set(model.vms.filter((vm) => vm.mark === mark).map((vm) => vm.more.outcome || MARKS[mark]))];
}

function leavesAny(model) { return model.marks[2] + model.marks[3] > 0; }
