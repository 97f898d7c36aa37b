"use strict";
// Arrows from the old to the new position of a VM. Above this limit only the selected VM has an arrow.

const MOST_ARROWS = 40;
const MOST_BOLD = 10;
const SVG = "http://www.w3.org/2000/svg";

function shape(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function drawArrows(stage, model) {
  stage.querySelectorAll("svg.arrows").forEach((old) => old.remove());
  if (!["change", "sides"].includes(map.view) || map.machine || map.layer !== "cluster") return;
  const moved = model.vms.filter((vm) => vm.mark === 2 && passes(vm));
  const shown = moved.length > MOST_ARROWS ? moved.filter((vm) => vm.number === map.chosen) : moved;
  const frame = stage.getBoundingClientRect();
  const layer = shape("svg", { class: shown.length > MOST_BOLD ? "arrows thin" : "arrows", "aria-hidden": "true", width: stage.scrollWidth, height: stage.scrollHeight });
  for (const vm of shown) {
    const [from, to] = ["before", "after"].map((side) => stage.querySelector(`button.vm[data-vm="${vm.number}"][data-side="${side}"]`));
    if (from && to && from.offsetWidth && to.offsetWidth) layer.append(...arrow(vm.number === map.chosen ? " bold" : "", ...ends(from.getBoundingClientRect(), to.getBoundingClientRect(), frame)));
  }
  stage.append(layer);
}

/** Returns a line between the facing edges of two boxes, so that it covers neither. */
function ends(from, to, frame) {
  const point = (box, other) => {
    const x = box.left - frame.left + box.width / 2;
    const y = box.top - frame.top + box.height / 2;
    if (other.top >= box.bottom) return [x, y + box.height / 2];
    if (other.bottom <= box.top) return [x, y - box.height / 2];
    return [x + Math.sign(other.left - box.left) * box.width / 2, y];
  };
  return [point(from, to), point(to, from)];
}

/** Draws a curve between two points, on a wider curve in the colour of the page. */
function arrow(kind, [x1, y1], [x2, y2]) {
  const far = Math.hypot(x2 - x1, y2 - y1) || 1;
  const bow = Math.min(far / 4, 40);
  const cx = (x1 + x2) / 2 - ((y2 - y1) / far) * bow;
  const cy = (y1 + y2) / 2 + ((x2 - x1) / far) * bow;
  const d = `M${x1.toFixed(1)} ${y1.toFixed(1)}Q${cx.toFixed(1)} ${cy.toFixed(1)} ${x2.toFixed(1)} ${y2.toFixed(1)}`;
  return [shape("path", { d, class: `halo${kind}` }), shape("path", { d, class: `arrow${kind}` }), head(x2, y2, Math.atan2(y2 - cy, x2 - cx))];
}

/** Draws the head of an arrow with its tip at (x, y). */
function head(x, y, angle) {
  const corner = (turn) => `${(x - 11 * Math.cos(angle + turn)).toFixed(1)} ${(y - 11 * Math.sin(angle + turn)).toFixed(1)}`;
  return shape("path", { d: `M${x.toFixed(1)} ${y.toFixed(1)}L${corner(0.42)} ${corner(-0.42)}z`, class: "head" });
}
