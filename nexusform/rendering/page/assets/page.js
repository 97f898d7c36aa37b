"use strict";
// Draws the page from data: when it is opened, and when the data changes.
//
// `render(data)` draws every scripted part from a document of page_data.py. `replace(main, data)` first replaces
// the sections: `main` is the markup of `page_content` in html_page.py, never a user's text.

const MOST_ROWS_PRINTED = 150; // rows of detail parts; above it only findings
const PARTS = [["map", startMap], ["vm-list", startVmList], ["change-tree", startChanges]];

function render(data) {
  plan = unpacked(data);
  printers.length = 0;
  forget();
  for (const [id, begin] of PARTS) {
    const place = document.getElementById(id);
    if (place) { place.replaceChildren(); begin(place); }
  }
  nameSections();
  follow();
}

function replace(main, data) {
  document.getElementById("content").innerHTML = main;
  render(data);
}

/** Draws links to the sections of this plan. */
function nameSections() {
  const sections = [...document.querySelectorAll("main > section, .parts > section")];
  document.getElementById("sections").replaceChildren(...sections.map((section) => make("li", {}, make("a", { href: `#${section.id}` }, section.dataset.short || section.querySelector("h2").textContent))));
}

function startTheme() {
  const theme = document.getElementById("theme");
  const remember = (value) => {
    // A page opened from a file may have no storage; the choice then lasts until the page is closed.
    try { localStorage.setItem("nexusform-theme", value); } catch (error) { return error; }
    return null;
  };
  const wear = (value) => {
    if (value === "auto") document.documentElement.removeAttribute("data-theme");
    else document.documentElement.setAttribute("data-theme", value);
  };
  let known = "auto";
  try { known = localStorage.getItem("nexusform-theme") || "auto"; } catch (error) { known = "auto"; }
  theme.value = ["auto", "light", "dark"].includes(known) ? known : "auto";
  wear(theme.value);
  theme.addEventListener("change", () => { wear(theme.value); remember(theme.value); });
}

/** Prepares printing on A4 landscape: arrows are drawn for that width, and lists in full. */
function startPrinting() {
  const redraw = (wide) => {
    document.documentElement.classList.toggle("paper", Boolean(wide));
    if (!frame.stage) return;
    frame.stage.style.width = wide;
    drawStage(frame.stage);
  };
  let restore = [];
  const unfold = () => {
    const long = [...document.querySelectorAll(".folds")].filter((part) => part.querySelectorAll("tr").length > MOST_ROWS_PRINTED);
    const folded = [...document.querySelectorAll("main details:not(.screen, [open])")].filter((part) => !long.some((each) => each.contains(part)));
    folded.forEach((part) => { part.open = true; });
    restore.push(() => folded.forEach((part) => { part.open = false; }));
  };
  window.addEventListener("beforeprint", () => {
    redraw("1040px");
    unfold();
    restore.push(...printers.map((print) => print()));
  });
  window.addEventListener("afterprint", () => {
    redraw("");
    restore.forEach((again) => again());
    restore = [];
  });
}

(function start() {
  document.body.append(detail.box, tip);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") detail.close(); });
  document.addEventListener("mousemove", hover);
  window.addEventListener("hashchange", follow);
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (!frame.stage || !frame.stage.isConnected || width === window.innerWidth) return;
    width = window.innerWidth;
    drawMap();
  });
  startTheme();
  startSearch();
  startPrinting();
  render(JSON.parse(document.getElementById("plan-data").textContent));
  document.documentElement.dataset.ready = "yes";
}());
