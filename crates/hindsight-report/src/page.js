"use strict";
(() => {
  const root = document.documentElement;
  // Tables: a click on a heading sorts, another one the other way round. Oracles stay in their own part.
  const value = (row, column) => {
    const text = row.cells[column].textContent.replace("\u2212", "-");
    const number = parseFloat(text);
    return [Number.isNaN(number) ? -Infinity : number, text];
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const sort = () => {
        const down = head.getAttribute("aria-sort") !== "descending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        for (const body of table.tBodies) {
          const rows = [...body.rows].sort((a, b) => {
            const [x, s] = value(a, column), [y, t] = value(b, column);
            const order = x === y ? s.localeCompare(t) : x < y ? -1 : 1;
            return down ? -order : order;
          });
          body.append(...rows);
        }
      };
      head.tabIndex = 0;
      head.addEventListener("click", sort);
      head.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") {
          event.preventDefault();
          sort();
        }
      });
    });
  }
  // Charts: names switch lines on and off.
  for (const chip of document.querySelectorAll("button.chip")) {
    chip.disabled = false;
    chip.addEventListener("click", () => {
      const on = chip.getAttribute("aria-pressed") !== "true";
      chip.setAttribute("aria-pressed", on);
      const line = chip.closest("figure").querySelector(`[data-line="${chip.dataset.line}"]`);
      line.classList.toggle("off", !on);
      if (on) line.parentNode.append(line);
    });
  }
  // Values at the pointer at once, in place of the browser's slow ones.
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.hidden = true;
  document.body.append(tip);
  for (const title of document.querySelectorAll("svg title")) {
    title.parentNode.dataset.tip = title.textContent;
    title.remove();
  }
  document.addEventListener("pointermove", (event) => {
    const under = event.target.closest ? event.target.closest("[data-tip]") : null;
    tip.hidden = !under;
    if (!under) return;
    tip.textContent = under.dataset.tip;
    const left = Math.min(event.clientX + 14, root.clientWidth - tip.offsetWidth - 8);
    tip.style.left = `${Math.max(4, left)}px`;
    tip.style.top = `${event.clientY > 60 ? event.clientY - tip.offsetHeight - 10 : event.clientY + 18}px`;
  });
  // A page that is written anew while runs go on: it loads itself again and keeps its place.
  const key = `hindsight ${location.pathname}`;
  const folds = [...document.querySelectorAll("details")];
  const wait = 1000 * Number(root.dataset.watch || 0);
  if (wait > 0) {
    try {
      const kept = JSON.parse(sessionStorage.getItem(key) || "{}");
      for (const fold of folds) if ((kept.open || []).includes(fold.id)) fold.open = true;
      for (const [figure, line, on] of kept.lines || []) {
        const chip = document.querySelector(`#${CSS.escape(figure)} [data-line="${line}"].chip`);
        if (chip && (chip.getAttribute("aria-pressed") === "true") !== on) chip.click();
      }
      scrollTo(0, kept.y || 0);
    } catch { /* without storage the page begins at its top */ }
    const again = () => {
      if (document.hidden || String(getSelection())) return setTimeout(again, wait);
      const open = folds.filter((fold) => fold.open).map((fold) => fold.id);
      const lines = [...document.querySelectorAll("button.chip")].map((chip) => [
        chip.closest("figure").id, chip.dataset.line, chip.getAttribute("aria-pressed") === "true"]);
      try {
        sessionStorage.setItem(key, JSON.stringify({ y: scrollY, open, lines }));
      } catch { /* see above */ }
      location.reload();
    };
    setTimeout(again, wait);
  }
  addEventListener("beforeprint", () => folds.forEach((fold) => { fold.open = true; }));
})();
