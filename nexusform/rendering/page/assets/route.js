"use strict";
// The current selection, kept in the address: #site=lab, #rack=rack3, #machine=rack3-bm11, #vm=cluster-a-pool1-5.
// A hash without "=" is a section of the page; the browser handles it.

function linkTo(site, kind, name) {
  const parts = new URLSearchParams();
  if (plan.sites.length > 1 || kind === "site") parts.set("site", site.name);
  if (kind !== "site") parts.set(kind, name);
  return `#${parts}`;
}

/** Returns the selection in the address: {site, rack, machine, vm}, or null if it is not in this plan. */
function placeAsked() {
  const text = window.location.hash.slice(1);
  if (!text.includes("=")) return null;
  const asked = new URLSearchParams(text);
  const named = asked.get("site");
  for (let at = 0; at < plan.sites.length; at += 1) {
    const site = plan.sites[at];
    if (named !== null && site.name !== named) continue;
    const model = modelOf(site);
    const vm = model.byName.get(asked.get("vm"));
    const machine = model.machines.get(asked.get("machine"));
    const rack = model.racks.get(asked.get("rack"));
    const bare = !asked.has("vm") && !asked.has("machine") && !asked.has("rack");
    if (vm || machine || rack || (bare && named !== null)) return { at, vm, machine, rack };
  }
  return null;
}

function follow() {
  const place = placeAsked();
  if (place && plan.sites.length && document.getElementById("map")) showPlace(place);
}
