// A row of the list: the slider of one latent, its number, how the data use it, and its column of the Jacobian.

export const short = (value) => {
  const text = Math.abs(value) >= 100 ? value.toFixed(0) : value.toPrecision(3);
  return text.replace("-", "−");
};

const plain = (value) => value.toFixed(2).replace(/^-(0\.00)$/, "$1");

export class Latent {
  // `about` is what the server says of the latent, `most` the largest use of all.
  constructor(about, measure, most, name, { moved, touched }) {
    this.latent = about.latent;
    this.about = about;
    this.row = document.getElementById("latent").content.firstElementChild.cloneNode(true);
    [this.slider, this.number] = this.row.querySelectorAll("input");
    this.column = this.row.querySelector(".column");
    const label = this.row.querySelector("label");
    const state = about.active === null ? "" : about.active ? "active" : "passive";
    this.slider.id = label.htmlFor = `${name}-z${about.latent}`;
    label.querySelector("b").textContent = `z${about.latent}`;
    this.row.classList.toggle("active", about.active === true);
    if (about.active === null) label.querySelector(".mark").remove();
    this.#use(about.use, measure, most);
    const unit = measure === "KL" ? " nats" : "";
    const use = about.use === null ? "" : `${measure} ${about.use.toFixed(2)}${unit}`;
    const described = [`latent ${about.latent}`, state, use].filter(Boolean).join(", ");
    label.title = described;
    this.slider.setAttribute("aria-label", described);
    this.number.setAttribute("aria-label", `value of latent ${about.latent}`);
    this.slider.addEventListener("input", () => moved(this.latent, Number(this.slider.value)));
    this.slider.addEventListener("keydown", (event) => this.#key(event, moved));
    this.number.addEventListener("change", () => {
      const value = this.number.value === "" ? NaN : Number(this.number.value);
      if (Number.isFinite(value)) moved(this.latent, value);
      else this.show(this.value, this.start);
    });
    this.row.addEventListener("focusin", () => touched(this.latent));
    this.row.addEventListener("pointerdown", () => touched(this.latent));
  }

  get span() {
    return this.about.high - this.about.low;
  }

  // Show a value. A code may lie outside of the range that most of the data use: the slider then reaches to it.
  show(value, start) {
    this.value = value;
    this.start = start;
    const low = Math.min(this.about.low, value, start);
    const high = Math.max(this.about.high, value, start);
    Object.assign(this.slider, { min: low, max: high });
    this.slider.value = value;
    this.slider.setAttribute("aria-valuetext", plain(value));
    if (document.activeElement !== this.number || this.number.value === "") this.number.value = plain(value);
    const [from, to] = [start, value].map((end) => (end - low) / (high - low)).sort((a, b) => a - b);
    this.slider.style.setProperty("--from", from);
    this.slider.style.setProperty("--to", to);
  }

  showColumn(url, norm) {
    this.norm = norm;
    this.column.src = url;
    this.column.title = `what z${this.latent} changes here, norm ${short(norm)}`;
  }

  #use(use, measure, most) {
    const place = this.row.querySelector(".use");
    if (use === null) return place.replaceChildren();
    place.title = measure === "KL" ? "KL to the prior, in nats" : "variance of the codes";
    place.querySelector("i").style.setProperty("--share", most > 0 ? use / most : 0);
    place.querySelector("span").textContent = use.toFixed(2);
  }

  #key(event, moved) {
    const small = event.shiftKey ? 0.001 : 0.01;
    const arrows = { ArrowLeft: -small, ArrowDown: -small, ArrowRight: small, ArrowUp: small };
    const steps = { ...arrows, PageDown: -0.1, PageUp: 0.1 };
    let value;
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key in steps) value = this.value + steps[event.key] * this.span;
    else if (event.key === "Home") value = this.about.low;
    else if (event.key === "End") value = this.about.high;
    else if (event.key === "Delete" || event.key === "Backspace") value = this.start;
    else return;
    event.preventDefault();
    const bounds = [Number(this.slider.min), Number(this.slider.max)];
    moved(this.latent, Math.min(Math.max(value, bounds[0]), bounds[1]));
  }
}
