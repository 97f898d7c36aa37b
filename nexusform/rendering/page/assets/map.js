"use strict";
// The whole map: tools, legend, summary line and zoom.

const MOST_MOVES = 12;
const MOST_FIGURES = 24;
const MOST_RACKS_OF_REMOVAL = 3;
const frame = { tools: null, crumbs: null, legend: null, note: null, stage: null, moves: null, status: null, selects: {} };

/** State of the last drawn plan: filter listeners, a selected position, open details. */
function forget() {
  listeners.length = 0;
  Object.assign(map, { site: firstToSee(), layer: plan.layer || "cluster", lost: "", rack: "", machine: "", step: 0, chosen: undefined });
  stopPlaying();
  Object.assign(filters, { cluster: "", pool: "", trigger: "", changed: false });
  detail.opener = null;
  detail.close();
  tip.hidden = true;
}

/** Returns whether a VM of a site is created, deleted or moved. */
function siteChanges(site) {
  if (plan.marks) return false;
  return site.changes === undefined ? (site.changes = modelOf(site).marks.slice(1).some((count) => count > 0)) : site.changes;
}

/** Returns the site with the most removed VMs, or without any the one with the most changes. */
function firstToSee() {
  if (plan.marks) return 0;
  const all = plan.sites.map((site) => modelOf(site).marks);
  const removed = all.map((marks) => marks[3]);
  const counts = removed.some(Boolean) ? removed : all.map((marks) => marks.slice(1).reduce((sum, count) => sum + count, 0));
  return Math.max(counts.indexOf(Math.max(...counts)), 0);
}

/** Opens the map of a large site at the rack with the most removed VMs, if they are on few racks. */
function openAtRemoval() {
  const model = modelOf(siteShown());
  if (plan.marks || !isFar(model)) return;
  const racks = new Map();
  for (const vm of model.vms) if (vm.mark === 3) racks.set(vm.before[0], (racks.get(vm.before[0]) || 0) + 1);
  if (!racks.size || racks.size > MOST_RACKS_OF_REMOVAL) return;
  [[map.rack]] = [...racks].sort(([, one], [, other]) => other - one);
  map.layer = "cluster";
}

function namesOf(key) {
  const names = new Set();
  for (const site of plan.sites) {
    if (key === "cluster") site.clusters.forEach((paint) => names.add(paint.name));
    else if (key === "pool") site.pools.forEach((pool) => pool && names.add(pool));
    else site.vms.forEach((vm) => vm[8] && vm[8].trigger && names.add(vm[8].trigger));
  }
  return [...names];
}

function setFilter(key, value) {
  filters[key] = value;
  frame.selects[key].value = value;
  changedFilter();
}

function changedFilter() {
  const model = modelOf(siteShown());
  frame.stage.querySelectorAll("button.vm").forEach((button) => {
    button.classList.toggle("faded", !passes(model.vms[Number(button.dataset.vm)]));
  });
  if (isFar(model)) drawStage(frame.stage);
  else drawArrows(frame.stage, model);
  drawLegend();
  tell();
  listeners.forEach((listener) => listener());
}

function tell() {
  const site = siteShown();
  const side = map.view === "before" ? "before" : "after";
  const existing = modelOf(site).vms.filter((vm) => vm[side]);
  const shown = existing.filter(passes).length.toLocaleString("en");
  const all = existing.length.toLocaleString("en");
  // The platform removes that many of the VMs marked with ?.
  const choice = side === "after" ? existing.filter((vm) => vm.mark === 4) : [];
  const removed = choice.filter((vm) => vm.trigger).length;
  const words = filtered() ? `${shown} of ${all} VMs match the filter` : counted(existing.length - removed, "VM");
  const after = plan.denied ? "If applied" : "After the plan";
  const when = plan.errored ? "No changes were made" : side === "before" ? "Before the plan" : after;
  if (plan.marks) {
    const down = site.steps.length ? site.steps[map.step].down.length : 0;
    frame.status.textContent = `${words} on ${site.name}${down ? `, ${counted(down, "machine")} down` : ""}.`;
    return;
  }
  const note = removed ? `, without ${removed.toLocaleString("en")} of the ${choice.length.toLocaleString("en")} marked with ?` : "";
  frame.status.textContent = `${when}: ${words} on ${site.name}${note}.`;
}

function drawLegend() {
  const site = siteShown();
  const model = modelOf(site);
  frame.legend.replaceChildren(...(isFar(model) ? farLegend(site, model) : layerLegend(site, model, map.layer)));
  frame.note.replaceChildren();
  if (map.layer === "loss" && !map.machine && map.lost) frame.note.append(lossNote(model));
}

function drawCrumbs() {
  const site = siteShown();
  const steps = [[site.name, linkTo(site, "site", site.name)]];
  if (map.rack) steps.push([map.rack, linkTo(site, "rack", map.rack)]);
  if (map.machine) steps.push([map.machine, linkTo(site, "machine", map.machine)]);
  frame.crumbs.hidden = steps.length < 2;
  frame.crumbs.replaceChildren(...steps.map(([name, href], at) => make("li", {}, make("a", { href, "aria-current": at === steps.length - 1 ? "location" : null }, name))));
}

/** Redraws the map. */
function drawMap() {
  const model = modelOf(siteShown());
  const views = viewsOf(model);
  // Squares do not use the colours of clusters.
  if (isFar(model) && map.layer === "cluster") map.layer = "load";
  if (siteShown().steps.length) map.view = "change";
  else if (!views.includes(map.view)) [map.view] = views;
  drawCrumbs();
  drawTools(model, views);
  drawStage(frame.stage);
  drawLegend();
  drawMoves(model);
  tell();
}

/** Lists moved and deleted VMs as text below the map; of many, similar ones together as in the other reports. */
function drawMoves(model) {
  const site = siteShown();
  const rows = site.moves || model.vms.filter((vm) => vm.mark === 2 || vm.mark === 3);
  const listed = Boolean(document.getElementById("vms"));
  const items = rows.slice(0, listed ? MOST_MOVES : MOST_PRINTED).map(site.moves ? foldedMove : (vm) => oneMove(site, vm));
  const left = (rows.length - items.length).toLocaleString("en");
  if (rows.length > items.length) items.push(make("li", {}, listed ? make("a", { href: "#vms" }, `${left} more in the list of VMs`) : `${left} more`));
  frame.moves.replaceChildren(...items);
  frame.moves.hidden = !rows.length;
}

function oneMove(site, vm) {
  return make("li", {}, moveSign(vm.mark === 2, SIGNS[vm.mark]), make("a", { href: linkTo(site, "vm", vm.plain) }, vm.name),
    ` ${describeOutcome(vm)}`, make("span", { class: "quiet" }, ` ${vm.trigger}`));
}

function foldedMove([symbol, label, text]) {
  return make("li", {}, moveSign(symbol === "~", symbol === "-" ? SIGNS[3] : symbol), make("b", {}, label), ` ${text}`);
}

function moveSign(isMove, sign) { return make("span", { class: `sign ${isMove ? "changed" : "removed"}` }, sign); }

function describeOutcome(vm) {
  if (vm.after && (!vm.more.outcome || vm.after[1] !== vm.before[1])) return `${short(vm.before)} \u2192 ${short(vm.after)}`;
  return vm.more.outcome ? `${vm.more.outcome}: ${short(vm.before)}` : `removed from ${short(vm.before)}`;
}

function short(place) { return place[1].startsWith(place[0]) ? place[1] : `${place[0]} / ${place[1]}`; }

function radios(name, title, choices, current, changed) {
  const made = Object.entries(choices).map(([value, words]) => make("label", {}, make("input", { type: "radio", name, value, checked: value === current, onchange: () => changed(value) }), make("span", {}, words)));
  return make("fieldset", { class: "segments" }, make("legend", {}, title), make("div", {}, made));
}

/** Controls of a simulation: previous step, next step, or playback with 1.5 seconds per step. */
function stepTools(site) {
  const last = site.steps.length - 1;
  const to = (step) => { map.step = Math.max(0, Math.min(step, last)); drawMap(); };
  const button = (name, words, step) => make("button", { type: "button", name, onclick: () => { stopPlaying(); to(step()); } }, words);
  const play = make("button", { type: "button", name: "play", onclick: () => {
    if (map.playing) { stopPlaying(); drawMap(); return; }
    if (map.step === last) map.step = 0;
    map.playing = setInterval(() => { if (map.step >= last) { stopPlaying(); drawMap(); } else to(map.step + 1); }, 1500);
    drawMap();
  } }, map.playing ? "Pause" : "Play");
  const slider = make("input", { type: "range", id: "step", name: "step", min: 0, max: last, value: map.step, "aria-label": "Step", "aria-valuetext": site.steps[map.step].title, onchange: () => { stopPlaying(); to(Number(slider.value)); } });
  return make("div", { class: "player" }, button("back", "Back", () => map.step - 1), play, button("on", "Next", () => map.step + 1), slider, make("b", { id: "step-title", role: "status" }, site.steps[map.step].title), stepFigures(site.steps[map.step]));
}

/** Lists the remaining VMs of the pools in a step, smallest share first. */
function stepFigures(step) {
  const figures = [...step.figures].sort((one, other) => other[2] - one[2]);
  const items = figures.slice(0, MOST_FIGURES).map(([pool, text, bad]) => make("li", { class: bad ? "bad" : null }, `${pool} `, make("b", {}, text)));
  if (figures.length > MOST_FIGURES) items.push(make("li", { class: "quiet" }, `and ${counted(figures.length - MOST_FIGURES, "more pool")}`));
  return make("ul", { class: "step-figures", hidden: !figures.length, "aria-label": "After this step" }, items);
}

function stopPlaying() {
  clearInterval(map.playing);
  map.playing = 0;
}

function drawTools(model, views) {
  const active = document.activeElement && frame.tools.contains(document.activeElement) ? document.activeElement.name : "";
  const choices = Object.fromEntries(views.map((view) => [view, VIEWS[view]]));
  const parts = [];
  if (plan.sites.length > 1) {
    const select = make("select", { id: "map-site", onchange: () => zoomTo(Number(select.value)) }, plan.sites.map((site, at) => make("option", { value: at, selected: at === map.site }, siteChanges(site) ? `${site.name} (changes)` : site.name)));
    parts.push(make("label", {}, "Site", select));
  }
  const site = siteShown();
  if (site.steps.length) parts.push(stepTools(site));
  if (views.length > 1) parts.push(radios("view", "Show", choices, map.view, (view) => { map.view = view; drawMap(); }));
  if (!map.machine) {
    parts.push(radios("layer", "Paint by", isFar(model) ? FAR_LAYERS : LAYERS, map.layer, (layer) => {
      map.layer = layer;
      if (layer === "loss" && !model.racks.has(map.lost)) [map.lost] = model.racks.keys();
      drawMap();
    }));
    if (map.layer === "loss") {
      const select = make("select", { id: "lost-rack", onchange: () => { map.lost = select.value; drawMap(); } }, [...model.racks.keys()].map((name) => make("option", { value: name, selected: name === map.lost }, name)));
      parts.push(make("label", {}, "Rack lost", select));
    }
  }
  frame.tools.replaceChildren(...parts);
  if (active) { const again = frame.tools.querySelector(`[name="${active}"]:checked, button[name="${active}"], #${active}`); if (again) again.focus(); }
}

function zoomTo(site, rack = "", machine = "") {
  const wasFar = isFar(modelOf(siteShown()));
  if (site !== map.site) map.step = 0;
  Object.assign(map, { site, rack, machine, chosen: undefined });
  // A rack selected in the overview is shown with its VMs.
  if (wasFar && !isFar(modelOf(siteShown()))) map.layer = "cluster";
  if (map.layer === "loss" && !modelOf(siteShown()).racks.has(map.lost)) map.layer = "cluster";
  drawMap();
}

/** Shows the target of the address: a site, rack or machine, or a VM at its position with its details. */
function showPlace({ at, vm, machine, rack }) {
  const site = plan.sites[at];
  if (!vm) {
    detail.close();
    zoomTo(at, machine ? machine.rack.name : rack ? rack.name : "", machine ? machine.name : "");
    document.getElementById("racks").scrollIntoView();
    return;
  }
  const place = vm.after || vm.before;
  if (!vm.after && map.view === "after") map.view = "change";
  if (!vm.before && map.view === "before") map.view = "change";
  const model = modelOf(site);
  zoomTo(at, isLarge(model) ? place[0] : "", "");
  map.layer = "cluster";
  map.chosen = vm.number;
  drawMap();
  const boxes = [...frame.stage.querySelectorAll(`button.vm[data-vm="${vm.number}"]`)];
  boxes.forEach((box) => box.classList.add("chosen"));
  const box = boxes.find((each) => each.dataset.side === "after") || boxes[0];
  showVm(site, vm, box);
  if (box) box.scrollIntoView({ block: "center" });
}

function filterTools() {
  const set = (key) => (value) => setFilter(key, value);
  const tools = ["cluster", "pool", "trigger"].map((key) => {
    const made = choose(key[0].toUpperCase() + key.slice(1), namesOf(key), set(key));
    made.select.id = `filter-${key}`;
    frame.selects[key] = made.select;
    return made;
  });
  const changed = tick("changed VMs only", (value) => { filters.changed = value; changedFilter(); });
  changed.input.id = "filter-changed";
  const reset = make("button", { type: "button", onclick: () => {
    tools.forEach((tool) => { tool.select.value = ""; });
    changed.input.checked = false;
    Object.assign(filters, { cluster: "", pool: "", trigger: "", changed: false });
    changedFilter();
  } }, "Reset");
  return make("details", { class: "filters" }, make("summary", {}, "Filter"), make("div", { class: "tools" }, tools.map((tool) => tool.label), changed.label, reset));
}

function startMap(into) {
  frame.tools = make("div", { class: "tools" });
  frame.crumbs = make("ol", { class: "crumbs", "aria-label": "Location on the site" });
  frame.legend = make("ul", { class: "legend", "aria-label": "Legend" });
  frame.note = make("div", {});
  frame.stage = make("div", { class: "stage", id: "stage" });
  frame.moves = make("ul", { class: "moves", "aria-label": "Moved or removed VMs" });
  frame.status = make("p", { role: "status", class: "quiet", id: "map-status" });
  into.append(frame.tools, filterTools(), frame.crumbs, frame.legend, frame.note, frame.stage, frame.status, frame.moves);
  frame.stage.addEventListener("click", (event) => {
    tip.hidden = true;
    const site = siteShown();
    const vm = event.target.closest("button[data-vm]");
    const slot = event.target.closest("button.slot");
    if (vm) {
      unchoose();
      vm.classList.add("chosen");
      map.chosen = Number(vm.dataset.vm);
      const model = modelOf(site);
      if (model.marks[2] > MOST_BOLD) drawArrows(frame.stage, model);
      showVm(site, model.vms[map.chosen], vm);
    } else if (slot) window.location.hash = linkTo(site, "machine", slot.dataset.machine);
  });
  map.view = "change";
  openAtRemoval();
  drawMap();
}
