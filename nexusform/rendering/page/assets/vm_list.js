"use strict";
// The VMs as a table: changed VMs first, with the filters of the map, in chunks.

const FIRST_VMS = 15;

const KINDS_OF_MARKS = ["", "mark-place", "mark-move", "mark-remove", "mark-remove"];
// Columns marked `plain` need no label if a row has several lines.
const COLUMNS = [
  { head: "VM" },
  { head: "Change", plain: true, cell: (vm) => `${SIGNS[vm.mark]} ${happens(vm)}`.trim(), kind: (vm) => KINDS_OF_MARKS[vm.mark] },
  { head: "Before", cell: (vm) => placeText(vm.before), needs: (vm) => vm.before },
  { head: "After", cell: (vm) => placeText(vm.after), needs: (vm) => vm.after },
  { head: "SKU", plain: true, cell: (vm) => vm.sku.name },
  { head: "Certainty", cell: (vm) => STEPS[vm.step], needs: (vm) => vm.step },
  { head: "This machine", cell: (vm) => (vm.more.certainty ? share(vm.more.certainty[1]) : ""), needs: (vm) => vm.more.certainty, kind: () => "n" },
];

/** Prints VMs in columns, by pool, change and certainty. Many new VMs are counted, not listed. */
function printedVms(rows) {
  const [came, others] = [rows.filter(([, vm]) => vm.mark === 1), rows.filter(([, vm]) => vm.mark !== 1)];
  const listed = [...others.slice(0, MOST_PRINTED), ...(rows.length <= MOST_PRINTED ? came : [])];
  const groups = new Map();
  for (const [site, vm] of listed) {
    const title = `${plan.sites.length > 1 ? `${site.name}: ` : ""}${vm.paint.name}${vm.pool ? ` / ${vm.pool}` : ""}, ${vm.sku.name}, ${happens(vm)}${vm.step ? `, ${STEPS[vm.step]}` : ""}`;
    if (!groups.has(title)) groups.set(title, []);
    groups.get(title).push(vm);
  }
  const left = rows.length - listed.length;
  const words = `${counted(left, listed.length ? "more VM" : "VM")} ${left === 1 ? "is" : "are"} not printed: the table of pools counts them; the list on the page and a report (-report=csv:PATH) have each.`;
  return [make("div", { class: "printed-vms" }, [...groups].map(([title, vms]) => make("section", {}, make("h3", {}, title), make("ul", {}, vms.map(printedVm))))),
    ...(left ? [make("p", {}, words)] : [])];
}

function printedVm(vm) {
  const [from, to] = [vm.before, vm.after].map((place) => (place ? `${short(place)}${place.length > 3 ? `/${place.slice(3).join("+")}` : ""}` : ""));
  const where = vm.mark === 2 ? `${from} \u2192 ${to}` : to || from;
  const certainty = vm.more.certainty ? make("span", { class: "quiet" }, ` ${share(vm.more.certainty[1])}`) : null;
  return make("li", {}, make("b", {}, vm.plain), ` ${where}`, certainty);
}

function startVmList(into) {
  const all = [];
  plan.sites.forEach((site, at) => {
    for (let number = 0; number < site.vms.length; number += 1) all.push([at, number, site.vms[number][5]]);
  });
  const anyChange = all.some(([, , mark]) => mark !== 0);
  const state = { text: "", kept: !anyChange };
  const status = make("p", { role: "status", class: "quiet", id: "vm-status" });
  const holder = make("div", {});

  let listed = [];
  let columns = COLUMNS;
  // The map shows all positions; print does not list unchanged VMs.
  printers.push(() => {
    if (!anyChange || listed.length <= FIRST_VMS) return draw;
    holder.replaceChildren(...printedVms(listed));
    return draw;
  });

  const draw = () => {
    const rows = [];
    listed = rows;
    for (const [at, number, mark] of all) {
      // A search for a name finds the VM, changed or not.
      if (!mark && !state.kept && !state.text) continue;
      const vm = modelOf(plan.sites[at]).vms[number];
      if (!passes(vm)) continue;
      if (state.text) {
        const words = `${vm.name} ${vm.paint.name} ${vm.pool} ${vm.sku.name} ${placeText(vm.before)} ${placeText(vm.after)} ${vm.trigger}`;
        if (!words.toLowerCase().includes(state.text)) continue;
      }
      rows.push([plan.sites[at], vm]);
    }
    status.textContent = `${counted(rows.length, "VM")}${filtered() ? ", filtered as in the rack map" : ""}.`;
    const body = make("tbody", {});
    // Empty columns are omitted.
    const has = (key) => rows.some(([, vm]) => key(vm));
    columns = COLUMNS.filter((column) => !column.needs || has(column.needs));
    const table = make("table", {}, make("caption", { class: "quiet" }, "VMs and their locations"),
      make("thead", {}, make("tr", {}, columns.map((column) => make("th", { scope: "col" }, column.head)))), body);
    holder.replaceChildren(make("div", { class: "scroll nowrap stack", tabindex: "0", role: "region", "aria-label": "Table of VMs" }, table));
    chunked(holder, rows, row, body, FIRST_VMS);
  };

  const row = ([site, vm]) => {
    const opener = make("button", { type: "button", class: "link", onclick: () => showVm(site, vm, opener) }, vm.name);
    const cells = columns.slice(1).map((column) => make("td", { class: column.kind ? column.kind(vm) : null, "data-head": column.plain ? null : column.head }, column.cell(vm)));
    return make("tr", {}, make("th", { scope: "row" }, opener), cells);
  };

  const search = searchBox("Search VMs, machines, racks, triggers", "vm-search", (text) => { state.text = text; draw(); });
  const kept = tick("include unchanged VMs", (value) => { state.kept = value; draw(); });
  kept.input.checked = state.kept;
  const parts = [make("div", { class: "tools" }, search.label, kept.label), status, holder];
  // On a phone, a long list hides what follows.
  const changed = all.filter(([, , mark]) => mark !== 0).length || all.length;
  if (onPhone() && changed > FIRST_VMS) into.append(make("details", { class: "every" }, make("summary", {}, counted(changed, "VM")), parts));
  else into.append(...parts);
  listeners.push(draw);
  draw();
}
