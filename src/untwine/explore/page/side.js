// One model on the page: its choosers, its pictures and the list of its latents.

import { Latent, short } from "./latent.js";
import { Latest, ask, upload } from "./server.js";

const made = (id) => document.getElementById(id).content.firstElementChild.cloneNode(true);
const named = (member) => member.replace(/^seed-/, "seed ");

const HINTS = {
  KL: "Most used first, by the KL of each to the prior, in nats.",
  variance: "Most used first, by the variance of its codes.",
  "": "The data are not here, so the ranges are those of the prior.",
};

export class Side {
  // `page` has the runs, and is told of what happens: chosen(side, run, member), started(side, answer),
  // moved(side, latent, value), changed().
  constructor(page, name) {
    this.page = page;
    this.name = name;
    this.stage = made("stage");
    this.list = made("list");
    this.rows = new Map();
    this.find = (selector) => this.stage.querySelector(selector);
    this.picture = this.find(".decoded img");
    this.#fill(this.find(".run"), page.runs.map((run) => [run.name, run.name]));
    this.find(".run").addEventListener("change", (event) => page.chosen(this, event.target.value, null));
    this.find(".member").addEventListener("change", (event) => page.chosen(this, this.run, event.target.value));
    const isCurrent = (question) => question.run === this.run && question.member === this.member;
    const fail = (message) => this.say(message);
    this.decoding = new Latest({
      isCurrent, fail, send: (question) => ask("decode", question),
      show: (answer, question, took) => this.#showPicture(answer.picture, took),
    });
    this.derivatives = new Latest({
      isCurrent, fail, send: (question) => ask("columns", question),
      show: (answer, question, took) => this.#showColumns(answer, took),
    });
    this.starting = new Latest({
      isCurrent,
      fail: (message) => (this.code ? this.say(message) : this.begin({ zero: true }, null, message)),
      send: ({ file, code, message, ...question }) => (file ? upload(this.model, file) : ask("start", question)),
      show: (answer, question) => this.#begin(answer, question),
    });
  }

  get model() {
    return { run: this.run, member: this.member };
  }

  // Load a model. `code` is where to go on, in place of where it starts.
  async choose(run, member, start, code = null) {
    const entry = this.page.runs.find((each) => each.name === run);
    Object.assign(this, { run, member, about: null, code: null, start: null });
    clearTimeout(this.pause);
    this.find(".run").value = run;
    this.#fill(this.find(".member"), entry.members.map((each) => [each, named(each)]));
    this.find(".member").value = member;
    const trained = `${entry.method} on ${entry.dataset}`;
    this.find(".about").textContent = `${trained}: loading …`;
    this.say("");
    this.stage.setAttribute("aria-busy", "true");
    const answered = ask("model", this.model).then((answer) => [answer, ""], (problem) => [null, problem.message]);
    const [about, message] = await answered;
    if (this.run !== run || this.member !== member) return false; // another was chosen meanwhile
    this.about = about;
    this.find(".about").textContent = trained;
    this.list.hidden = this.find(".pictures").hidden = !about;
    if (!about) {
      this.say(message);
      return false;
    }
    const size = about.shape.length === 3 ? `${about.shape[2]} × ${about.shape[1]}` : `${about.shape[0]} numbers`;
    this.find(".about").textContent += ` · ${size} · ${about.latents.length} latents`;
    this.#makeRows();
    if (about.examples === 0 && !("file" in start || "lost" in start)) start = { zero: true };
    this.begin(start, code);
    return true;
  }

  // Start from an example, from factors, from an uploaded picture, or from zero; `message` says why from zero.
  begin(start, code = null, message = "") {
    const question = { ...this.model, ...start, code, message };
    if ("lost" in start) this.#begin({ picture: null, code: code ?? this.about.latents.map(() => 0) }, question);
    else if (this.about) this.starting.ask(question);
  }

  move(latent, value) {
    this.code[latent] = value;
    this.rows.get(latent).show(value, this.start[latent]);
    this.#decode();
  }

  reset() {
    if (!this.start) return;
    this.code = [...this.start];
    this.#showCode();
  }

  say(message) {
    const place = this.find(".message");
    place.textContent = message;
    place.hidden = !message;
    this.stage.removeAttribute("aria-busy");
  }

  #begin(answer, { code, message }) {
    this.say(message || answer.doubt || "");
    this.start = answer.code;
    const fits = code && code.length === answer.code.length;
    if (code && !fits) this.say(`The link has ${code.length} latents, and this model has ${answer.code.length}.`);
    this.code = fits ? [...code] : [...answer.code];
    const original = this.find(".original");
    original.hidden = !answer.picture;
    if (answer.picture) original.querySelector("img").src = answer.picture;
    this.#showCode();
    this.page.started(this, answer);
  }

  #showCode() {
    for (const [latent, row] of this.rows) row.show(this.code[latent], this.start[latent]);
    this.#decode();
  }

  #decode() {
    this.decoding.ask({ ...this.model, code: this.code });
    this.page.changed();
  }

  #showPicture(url, took) {
    this.stage.removeAttribute("aria-busy");
    this.picture.src = url;
    this.find(".decoded figcaption").textContent = `decoded in ${took.toFixed(0)} ms`;
    // The server computes one thing at a time, and the picture comes first: slow columns wait for a pause.
    clearTimeout(this.pause);
    this.pause = setTimeout(() => this.derivatives.ask({ ...this.model, code: this.code }), this.isSlow ? 150 : 0);
  }

  #showColumns({ columns, norms }, took) {
    this.isSlow = took > 40;
    for (const [latent, row] of this.rows) row.showColumn(columns[latent], norms[latent]);
    this.touch(this.touched);
  }

  // Show the column of a latent beside the picture.
  touch(latent) {
    const row = this.rows.get(latent);
    if (!row || !this.about) return;
    this.touched = latent;
    for (const each of this.rows.values()) each.row.classList.toggle("touched", each === row);
    if (row.norm === undefined) return;
    const figure = this.find(".changes");
    figure.querySelector("img").src = row.column.src;
    figure.querySelector("img").alt = `What latent ${latent} changes at this point`;
    figure.querySelector("figcaption").textContent = `z${latent}, norm ${short(row.norm)}`;
    const isColour = this.about.shape.length === 3 && this.about.shape[0] === 3;
    const colours = isColour ? "grey where nothing changes" : "red grows, blue falls";
    figure.title = `Column of the Jacobian: what z${latent} changes at this point (${colours})`;
  }

  #makeRows() {
    const { latents, measure, missing } = this.about;
    const most = Math.max(...latents.map(({ use }) => use ?? 0));
    const reports = {
      moved: (latent, value) => this.page.moved(this, latent, value),
      touched: (latent) => this.touch(latent),
    };
    const rows = latents.map((about) => new Latent(about, measure, most, this.name, reports));
    this.rows = new Map(rows.map((row) => [row.latent, row]));
    const passive = rows.filter((row) => row.about.active === false);
    const front = rows.filter((row) => !passive.includes(row));
    const [first, hint, ordered, details] = this.list.children;
    const kind = latents[0].active === null ? "" : passive.length === rows.length ? "passive " : "active ";
    const model = document.createElement("span");
    model.textContent = `${this.run}, ${named(this.member)}`;
    first.replaceChildren(`${front.length || passive.length} ${kind}latents`, model);
    hint.textContent = HINTS[measure];
    hint.title = missing;
    ordered.replaceChildren(...front.map(({ row }) => row));
    details.hidden = passive.length === 0;
    details.open = front.length === 0 || rows.length <= 12;
    details.querySelector("summary").textContent = `${passive.length} passive: the codes of the data hardly use them`;
    details.querySelector("ol").replaceChildren(...passive.map(({ row }) => row));
    this.touched = latents[0].latent;
  }

  #fill(select, options) {
    select.replaceChildren(...options.map(([value, text]) => new Option(text, value)));
  }
}
