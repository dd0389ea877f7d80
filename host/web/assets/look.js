// The look that a user has chosen: light, dark or the system's, and which groups of sections are closed. It is remembered
// in this browser. Without this script the look is the system's.
"use strict";
(() => {
  const root = document.documentElement;
  const looks = ["auto", "light", "dark"];
  const chosen = () => localStorage.getItem("look") ?? looks[0];
  root.dataset.theme = chosen();
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.querySelector(".theme");
    const label = () => button && (button.textContent = `Theme: ${chosen()}`);
    label();
    button?.addEventListener("click", () => {
      localStorage.setItem("look", looks[(looks.indexOf(chosen()) + 1) % looks.length]);
      root.dataset.theme = chosen();
      label();
    });
    for (const group of document.querySelectorAll(".side details")) {
      const key = `closed ${group.querySelector("summary").textContent}`;
      group.open = !localStorage.getItem(key) || !!group.querySelector("[aria-current]");
      group.addEventListener("toggle", () =>
        group.open ? localStorage.removeItem(key) : localStorage.setItem(key, "yes"),
      );
    }
  });
})();
