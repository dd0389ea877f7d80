// Suggests pages, what was looked at lately, and what the host finds, below the search box. The key / goes there. Without this
// script the box asks for the page of matches.
"use strict";
(() => {
  const LATEST_MAX = 6;
  const FOUND_MAX = 8;
  const box = document.getElementById("find");
  if (!box) return;
  const list = document.createElement("ul");
  list.className = "palette";
  list.id = "palette";
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Suggestions");
  list.hidden = true;
  box.after(list);
  for (const [name, value] of [["role", "combobox"], ["aria-expanded", "false"], ["aria-controls", "palette"], ["aria-autocomplete", "list"]])
    box.setAttribute(name, value);

  const latest = () => JSON.parse(localStorage.getItem("latest") ?? "[]");
  const here = { name: document.title.replace(/ · host$/, ""), page: location.pathname, what: "recent" };
  // A page of one job, handler, batch and so on.
  if (/^\/[a-z]+\/./.test(here.page) && !document.querySelector("main > [role=alert]")) {
    const others = latest().filter((it) => it.page !== here.page);
    localStorage.setItem("latest", JSON.stringify([here, ...others].slice(0, LATEST_MAX)));
  }

  let asked = 0;
  async function find(text) {
    const answer = await fetch(`/find?q=${encodeURIComponent(text)}`);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (answer.redirected) {
      const url = new URL(answer.url);
      return [{ name: page.title.replace(/ · host$/, ""), page: url.pathname + url.search, what: "match" }];
    }
    return [...page.querySelectorAll(".found li")].slice(0, FOUND_MAX).map((it) => {
      const link = it.querySelector("a");
      return { name: link.textContent, page: link.getAttribute("href"), what: it.firstChild.textContent.trim().toLowerCase() };
    });
  }

  function show(items) {
    list.replaceChildren(
      ...items.map((item, n) => {
        const row = document.createElement("li");
        const [name, what] = [document.createElement("bdi"), document.createElement("small")];
        name.textContent = item.name;
        what.textContent = item.what;
        row.append(name, what);
        row.id = `palette-${n}`;
        row.dataset.page = item.page;
        row.setAttribute("role", "option");
        row.setAttribute("aria-selected", "false");
        return row;
      }),
    );
    list.hidden = items.length === 0;
    box.setAttribute("aria-expanded", String(!list.hidden));
    box.removeAttribute("aria-activedescendant");
  }

  async function suggest() {
    const text = box.value.trim().toLowerCase();
    const turn = ++asked;
    const has = (it) => it.name.toLowerCase().includes(text);
    const pages = [...document.querySelectorAll(".side li a")].map((it) => ({
      name: it.textContent, page: it.getAttribute("href"), what: "page",
    }));
    const known = [...latest(), ...pages].filter(has);
    show(known);
    if (text.length < 2 || /[:"\s]/.test(text)) return;
    await new Promise((done) => setTimeout(done, 150));
    if (turn !== asked) return;
    const found = await find(box.value.trim()).catch(() => []);
    const news = found.filter((it) => !known.some((other) => other.page === it.page));
    if (turn === asked && document.activeElement === box) show([...known, ...news]);
  }

  const close = () => {
    asked++;
    show([]);
  };
  function move(by) {
    const rows = [...list.children];
    const now = rows.findIndex((it) => it.ariaSelected === "true");
    const next = now < 0 ? (by > 0 ? 0 : rows.length - 1) : (now + by + rows.length) % rows.length;
    rows.forEach((it, n) => it.setAttribute("aria-selected", String(n === next)));
    rows[next]?.scrollIntoView({ block: "nearest" });
    if (rows[next]) box.setAttribute("aria-activedescendant", rows[next].id);
  }

  box.addEventListener("input", suggest);
  box.addEventListener("focus", suggest);
  box.addEventListener("blur", close);
  box.addEventListener("keydown", (event) => {
    const chosen = list.querySelector("[aria-selected=true]");
    if (event.key === "ArrowDown") move(1);
    else if (event.key === "ArrowUp") move(-1);
    else if (event.key === "Escape") close();
    else if (event.key === "Enter" && chosen) location.assign(chosen.dataset.page);
    else return;
    event.preventDefault();
  });
  // Before the box loses the focus.
  list.addEventListener("mousedown", (event) => {
    const row = event.target.closest("li");
    event.preventDefault();
    if (row) location.assign(row.dataset.page);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.target.matches("input, textarea, select") || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    box.focus();
  });
})();
