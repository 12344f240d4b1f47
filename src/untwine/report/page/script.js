"use strict";
// Sliders show another column of a sheet, choosers another model or another example. Without this script the page shows
// the middle of every traversal.
for (const area of document.querySelectorAll(".traversals")) {
  const sliders = [...area.querySelectorAll(".card input")];
  const put = (slider) => {
    const tile = slider.parentElement.querySelector(".tile");
    tile.style.backgroundPosition = `${(100 * slider.value) / slider.max}% var(--down)`;
  };
  for (const slider of sliders) {
    slider.addEventListener("input", () => put(slider));
    put(slider);
  }
  area.querySelector(".all")?.addEventListener("input", (event) => {
    for (const slider of sliders) {
      slider.value = event.target.value;
      put(slider);
    }
  });
  area.querySelector(".start")?.addEventListener("change", (event) => {
    for (const cards of area.querySelectorAll(".cards")) {
      cards.style.setProperty("--sheet", `var(--start-${event.target.value}, var(--start-0))`);
    }
  });
  for (const chooser of area.querySelectorAll(".model")) {
    chooser.addEventListener("change", () => {
      const models = chooser.closest(".case").querySelectorAll(".cards");
      models.forEach((cards, i) => (cards.hidden = i !== Number(chooser.value)));
    });
  }
}
for (const button of document.querySelectorAll(".copy")) {
  button.addEventListener("click", async () => {
    const lines = button.parentElement.querySelector("code");
    try {
      await navigator.clipboard.writeText(lines.textContent);
      button.textContent = "copied";
    } catch {
      getSelection().selectAllChildren(lines); // a browser that does not let pages copy
      button.textContent = "selected";
    }
    setTimeout(() => (button.textContent = "copy"), 1500);
  });
}
