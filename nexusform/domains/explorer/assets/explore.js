"use strict";
// Controls above the map: every change requests a plan and draws it.

(function explore() {
  const MANY = 24; // clusters and racks
  const knobs = JSON.parse(document.getElementById("explore-data").textContent);
  const box = document.getElementById("explore");
  const counts = new Map();
  const lost = new Set();
  const active = new Set();
  const added = new Map();
  const note = make("p", { class: "note", role: "status" });
  const difference = make("pre", { class: "difference", hidden: "", tabindex: "0", role: "group", "aria-label": "Changes to the files" });
  let digest = "";
  let requested = 0;

  const wish = () => ({
    counts: Object.fromEntries(counts), lost: [...lost], active: [...active], added: Object.fromEntries(added),
  });

  async function ask(path, question) {
    const answer = await fetch(path, {
      method: "POST",
      headers: { "X-Token": knobs.token, "Content-Type": "application/json" },
      body: JSON.stringify(question),
    });
    const document = await answer.json();
    if (!answer.ok) throw new Error(document.problem);
    return document;
  }

  async function plan() {
    const mine = ++requested;
    forgetDifference();
    try {
      const answer = await ask("/plan", { wish: wish() });
      if (mine !== requested) return; // a later change is already being planned
      replace(answer.main, answer.data);
      document.getElementById("headline").textContent = answer.headline;
      note.textContent = "";
    } catch (problem) { note.textContent = problem.message; }
  }

  function forgetDifference() {
    difference.hidden = true;
    write.hidden = true;
    digest = "";
  }

  async function look() {
    try {
      const change = await ask("/change", { wish: wish() });
      const nothing = change.difference ? "" : "None of these changes can be written to the files.";
      note.textContent = [nothing, ...change.left_out].filter(Boolean).join(" ");
      difference.textContent = change.difference;
      difference.hidden = !change.difference;
      write.hidden = !change.difference;
      digest = change.digest;
    } catch (problem) { note.textContent = problem.message; }
  }

  async function save() {
    try {
      const answer = await ask("/write", { wish: wish(), digest });
      forgetDifference();
      note.textContent = `Written: ${answer.files.join(", ")}. Restart explore to continue.`;
    } catch (problem) { note.textContent = problem.message; }
  }

  /** Draws the controls of a cluster's pools: number of VMs, one more, one less. */
  function clusterKnobs([cluster, pools]) {
    return make("div", { class: "cluster", "data-names": cluster }, make("h3", {}, cluster), pools.map(poolKnob));
  }

  function poolKnob(pool) {
    const whose = `${pool.cluster} / ${pool.pool}`;
    const field = make("input", { type: "number", min: "0", max: "10000", value: String(pool.count), "aria-label": `VMs of ${whose}` });
    const note = make("small", {}, pool.sku);
    const row = make("div", { class: "pool" });
    const set = (count) => {
      if (count === pool.count) counts.delete(pool.key); else counts.set(pool.key, count);
      row.classList.toggle("changed", count !== pool.count);
      note.textContent = count === pool.count ? pool.sku : `${pool.sku}, was ${pool.count}`;
      plan();
    };
    const step = (words, by) => make("button", { type: "button", "aria-label": `${words} VM of ${whose}`, onclick: () => {
      field.value = String(Math.max(0, (Number.parseInt(field.value, 10) || 0) + by));
      set(Number(field.value));
    } }, by > 0 ? "+" : "\u2212");
    field.addEventListener("input", () => {
      const count = Number.parseInt(field.value, 10);
      if (!Number.isNaN(count)) set(count);
    });
    row.append(make("span", { class: "name" }, pool.pool, note), step("One less", -1), field, step("One more", 1));
    return row;
  }

  function button(words, name, act) {
    const one = make("button", { type: "button", "aria-pressed": "false", "aria-label": name }, words);
    one.addEventListener("click", () => {
      one.setAttribute("aria-pressed", String(Boolean(act(one))));
      plan();
    });
    return one;
  }

  const toggle = (set, key) => (set.delete(key) ? false : Boolean(set.add(key)));

  function rackKnob(rack) {
    const chip = make("div", { class: "chip", "data-names": rack.name }, make("b", {}, rack.name), make("small", {}, `${rack.machines}`));
    const lose = () => { const is = toggle(lost, rack.key); chip.classList.toggle("lost", is); return is; };
    const more = (one) => {
      added.set(rack.key, ((added.get(rack.key) || 0) + 1) % 4);
      one.textContent = added.get(rack.key) ? `+${added.get(rack.key)}` : "+";
      return added.get(rack.key);
    };
    chip.append(rack.planned ? button("make active", `make active: ${rack.name}`, () => toggle(active, rack.key)) : button("lose", `lose ${rack.name}`, lose),
      button("+", `+ add a rack like ${rack.name}`, more));
    return chip;
  }

  /** Draws a field that filters many controls by name. */
  function narrow() {
    const field = make("input", { type: "search", class: "narrow", placeholder: "Filter clusters and racks", "aria-label": "Filter clusters and racks" });
    field.addEventListener("input", () => box.querySelectorAll("[data-names]").forEach((knob) => { knob.hidden = !knob.dataset.names.includes(field.value.trim()); }));
    return field;
  }

  const clusters = new Map();
  for (const pool of knobs.pools) clusters.set(pool.cluster, [...(clusters.get(pool.cluster) || []), pool]);
  const show = make("button", { type: "button" }, "Show changes to the files");
  const write = make("button", { type: "button", hidden: "" }, "Write to files");
  const reset = make("button", { type: "button" }, "Start over");
  show.addEventListener("click", look);
  write.addEventListener("click", save);
  reset.addEventListener("click", () => window.location.reload());
  box.append(
    ...(clusters.size + knobs.racks.length > MANY ? [narrow()] : []),
    ...(clusters.size ? [make("h2", {}, "VMs per pool"), make("div", { class: "knobs", tabindex: "0", role: "group", "aria-label": "VMs per pool" }, [...clusters].map(clusterKnobs))] : []),
    ...(knobs.racks.length ? [make("h2", {}, "Racks and their machines: lose one, add one like it"), make("div", { class: "knobs racks", tabindex: "0", role: "group", "aria-label": "Racks" }, knobs.racks.map(rackKnob))] : []),
    make("div", { class: "actions" }, show, write, reset, note),
    difference,
  );
  document.documentElement.dataset.exploring = "yes";
}());
