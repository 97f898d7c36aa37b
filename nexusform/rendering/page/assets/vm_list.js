"use strict";
// The VMs as a table: what changes first, filtered as the map is, a chunk at a time.

const FIRST_VMS = 30;

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
  printers.push(() => expand());

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
    const heads = ["VM", "What happens", "Before", "After", "SKU", "How sure", "This machine"];
    const table = make("table", {}, make("caption", { class: "quiet" }, "VMs and where they stand"),
      make("thead", {}, make("tr", {}, heads.map((head) => make("th", { scope: "col" }, head)))), body);
    holder.replaceChildren(make("div", { class: "scroll firm", tabindex: "0", role: "region", "aria-label": "VMs" }, table));
    expand = chunked(holder, rows, row, body, FIRST_VMS);
  };

  const row = ([site, vm]) => {
    const kinds = ["", "mark-place", "mark-move", "mark-remove"];
    const opener = make("button", { type: "button", class: "link", onclick: () => showVm(site, vm, opener) }, vm.name);
    return make("tr", {}, make("th", { scope: "row" }, opener),
      make("td", { class: kinds[vm.mark] }, `${SIGNS[vm.mark]} ${happens(vm)}`.trim()),
      make("td", {}, placeText(vm.before)), make("td", {}, placeText(vm.after)), make("td", {}, vm.sku.name),
      make("td", {}, STEPS[vm.sure]), make("td", { class: "n" }, vm.more.certainty ? share(vm.more.certainty[1]) : ""));
  };

  const search = searchBox("Search VMs, machines, racks, triggers", "vm-search", (text) => { state.text = text; draw(); });
  const kept = tick("list VMs that stay too", (value) => { state.kept = value; draw(); });
  kept.input.checked = state.kept;
  into.append(make("div", { class: "tools" }, search.label, kept.label), status, holder);
  listeners.push(draw);
  draw();
}
