var finder = finder || {
  found: null,
  keep(element) { this.found = element; return element; },
  name(element) {
    return (element.getAttribute("aria-label") || element.innerText || element.textContent).trim();
  },
  act(place, name) {
    const places = place
      ? [...document.querySelectorAll("tr, li, section, form, p")].filter((it) => it.innerText.includes(place))
      : [document];
    for (const part of places.reverse()) {
      const all = [...part.querySelectorAll("a, button, summary")];
      const one = all.find((it) => this.name(it) === name) || all.find((it) => this.name(it).startsWith(name));
      if (one) return this.keep(one);
    }
    return this.keep(null);
  },
  field(label) {
    const labels = [...document.querySelectorAll("label")];
    const text = (it) => [...it.childNodes].filter((n) => !n.matches?.("select")).map((n) => n.textContent).join("").trim();
    const labelled = labels.find((it) => text(it) === label) || labels.find((it) => text(it).startsWith(label));
    const named = [...document.querySelectorAll("input, select")].find((it) => it.ariaLabel === label);
    return this.keep(named || labelled?.control || null);
  },
  focus() { this.found.focus(); },
  is_focused() {
    return document.activeElement === this.found && this.found.matches(":focus-visible");
  },
  place() {
    this.found.scrollIntoView({ block: "center", behavior: "instant" });
    const box = this.found.getClientRects()[0];
    return { x: box.x + box.width / 2, y: box.y + box.height / 2 };
  },
};
