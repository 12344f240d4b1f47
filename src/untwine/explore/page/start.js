// The panel that says where models start: an example of the data, its factors, an uploaded picture, or zero.

import { LARGEST_UPLOAD } from "./server.js";

const byId = (id) => document.getElementById(id);

export class StartPanel {
  // `chosen(start)` is called with { example }, { factors }, { file } or { zero }; `say(message)` shows a problem.
  constructor(chosen, say) {
    this.say = say;
    this.chosen = chosen;
    const number = byId("example");
    const go = (example) => this.#example(example);
    number.addEventListener("change", () => go(Number(number.value)));
    byId("previous").addEventListener("click", () => go(Number(number.value) - 1));
    byId("next").addEventListener("click", () => go(Number(number.value) + 1));
    byId("random").addEventListener("click", () => go(Math.floor(Math.random() * this.examples)));
    byId("zero").addEventListener("click", () => chosen({ zero: true }));
    byId("file").addEventListener("change", ({ target }) => {
      this.#file(target.files[0]);
      target.value = ""; // so that the same file can be chosen again
    });
    this.#acceptDrops();
  }

  // Offer what the data of a model have.
  offer({ examples, factors, shape, missing }) {
    this.examples = examples;
    byId("missing").hidden = !missing;
    byId("missing").textContent = missing && `The data of this run cannot be had here: ${missing}`;
    byId("examples").hidden = !examples;
    byId("example").max = examples - 1;
    byId("count").textContent = `0 to ${(examples - 1).toLocaleString("en")}`;
    byId("upload").hidden = shape.length !== 3;
    const [channels, height, width] = shape;
    byId("preparation").textContent =
      `Its middle, resized to ${width} × ${height}, ${channels === 1 ? "grey" : "in colour"}, as the model takes it.`;
    byId("factors").hidden = !factors.length;
    this.sliders = factors.map((factor, i) => this.#factor(factor, i));
    byId("factors").querySelector("ol").replaceChildren(...this.sliders.map(({ row }) => row));
  }

  // Show where the first model started.
  show(start, factors) {
    if ("example" in start) byId("example").value = start.example;
    if (factors) this.sliders.forEach((slider, i) => slider.show(factors[i]));
  }

  #example(number) {
    const whole = Number.isFinite(number) ? Math.round(number) : 0;
    const example = Math.min(Math.max(whole, 0), this.examples - 1);
    byId("example").value = example;
    this.chosen({ example });
  }

  #file(file) {
    if (!file) return;
    const [size, most] = [file.size, LARGEST_UPLOAD].map((bytes) => (bytes / 2 ** 20).toFixed(0));
    if (file.size > LARGEST_UPLOAD) this.say(`${file.name} has ${size} MB; ${most} MB are the most.`);
    else this.chosen({ file });
  }

  #acceptDrops() {
    const over = (event) => {
      event.preventDefault();
      document.body.classList.toggle("dropping", event.type === "dragover");
    };
    document.addEventListener("dragover", over);
    document.addEventListener("dragleave", over);
    document.addEventListener("drop", (event) => {
      over(event);
      if (byId("upload").hidden) this.say("This model takes vectors, not pictures.");
      else this.#file(event.dataTransfer.files[0]);
    });
  }

  #factor({ name, size, values }, i) {
    const row = document.createElement("li");
    const label = Object.assign(document.createElement("label"), { textContent: name, htmlFor: `factor-${i}` });
    const range = { type: "range", id: `factor-${i}`, min: 0, max: size - 1, step: 1, value: 0 };
    const slider = Object.assign(document.createElement("input"), range);
    const output = Object.assign(document.createElement("output"), { htmlFor: slider.id });
    const show = (value) => {
      slider.value = value;
      output.textContent = values ? values[value] : value;
      slider.setAttribute("aria-valuetext", output.textContent);
      slider.style.setProperty("--from", -1); // coloured from its left end
      slider.style.setProperty("--to", size > 1 ? value / (size - 1) : 0);
    };
    slider.addEventListener("input", () => {
      show(Number(slider.value));
      this.chosen({ factors: this.sliders.map((each) => Number(each.slider.value)) });
    });
    slider.disabled = size === 1;
    row.append(label, slider, output);
    show(0);
    return { row, slider, show };
  }
}
