// Copies an id or a command of the page. Browsers give pages their clipboard over HTTPS only; in answer to a click, the
// command "copy" works everywhere.
"use strict";
document.addEventListener("click", (event) => {
  const button = event.target.closest("button.copy");
  if (!button) return;
  const text = button.value || button.parentElement.querySelector("code").textContent;
  const put = (copy) => {
    copy.clipboardData.setData("text/plain", text);
    copy.preventDefault();
  };
  document.addEventListener("copy", put, { once: true });
  const copied = document.execCommand("copy");
  document.removeEventListener("copy", put);
  const said = document.querySelector("footer [role=status]");
  if (said) said.textContent = copied ? "Copied" : "Not copied: mark the text and copy it by hand";
  button.classList.toggle("done", copied);
});
