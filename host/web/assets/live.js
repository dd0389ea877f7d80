// Follows what happens: shows the page as it is now, once something has changed and while the page is visible. A switch turns
// this off, and is remembered in this browser. Without this script the switch is a link to the same page, which the browser
// then loads again every few seconds.
"use strict";
(() => {
  const main = () => document.getElementById("main");
  const link = document.querySelector(".live");
  const isOn = () => localStorage.getItem("live") !== "off";
  let source = null;
  let late = false;

  function label() {
    if (!link) return;
    link.textContent = isOn() ? "Live: on" : "Live: off";
    link.classList.toggle("on", isOn());
    link.hidden = !main().dataset.live;
  }

  // Users keep what they type or have marked, and press what they see.
  let pressed = false;
  document.addEventListener("pointerdown", () => (pressed = true));
  for (const end of ["pointerup", "pointercancel"]) document.addEventListener(end, () => (pressed = false));
  const busy = () =>
    document.hidden ||
    pressed ||
    document.activeElement?.matches("#main :is(input, textarea, select)") ||
    document.querySelector("#main input:checked") ||
    !getSelection().isCollapsed;

  async function refresh() {
    late = busy();
    if (late) return;
    const answer = await fetch(location.href);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const now = page.getElementById("main");
    if (!now || busy()) return;
    const active = "a, button, summary, [tabindex]";
    const place = [...main().querySelectorAll(active)].indexOf(document.activeElement);
    const open = [...main().querySelectorAll("details")].map((it) => it.open);
    now.querySelectorAll("details").forEach((it, n) => (it.open = open[n] ?? it.open));
    document.title = page.title;
    main().replaceWith(document.adoptNode(now));
    if (place >= 0) main().querySelectorAll(active)[place]?.focus({ preventScroll: true });
    label();
    if (!main().dataset.live) stop();
  }

  function follow() {
    const events = main().dataset.live;
    if (source || document.hidden || !events || !isOn()) return;
    source = new EventSource(events);
    source.addEventListener("changed", refresh);
    source.addEventListener("error", () => {
      // As many pages are followed as may be: try again later.
      if (source?.readyState !== EventSource.CLOSED) return;
      stop();
      setTimeout(() => refresh().then(follow, follow), 10_000);
    });
  }

  function stop() {
    source?.close();
    source = null;
  }

  link?.addEventListener("click", (event) => {
    event.preventDefault();
    localStorage.setItem("live", isOn() ? "off" : "on");
    label();
    if (!isOn()) return stop();
    refresh().then(follow, follow);
  });
  document.addEventListener("visibilitychange", () => {
    if (document.hidden || !isOn()) return stop();
    refresh().then(follow, follow);
  });
  document.addEventListener("focusout", () => setTimeout(() => late && isOn() && refresh()));
  label();
  follow();
})();
