"use strict";
// Closer and farther than racks: one machine with its cells, VMs and pods; ten thousand machines at a glance.

const LARGE = 1000;
const TALLEST = 1500;

function isLarge(model) { return model.machines.size > LARGE; }

/** A machine: a column per cell, each VM with what is known of it and the pods on it, then what is free. */
function machineView(site, model, machine) {
  const side = map.view === "before" ? "before" : "after";
  const free = freeOf(model, machine, side);
  const loose = [];
  const columns = free.map(([cpus, memory], cell) => {
    const vms = machine[side].map((number) => model.vms[number]).filter((vm) => vm[side].slice(3).includes(cell));
    const ghosts = map.view === "change" ? machine.before.map((number) => model.vms[number]).filter((vm) => leaves(vm) && vm.before.slice(3).includes(cell)) : [];
    const rest = make("li", { class: "rest" }, untold(model, machine, side) ? "How much is free is not known" : `${Math.max(cpus, 0)} of ${machine.cpus} vCPU and ${Math.max(memory, 0)} of ${machine.memory} GiB free`);
    return make("section", { class: "cell-card", "aria-label": `Cell ${cell}` }, make("h4", {}, `Cell ${cell}`),
      make("ul", {}, vms.map((vm) => vmCard(site, model, vm, side, false)), ghosts.map((vm) => vmCard(site, model, vm, "before", true)), rest));
  });
  for (const number of machine[side]) if (model.vms[number][side].length === 3) loose.push(vmCard(site, model, model.vms[number], side, false));
  if (loose.length) columns.push(make("section", { class: "cell-card" }, make("h4", {}, "Cells that nobody told"), make("ul", {}, loose)));
  const hardware = `${machine.sku ? `${machine.sku}: ` : ""}${machine.cells} x ${machine.cpus} vCPU / ${machine.memory} GiB`;
  const facts = [`${machine.rack.name}, zone ${machine.rack.zone}, slot ${machine.slot}`, hardware, machine.refusal ? `takes no new VMs: ${machine.refusal}` : "takes new VMs"];
  const rules = sharedOn(machine.name).map((each) => make("p", { class: "broken" }, `${each.rule}: ${each.members.join(", ")} must not share it.`));
  return make("div", { class: "machine-view", id: "machine-view" }, make("p", { class: "quiet" }, facts.join(" \u00b7 ")), rules, make("div", { class: "cell-cards" }, columns));
}

function vmCard(site, model, vm, side, ghost) {
  const face = faceOf(model, vm, side, ghost);
  const swatch = make("span", { class: `swatch ${ghost ? "ghost" : `paint-${vm.paint.colour} ${vm.paint.pattern}`} ${MARKS[face.mark]} ${face.sure ? `sure-${face.sure}` : ""}`, "aria-hidden": "true" }, `${SIGNS[face.mark]}${vm.paint.key}`);
  const pods = ghost ? [] : podsOf(vm);
  const opener = make("button", { type: "button", class: "link", "data-vm": vm.number, "data-side": ghost ? "before" : side }, vm.name);
  return make("li", { class: ghost ? "vm-card leaving" : "vm-card" }, swatch, make("div", {}, opener,
    make("div", { class: "quiet small" }, `${vm.paint.name}${vm.pool ? ` / ${vm.pool}` : ""} \u00b7 ${vm.sku.name} \u00b7 ${happens(vm)}${vm.sure ? `, ${STEPS[vm.sure]}` : ""}`),
    pods.length ? make("ul", { class: "pods" }, pods.map((pod) => make("li", {}, pod.object))) : null));
}

/** Every machine of a large site as a square, by rack, in the colour of its load; a dot where something changes. */
function overviewOf(site, model, width) {
  const racks = [...model.racks.values()];
  const side = map.view === "before" ? "before" : "after";
  const plot = overviewPlot(racks, Math.max(width, 300));
  const layer = shape("svg", { class: "overview", id: "overview", width: plot.width, height: plot.height, viewBox: `0 0 ${plot.width} ${plot.height}`, role: "group", "aria-label": `All racks of ${site.name}, by load; the arrow keys move between racks` });
  racks.forEach((rack, at) => {
    const left = (at % plot.across) * plot.wide;
    const top = Math.floor(at / plot.across) * plot.high;
    const changed = rack.machines.some((machine) => [...machine.before, ...machine.after].some((number) => model.vms[number].mark !== 0 && model.plainMark !== model.vms[number].mark));
    const words = `${rack.name}: ${counted(rack.machines.length, "machine")}, ${counted(rack.machines.reduce((sum, each) => sum + each[side].length, 0), "VM")}${changed ? ", changes" : ""}`;
    const link = shape("a", { href: linkTo(site, "rack", rack.name), "aria-label": words, "data-tip": words, tabindex: at ? "-1" : "0", class: changed ? "changed" : "" });
    link.append(shape("rect", { class: "plate", x: left, y: top, width: plot.wide - 2, height: plot.high - 2 }));
    rack.machines.forEach((machine, number) => link.append(shape("rect", {
      class: `load-${loadStep(loadOf(model, machine, side))}${machine.refusal ? " closed" : ""}`, x: left + 1 + (number % plot.columns) * plot.square,
      y: top + 1 + Math.floor(number / plot.columns) * plot.square, width: plot.square - 1, height: plot.square - 1,
    })));
    if (changed) link.append(shape("circle", { cx: left + plot.wide - 4, cy: top + 4, r: 3 }));
    layer.append(link);
  });
  layer.addEventListener("keydown", (event) => walk(event, layer, plot.across));
  return make("div", {}, make("p", { class: "quiet" }, `${counted(model.machines.size, "machine")} in ${counted(racks.length, "rack")}, each square a machine. Choose a rack to see its VMs.`),
    make("ul", { class: "legend", "aria-label": "Legend" }, LOADS.map((word, step) => entry(`load-${step}`, "", word))), layer);
}

/** Sizes that keep the overview below two screens: squares of 4 to 14 pixels. */
function overviewPlot(racks, width) {
  const most = Math.max(1, ...racks.map((rack) => rack.machines.length));
  const columns = Math.ceil(Math.sqrt(most));
  const rows = Math.ceil(most / columns);
  let best = null;
  for (let square = 14; square >= 4; square -= 1) {
    const wide = columns * square + 4;
    const high = rows * square + 4;
    const across = Math.max(Math.floor(width / wide), 1);
    best = { square, columns, wide, high, across, width: across * wide, height: Math.ceil(racks.length / across) * high };
    if (best.height <= TALLEST) break;
  }
  return best;
}

function walk(event, layer, across) {
  const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across }[event.key];
  if (!step) return;
  event.preventDefault();
  const links = [...layer.querySelectorAll("a")];
  const to = links[links.indexOf(document.activeElement) + step];
  if (!to) return;
  document.activeElement.setAttribute("tabindex", "-1");
  to.setAttribute("tabindex", "0");
  to.focus();
}
