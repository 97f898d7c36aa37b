"use strict";
// Draws the page from data, once when it is opened and again whenever there is other data.
//
// `render(data)` draws every scripted part from a document as page_data.py makes it. `replace(main, data)` puts
// other sections in place first: `main` is the markup of `page_content` in html_page.py, never a user's text.

const PARTS = [["map", startMap], ["vm-list", startVmList], ["change-tree", startChanges]];

function render(data) {
  plan = data;
  forget();
  for (const [id, begin] of PARTS) {
    const place = document.getElementById(id);
    if (place) { place.replaceChildren(); begin(place); }
  }
}

function replace(main, data) {
  document.getElementById("content").innerHTML = main;
  render(data);
}

(function start() {
  document.body.append(detail.box, tip);
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
  render(JSON.parse(document.getElementById("plan-data").textContent));
  document.documentElement.dataset.ready = "yes";
}());
