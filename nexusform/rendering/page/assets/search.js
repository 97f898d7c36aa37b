"use strict";
// Search of the whole page: VMs, machines, racks, pods and changed objects.

const MOST_HITS = 14;

function hitsOf(text) {
  const hits = [];
  let count = 0;
  const add = (kind, name, words, href) => {
    count += 1;
    if (hits.length < MOST_HITS) hits.push({ kind, name, words, href });
  };
  for (const site of plan.sites) {
    const model = modelOf(site);
    if (plan.sites.length > 1 && site.name.toLowerCase().includes(text)) add("site", site.name, siteChanges(site) ? "changes" : "unchanged", linkTo(site, "site", site.name));
    for (const paint of site.clusters) {
      const vms = model.vms.filter((vm) => vm.paint.name === paint.name);
      if (vms.length && paint.name.toLowerCase().includes(text)) add("cluster", paint.name, `${counted(vms.length, "VM")} on ${site.name}`, linkTo(site, "vm", vms[0].plain));
    }
    for (const rack of model.racks.values()) if (rack.name.toLowerCase().includes(text)) add("rack", rack.name, `zone ${rack.zone}`, linkTo(site, "rack", rack.name));
    for (const vm of model.vms) {
      if (`${vm.name} ${vm.paint.name} ${vm.pool}`.toLowerCase().includes(text)) add("VM", vm.name, `${placeText(vm.after || vm.before)}, ${happens(vm)}`, linkTo(site, "vm", vm.plain));
    }
    for (const machine of model.machines.values()) {
      if (machine.name.toLowerCase().includes(text)) add("machine", machine.name, counted(machine.after.length, "VM"), linkTo(site, "machine", machine.name));
    }
  }
  for (const row of plan.rows) if (row[0] === "pod" && row[1].toLowerCase().includes(text)) add("pod", row[1], row[6] || row[5], "#pods");
  for (const row of plan.changes) if (row[3] && row[0].toLowerCase().includes(text)) add("change", row[0], row[4], "#changes");
  return { hits, count };
}

function startSearch() {
  const input = document.getElementById("find");
  const list = document.getElementById("hits");
  const note = document.getElementById("hit-count");
  let waiting = 0;
  const close = () => { list.replaceChildren(); list.hidden = true; note.textContent = ""; };
  const draw = () => {
    const text = input.value.trim().toLowerCase();
    if (!text) { close(); return; }
    const { hits, count } = hitsOf(text);
    list.replaceChildren(...hits.map((hit) => make("li", {}, make("a", { href: hit.href, onclick: () => { close(); if (hit.kind === "change") showChange(hit.name); follow(); } },
      make("span", { class: "kind" }, hit.kind), make("b", {}, hit.name), make("span", { class: "quiet" }, ` ${hit.words}`)))));
    const rest = count - hits.length;
    if (rest > 0) list.append(make("li", { class: "quiet" }, `${rest.toLocaleString("en")} more; type more of the name.`));
    if (!count) list.append(make("li", { class: "quiet" }, "No match."));
    note.textContent = counted(count, "hit");
    list.hidden = false;
  };
  input.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(draw, 100); });
  const box = input.closest(".find");
  box.addEventListener("keydown", (event) => {
    const links = [...list.querySelectorAll("a")];
    const at = links.indexOf(document.activeElement);
    if (event.key === "Escape") { close(); input.focus(); } else if (event.key === "ArrowDown" && links.length) { event.preventDefault(); links[Math.min(at + 1, links.length - 1)].focus(); } else if (event.key === "ArrowUp" && at >= 0) { event.preventDefault(); (links[at - 1] || input).focus(); } else if (event.key === "Enter" && document.activeElement === input && links.length) { links[0].click(); }
  });
  document.addEventListener("click", (event) => { if (!box.contains(event.target)) close(); });
}
