"use strict";
// Overview of a large site: every machine is a square, up to ten thousand. Moves between racks are arrows, changed
// racks have an outline, and each rack is a link to its VMs.

const LARGE = 400;
// A phone shows two racks side by side: more machines than this fill several screens.
const LARGE_ON_PHONE = 64;
const PHONE = 640; // pixels
const TALLEST = 580;
const TALLEST_ON_PAPER = 450;
const FAR_LAYERS = { load: "load", free: "free cells", fragments: "fragmentation", loss: "loss of a rack" };

function onPhone() { return window.innerWidth <= PHONE && !document.documentElement.classList.contains("paper"); }

function isLarge(model) { return model.machines.size > (onPhone() ? LARGE_ON_PHONE : LARGE); }

/** Returns whether the overview of a large site is shown. */
function isFar(model) { return isLarge(model) && !map.rack && !map.machine; }

function overviewOf(site, model, width) {
  const racks = [...model.racks.values()];
  const side = map.view === "before" ? "before" : "after";
  const plot = overviewPlot(racks, Math.max(width, 300));
  const layer = shape("svg", { class: `overview${filtered() ? " filtered" : ""}`, id: "overview", width: plot.width, height: plot.height, viewBox: `0 0 ${plot.width} ${plot.height}`, role: "group", "aria-label": `All racks of ${site.name}; the arrow keys move between racks` });
  const squares = new Map();
  const step = site.steps[map.step];
  const look = { side, step, largest: largestSku(site), down: new Set(step ? step.down : []) };
  racks.forEach((rack, at) => layer.append(rackPlate(site, model, rack, at, plot, look, squares)));
  const changed = [...layer.querySelectorAll(".changed .plate")];
  // Outlines are drawn above all plates, unless most racks change.
  if (changed.length * 2 <= racks.length) layer.append(...changed.map((plate) => { const outline = plate.cloneNode(); outline.setAttribute("class", "outline"); return outline; }));
  layer.append(...farArrows(model, squares));
  layer.addEventListener("keydown", (event) => walk(event, layer, plot.across));
  const whose = plan.sites.length > 1 ? ` of ${site.name}` : "";
  return make("div", {}, make("p", { class: "quiet" }, `${counted(model.machines.size, "machine")} in ${counted(racks.length, "rack")}${whose}, each square a machine. `, make("span", { class: "screen" }, "Choose a rack to see its VMs.")), layer);
}

/** Draws a rack with its machines; `squares` receives the centre of each square. */
function rackPlate(site, model, rack, at, plot, look, squares) {
  const left = (at % plot.across) * plot.wide;
  const top = Math.floor(at / plot.across) * plot.high;
  const changed = rack.machines.some((machine) => [...machine.before, ...machine.after].some((number) => model.vms[number].mark !== 0 && model.plainMark !== model.vms[number].mark));
  const vms = rack.machines.reduce((sum, each) => sum + each[look.side].length, 0);
  const words = `${rack.name}: ${counted(rack.machines.length, "machine")}, ${counted(vms, "VM")}${changed ? ", changes" : ""}`;
  const lost = map.layer === "loss" && map.lost === rack.name ? "lost" : "";
  const link = shape("a", { href: linkTo(site, "rack", rack.name), "aria-label": words, "data-tip": words, tabindex: at ? "-1" : "0", class: `${changed ? "changed" : ""} ${lost}` });
  link.append(shape("rect", { class: "plate", x: left, y: top, width: plot.wide - 2, height: plot.high - 2 }));
  rack.machines.forEach((machine, number) => {
    const x = left + 1 + (number % plot.columns) * plot.square;
    const y = top + 1 + Math.floor(number / plot.columns) * plot.square;
    squares.set(machine.name, [x + plot.square / 2, y + plot.square / 2]);
    link.append(shape("rect", { class: squareKind(model, machine, look), x, y, width: plot.square - 1, height: plot.square - 1 }));
  });
  return link;
}

/** Returns the style of a machine's square in the selected layer. */
function squareKind(model, machine, { side, largest, down }) {
  if (down.has(machine.name)) return "is-down";
  const closed = machine.closed ? " closed" : "";
  const passing = filtered() && machine[side].some((number) => passes(model.vms[number])) ? " passing" : "";
  const states = ["free", "fragments"].includes(map.layer) ? freeOf(model, machine, side).map((room) => cellState(machine, room, largest)) : [];
  let kind = `load-${loadStep(loadOf(model, machine, side))}`;
  if (map.layer === "free") kind = !machine.closed && states.some((state) => state.untouched) ? "is-free" : "is-taken";
  if (map.layer === "fragments") kind = states.some((state) => state.broken) ? "is-broken" : "is-whole";
  return `${kind}${closed}${passing}`;
}

/** Draws arrows between racks if they are few; arrows inside a rack would hide it. */
function farArrows(model, squares) {
  const moved = map.view === "change" ? model.vms.filter((vm) => vm.mark === 2 && vm.before[0] !== vm.after[0] && passes(vm)) : [];
  if (moved.length > MOST_ARROWS) return [];
  const group = shape("g", { class: "arrows thin", "aria-hidden": "true" });
  moved.forEach((vm) => group.append(...arrow("", squares.get(vm.before[1]), squares.get(vm.after[1]))));
  return [group];
}

function farLegend(site, model) {
  const entries = map.layer === "loss" ? layerLegend(site, model, "load") : layerLegend(site, model, map.layer);
  if (document.querySelector("#overview .outline")) entries.push(entry("changing", "", "changes"));
  if (filtered()) entries.push(entry("passing", "", "has VMs that match the filter"));
  if (site.steps.some((step) => step.down.length)) entries.push(entry("is-down", "", "machine down"));
  return entries;
}

/** Computes sizes that fit one screen and one printed page: squares of 4 to 14 pixels. */
function overviewPlot(racks, width) {
  const most = Math.max(1, ...racks.map((rack) => rack.machines.length));
  const columns = Math.ceil(Math.sqrt(most));
  const rows = Math.ceil(most / columns);
  const tallest = document.documentElement.classList.contains("paper") ? TALLEST_ON_PAPER : TALLEST;
  let best = null;
  for (let square = 14; square >= 4; square -= 1) {
    const wide = columns * square + 4;
    const high = rows * square + 4;
    const across = Math.max(Math.floor(width / wide), 1);
    best = { square, columns, wide, high, across, width: across * wide, height: Math.ceil(racks.length / across) * high };
    if (best.height <= tallest) break;
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
