"use strict";
// Details of one VM in a box next to the map, and the text at the pointer.

const detail = {
  box: make("aside", { class: "detail", id: "detail", "aria-live": "polite", "aria-label": "Details", hidden: true }),
  opener: null,
  show(title, pairs, opener) {
    const close = make("button", { type: "button", class: "close", onclick: () => this.close() }, "Close");
    const list = make("dl", {}, pairs.filter(([, value]) => value !== "" && value !== undefined)
      .map(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
    this.box.replaceChildren(close, make("h3", {}, title), list);
    this.box.hidden = false;
    this.opener = opener || null;
  },
  close() {
    if (this.box.hidden) return;
    this.box.hidden = true;
    unchoose();
    if (this.opener && this.opener.isConnected) this.opener.focus();
  },
};

function unchoose() {
  map.chosen = undefined;
  document.querySelectorAll(".chosen").forEach((old) => old.classList.remove("chosen"));
}

function share(part) { return `${Math.round(part * 100)} %`; }

function showVm(site, vm, opener) {
  const more = vm.more;
  const certainty = more.certainty
    ? `${STEPS[vm.step]}: same rack count of its pool in ${share(more.certainty[0])}, same machine in ${share(more.certainty[1])} of ${plan.samples} samples` : "";
  const scores = Object.entries(more.scores || {}).map(([name, value]) => `${name} ${value}`).join(", ");
  const rejected = (more.rejected || []).map(([who, rule, why]) => make("div", {}, `${who}: ${why} (${rule})`));
  const pods = podsOf(vm).map((pod) => make("div", {}, pod.object, make("span", { class: "quiet" }, ` ${pod.group}`)));
  const bindings = bindingsOf(site, vm).map((row) => make("div", {}, make("a", { href: "#fleet" }, row.address), ` ${row.to || row.from}`));
  const place = vm.after || vm.before;
  detail.show(vm.name, [
    ["Cluster", vm.paint.name], ["Pool", vm.pool],
    ["SKU", `${vm.sku.name}: ${vm.sku.cpus} host vCPUs, ${vm.sku.memory} GiB`],
    ["Change", happens(vm)], ["Why", more.reason || ""],
    ["Before", placeText(vm.before)], ["After", placeText(vm.after)],
    ["Certainty", certainty], ["Scores", scores], ["Source", more.provenance || ""],
    ["Declared at", vm.address ? make("code", {}, vm.address) : ""],
    ["Pods", pods.length ? make("div", {}, pods) : ""],
    ["Fleet", bindings.length ? make("div", {}, bindings) : ""],
    ["Rejected by", rejected.length ? make("div", {}, rejected) : ""],
    ["See", make("span", {}, make("a", { href: linkTo(site, "machine", place[1]) }, "its machine"), " \u00b7 ", make("a", { href: linkTo(site, "vm", vm.plain) }, "link to this VM"))],
  ], opener);
}

const tip = make("div", { class: "tip", hidden: true, "aria-hidden": "true" });

function hover(event) {
  const target = event.target.closest ? event.target.closest("[data-tip]") : null;
  tip.hidden = !target;
  if (!target) return;
  tip.textContent = target.dataset.tip;
  const wide = tip.offsetWidth, high = tip.offsetHeight;
  const x = Math.min(event.clientX + 12, window.innerWidth - wide - 8);
  const y = event.clientY + 18 + high > window.innerHeight ? event.clientY - high - 10 : event.clientY + 18;
  tip.style.left = `${Math.max(x, 4)}px`;
  tip.style.top = `${Math.max(y, 4)}px`;
}
