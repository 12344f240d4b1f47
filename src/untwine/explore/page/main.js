// The page: one or two models, where they start, and the link that restores all of it.

import { read, written } from "./link.js";
import { runs } from "./server.js";
import { Side } from "./side.js";
import { StartPanel } from "./start.js";

const byId = (id) => document.getElementById(id);

class Page {
  constructor(overview) {
    this.runs = overview;
    this.start = { example: 0 };
    this.tied = true;
    this.panel = new StartPanel((start) => this.begin(start), notify);
    this.sides = [];
    byId("compare").addEventListener("click", () => this.compare());
    byId("tie").addEventListener("click", () => this.tie(!this.tied));
    byId("reset").addEventListener("click", () => this.sides.forEach((side) => side.reset()));
    byId("link").addEventListener("click", () => this.copyLink());
    addEventListener("hashchange", () => this.restore(location.hash));
  }

  // Show what a link says; without one the first run, and the second beside it if there are two.
  restore(hash) {
    const state = read(hash);
    notify("");
    this.start = state.start ?? { example: 0 };
    const first = this.runs.slice(0, 2).map(({ name }) => ({ run: name, member: null, code: null }));
    const wanted = state.sides.length ? state.sides : first;
    this.show(wanted.length);
    this.tie(state.tied);
    wanted.forEach(({ run, member, code }, i) => this.chosen(this.sides[i], run, member, code));
  }

  // Show one model or two.
  show(count) {
    while (this.sides.length < count) this.sides.push(new Side(this, "ab"[this.sides.length]));
    this.sides.length = count;
    byId("stages").replaceChildren(...this.sides.map(({ stage }) => stage));
    byId("lists").replaceChildren(...this.sides.map(({ list }) => list));
    document.body.classList.toggle("two", count === 2);
    byId("compare").setAttribute("aria-pressed", count === 2);
    byId("tie").hidden = count === 1;
  }

  // A second model beside the first: another run if there is one, else another seed.
  compare() {
    if (this.sides.length === 2) {
      this.show(1);
      this.changed();
      return;
    }
    const [{ run, member }] = this.sides;
    const { members } = this.runs.find(({ name }) => name === run);
    const otherRun = this.runs.find(({ name }) => name !== run);
    const otherMember = members.find((name) => name !== member) ?? member;
    this.show(2);
    this.chosen(this.sides[1], otherRun?.name ?? run, otherRun ? null : otherMember);
  }

  tie(tied) {
    this.tied = tied;
    byId("tie").setAttribute("aria-pressed", tied);
    this.changed();
  }

  // --- what the parts of the page tell ---------------------------------------------------------------

  // A model was chosen on one side; its first member where none is named.
  async chosen(side, run, member, code = null) {
    let entry = this.runs.find(({ name }) => name === run);
    if (!entry) {
      notify(`There is no run “${run}” here. Start the server with it: untwine explore RUN`);
      [entry, member, code] = [this.runs[0], null, null];
    } else if (member !== null && !entry.members.includes(member)) {
      notify(`${run} has no finished model “${member}”; this is ${entry.members[0]}.`);
      [member, code] = [null, null];
    }
    const loaded = await side.choose(entry.name, member ?? entry.members[0], this.start, code);
    if (loaded && side === this.sides[0]) this.panel.offer(side.about);
  }

  // A start was chosen in the panel: all models start there.
  begin(start) {
    notify("");
    this.start = start;
    this.sides.forEach((side) => side.begin(start));
  }

  started(side, answer) {
    if (side === this.sides[0]) this.panel.show(this.start, answer.factors);
  }

  // A slider of one side was moved; if they are tied, the same row of the other moves by the same share of its range.
  moved(side, latent, value) {
    if (!side.code) return; // its model is being loaded
    const row = side.rows.get(latent);
    const share = (value - row.value) / row.span;
    const other = this.tied ? this.sides.find((each) => each !== side && each.code) : null;
    side.move(latent, value);
    const place = side.about.latents.findIndex((about) => about.latent === latent);
    const twin = other?.about?.latents[place];
    if (!twin) return;
    const theirs = other.rows.get(twin.latent);
    other.move(twin.latent, theirs.value + share * theirs.span);
    other.touch(twin.latent);
  }

  // The address follows the state, a moment later: browsers allow few changes of it in a second.
  changed() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => history.replaceState(null, "", `#${this.link()}`), 150);
  }

  link() {
    return written({ sides: this.sides, start: this.start, tied: this.tied });
  }

  async copyLink() {
    const address = `${location.origin}${location.pathname}#${this.link()}`;
    try {
      await navigator.clipboard.writeText(address);
      flash(byId("link"), "Copied");
    } catch {
      notify(`Copy this link: ${address}`);
    }
  }
}

function notify(message) {
  byId("notice").textContent = message;
  byId("notice").hidden = !message;
}

function flash(button, text) {
  const before = button.textContent;
  button.textContent = text;
  setTimeout(() => { button.textContent = before; }, 1200);
}

try {
  const { runs: overview } = await runs();
  new Page(overview).restore(location.hash);
} catch (problem) {
  notify(problem.message);
}
