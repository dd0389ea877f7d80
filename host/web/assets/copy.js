// Copies a command of the page. Browsers give pages their clipboard over HTTPS only; what is marked they copy anywhere.
"use strict";
document.addEventListener("click", (event) => {
  const button = event.target.closest("button.copy");
  if (!button) return;
  getSelection().selectAllChildren(button.parentElement.querySelector("code"));
  const copied = document.execCommand("copy");
  // Otherwise it stays marked, to be copied by hand.
  if (copied) getSelection().removeAllRanges();
  button.closest("footer").querySelector("[role=status]").textContent = copied ? "Copied" : "Marked; copy it by hand";
  button.classList.toggle("done", copied);
});
