// Selects all jobs of a page, and counts those that are selected. Without this script each is selected by its own box.
"use strict";
document.addEventListener("change", (event) => {
  const every = document.querySelector("input.every");
  const boxes = [...document.querySelectorAll("tbody input[name=id]")];
  if (event.target === every) for (const box of boxes) box.checked = every.checked;
  const selected = boxes.filter((it) => it.checked).length;
  if (every) {
    every.checked = selected > 0 && selected === boxes.length;
    every.indeterminate = selected > 0 && selected < boxes.length;
  }
  const count = document.querySelector(".selected");
  if (count) count.textContent = `${selected} selected:`;
});
