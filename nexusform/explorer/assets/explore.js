"use strict";
// The controls above the page's map: every change asks the engine for a plan and draws it.

(function explore() {
  const knobs = JSON.parse(document.getElementById("explore-data").textContent);
  const box = document.getElementById("explore");
  const counts = new Map();
  const lost = new Set();
  const active = new Set();
  const added = new Map();
  const note = make("p", { class: "note", role: "status" });
  const difference = make("pre", { class: "difference", hidden: "" });
  let digest = "";
  let asked = 0;

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
    const mine = ++asked;
    forgetDifference();
    try {
      const answer = await ask("/plan", { wish: wish() });
      if (mine !== asked) return; // a later change is already being planned
      replace(answer.main, answer.data);
      document.getElementById("headline").textContent = `Explore: ${answer.headline}`;
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
      const nothing = change.difference ? "" : "Nothing of this can be written to the files.";
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
      note.textContent = `Written: ${answer.files.join(", ")}. Start explore again to go on from there.`;
    } catch (problem) { note.textContent = problem.message; }
  }

  function poolField(pool) {
    const field = make("input", { type: "number", min: "0", max: "10000", value: String(pool.count) });
    field.addEventListener("input", () => {
      const count = Number.parseInt(field.value, 10);
      if (Number.isNaN(count)) return;
      if (count === pool.count) counts.delete(pool.key); else counts.set(pool.key, count);
      plan();
    });
    return make("label", {}, make("span", {}, `${pool.cluster}/${pool.pool}`), field, make("small", {}, pool.sku));
  }

  function button(words, pressed, act) {
    const one = make("button", { type: "button", "aria-pressed": String(pressed) }, words);
    one.addEventListener("click", () => {
      const on = act();
      one.setAttribute("aria-pressed", String(Boolean(on)));
      plan();
    });
    return one;
  }

  const toggle = (set, key) => (set.delete(key) ? false : Boolean(set.add(key)));

  function rackField(rack) {
    const more = button("+ another", false, () => {
      added.set(rack.key, ((added.get(rack.key) || 0) + 1) % 4);
      more.textContent = added.get(rack.key) ? `+ ${added.get(rack.key)} more` : "+ another";
      return added.get(rack.key);
    });
    const own = rack.planned
      ? button("make active", false, () => toggle(active, rack.key))
      : button("lose", false, () => toggle(lost, rack.key));
    return make("div", { class: "rack" }, make("span", {}, rack.name), make("small", {}, `${rack.machines} machines`), own, more);
  }

  const show = make("button", { type: "button" }, "Show the change to the files");
  const write = make("button", { type: "button", hidden: "" }, "Write it");
  const reset = make("button", { type: "button" }, "Start over");
  show.addEventListener("click", look);
  write.addEventListener("click", save);
  reset.addEventListener("click", () => window.location.reload());
  box.append(
    make("div", { class: "knobs" }, ...knobs.pools.map(poolField)),
    make("div", { class: "knobs racks" }, ...knobs.racks.map(rackField)),
    make("div", { class: "actions" }, show, write, reset),
    note, difference,
  );
  document.documentElement.dataset.exploring = "yes";
}());
