"use strict";
// The VMs as a table: what changes first, filtered as the map is, a chunk at a time.

const FIRST_VMS = 15;

const KINDS_OF_MARKS = ["", "mark-place", "mark-move", "mark-remove"];
const COLUMNS = [
  { head: "VM" },
  { head: "What happens", cell: (vm) => `${SIGNS[vm.mark]} ${happens(vm)}`.trim(), kind: (vm) => KINDS_OF_MARKS[vm.mark] },
  { head: "Before", cell: (vm) => placeText(vm.before), needs: (vm) => vm.before },
  { head: "After", cell: (vm) => placeText(vm.after), needs: (vm) => vm.after },
  { head: "SKU", cell: (vm) => vm.sku.name },
  { head: "How sure", cell: (vm) => STEPS[vm.sure], needs: (vm) => vm.sure },
  { head: "This machine", cell: (vm) => (vm.more.certainty ? share(vm.more.certainty[1]) : ""), needs: (vm) => vm.more.certainty, kind: () => "n" },
];

function startVmList(into) {
  const all = [];
  plan.sites.forEach((site, at) => {
    for (let number = 0; number < site.vms.length; number += 1) all.push([at, number, site.vms[number][5]]);
  });
  const anyChange = all.some(([, , mark]) => mark !== 0);
  const state = { text: "", kept: !anyChange };
  const status = make("p", { role: "status", class: "quiet", id: "vm-status" });
  const holder = make("div", {});

  let expand = () => {};
  let columns = COLUMNS;
  // The map has where everything stands; paper needs no list of what stays.
  printers.push(() => { if (anyChange) expand(); });

  const draw = () => {
    const rows = [];
    for (const [at, number, mark] of all) {
      // Whoever writes a name wants that VM, whether it changes or not.
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
    // A column in which nobody has anything is left out.
    const has = (key) => rows.some(([, vm]) => key(vm));
    columns = COLUMNS.filter((column) => !column.needs || has(column.needs));
    const table = make("table", {}, make("caption", { class: "quiet" }, "VMs and where they stand"),
      make("thead", {}, make("tr", {}, columns.map((column) => make("th", { scope: "col" }, column.head)))), body);
    holder.replaceChildren(make("div", { class: "scroll firm", tabindex: "0", role: "region", "aria-label": "VMs" }, table));
    expand = chunked(holder, rows, row, body, FIRST_VMS);
  };

  const row = ([site, vm]) => {
    const opener = make("button", { type: "button", class: "link", onclick: () => showVm(site, vm, opener) }, vm.name);
    const cells = columns.slice(1).map((column) => make("td", { class: column.kind ? column.kind(vm) : null }, column.cell(vm)));
    return make("tr", {}, make("th", { scope: "row" }, opener), cells);
  };

  const search = searchBox("Search VMs, machines, racks, triggers", "vm-search", (text) => { state.text = text; draw(); });
  const kept = tick("list VMs that stay too", (value) => { state.kept = value; draw(); });
  kept.input.checked = state.kept;
  into.append(make("div", { class: "tools" }, search.label, kept.label), status, holder);
  listeners.push(draw);
  draw();
}
