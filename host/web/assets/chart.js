// Shows the values of charts where the pointer is, or step by step with the arrow keys. Without this script they are in the
// table below the charts.
"use strict";
(() => {
  let shown = null;

  const rows = () => [...document.querySelectorAll(".values tbody tr")];

  function reset() {
    if (!shown) return;
    for (const [element, text] of shown.texts) element.textContent = text;
    shown.cursor.style.visibility = "";
    shown = null;
  }

  function show(plot, place) {
    const table = rows();
    const figure = plot.closest("figure");
    const step = Math.min(Math.max(place, 0), table.length - 1);
    if (shown?.figure !== figure) {
      reset();
      const fields = [figure.querySelector(".unit"), ...figure.querySelectorAll(".keys b")];
      shown = { figure, cursor: figure.querySelector(".cursor"), texts: fields.map((it) => [it, it.textContent]) };
    }
    shown.step = step;
    const [at, ...values] = [...table[step].cells].map((it) => it.textContent);
    const first = Number(figure.dataset.column);
    shown.texts.forEach(([element], n) => (element.textContent = n ? values[first + n - 1] : at));
    const x = (step * 600) / Math.max(table.length - 1, 1);
    shown.cursor.setAttribute("d", `M${x} 0V100`);
    shown.cursor.style.visibility = "visible";
  }

  document.addEventListener("pointermove", (event) => {
    const plot = event.target.closest?.(".plot");
    if (!plot) return document.activeElement?.matches(".plot") ? undefined : reset();
    const box = plot.querySelector("svg").getBoundingClientRect();
    show(plot, Math.round(((event.clientX - box.x) / box.width) * (rows().length - 1)));
  });
  document.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const plot = event.target.closest?.(".plot");
    if (!plot || !by) return;
    event.preventDefault();
    show(plot, (shown?.figure.contains(plot) ? shown.step : rows().length) + by);
    const keys = plot.closest("figure").querySelector(".keys").innerText;
    const said = document.querySelector("footer [role=status]");
    if (said) said.textContent = `${shown.texts[0][0].textContent}: ${keys}`;
  });
  document.addEventListener("focusout", (event) => event.target.matches?.(".plot") && reset());
})();
