// Continues a change of many jobs, step by step, until it has ended or the user stops it. Without this script each step
// is a click.
"use strict";
(async () => {
  const form = () => document.querySelector("form[data-continues]");
  let stops = false;
  const stop = (event) => {
    const button = event.target.closest("form[data-continues] button");
    if (!button) return;
    // The step that is under way is counted.
    event.preventDefault();
    stops ||= button.name === "stop";
  };
  document.addEventListener("click", stop);
  try {
    while (form()) {
      const fields = new URLSearchParams(new FormData(form()));
      if (stops) fields.set("stop", "true");
      const answer = await fetch("/jobs/change", { method: "POST", body: fields });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const place = [...document.querySelectorAll("#main button")].indexOf(document.activeElement);
      document.getElementById("main").replaceWith(document.adoptNode(page.getElementById("main")));
      document.querySelectorAll("#main button")[place]?.focus();
    }
  } finally {
    // From here on, the buttons do what they do without a script.
    document.removeEventListener("click", stop);
  }
})();
