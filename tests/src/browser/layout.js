// Returns what is wrong with how a page is laid out: what is too wide, wrapped, cut or overlaps something else.
(() => {
  const flaws = [];
  const name = (text) => JSON.stringify(text.trim().slice(0, 40));
  const wide = document.documentElement.scrollWidth - innerWidth;
  if (wide > 0) flaws.push(`the page is ${wide} pixels too wide`);
  // What a box that scrolls shows of a rectangle.
  const visible = (element, box) => {
    let { left, right, top, bottom } = box;
    for (let it = element; it && it !== document.body; it = it.parentElement) {
      if (getComputedStyle(it).overflowX === "visible") continue;
      const clip = it.getBoundingClientRect();
      left = Math.max(left, clip.left);
      right = Math.min(right, clip.right);
      top = Math.max(top, clip.top);
      bottom = Math.min(bottom, clip.bottom);
    }
    return { left, right, top, bottom };
  };
  const texts = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    const parent = node.parentElement;
    if (!node.data.trim() || parent.closest("svg, option, noscript, script, .hidden, .skip") || !parent.checkVisibility()) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const boxes = [...range.getClientRects()].filter((it) => it.width > 1 && it.height > 1);
    const lines = new Set(boxes.map((it) => Math.round(it.top / 8)));
    if (lines.size > 1 && parent.closest("button, .button, .state, time, .id, th, .number, .log td:not(:last-child), .tabs, .side li, .live"))
      flaws.push(`${name(node.data)} is wrapped`);
    for (const box of boxes) {
      const part = visible(parent, box);
      if (part.right - part.left > 1 && part.bottom - part.top > 1) texts.push({ node, part });
    }
    // What is cut says all of itself elsewhere.
    for (let it = parent; it && it !== document.body; it = it.parentElement) {
      const overflow = getComputedStyle(it).overflowX;
      if (overflow === "visible") continue;
      const edge = it.getBoundingClientRect().right + 1;
      const isCut = overflow === "hidden" && boxes.some((box) => box.right > edge);
      if (isCut && !parent.closest("[title], .clip")) flaws.push(`${name(node.data)} is cut`);
      break;
    }
  }
  for (const [n, one] of texts.entries())
    for (const other of texts.slice(n + 1)) {
      if (one.node === other.node) continue;
      const x = Math.min(one.part.right, other.part.right) - Math.max(one.part.left, other.part.left);
      const y = Math.min(one.part.bottom, other.part.bottom) - Math.max(one.part.top, other.part.top);
      if (x > 2 && y > 4) flaws.push(`${name(one.node.data)} overlaps ${name(other.node.data)}`);
    }
  return [...new Set(flaws)].slice(0, 10);
})()
