"use strict";
// Starts every part that the page has, and the choice of theme.

(function start() {
  const parts = [["map", startMap], ["vm-list", startVmList], ["change-tree", startChanges]];
  document.body.append(detail.box, tip);
  for (const [id, begin] of parts) {
    const place = document.getElementById(id);
    if (place) { place.replaceChildren(); begin(place); }
  }
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") detail.close(); });

  const theme = document.getElementById("theme");
  const remember = (value) => {
    // A page opened from a file may have no storage; the choice then lasts as long as the page.
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
  document.documentElement.dataset.ready = "yes";
}());
