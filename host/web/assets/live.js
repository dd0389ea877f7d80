// Follows what happens: shows the page as it is now, once something has changed and while the page is visible. Without this
// script the browser loads the page again every few seconds.
"use strict";
(() => {
  const main = () => document.getElementById("main");
  let source = null;
  let late = false;

  // Users keep what they type or have marked.
  const busy = () =>
    document.hidden ||
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
    if (!main().dataset.live) stop();
  }

  function follow() {
    const events = main().dataset.live;
    if (source || document.hidden || !events) return;
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

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return stop();
    refresh().then(follow, follow);
  });
  document.addEventListener("focusout", () => setTimeout(() => late && refresh()));
  follow();
})();
