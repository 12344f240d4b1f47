// Questions to the server, one at a time.

export const LARGEST_UPLOAD = 20 * 2 ** 20;

// A reason in plain words, for the page to show.
export class Problem extends Error {}

async function answered(address, options) {
  let answer;
  try {
    answer = await (await fetch(address, options)).json();
  } catch {
    throw new Problem("The server does not answer. Was it stopped? Start it again with: untwine explore RUN");
  }
  if (answer.error) throw new Problem(answer.error);
  return answer;
}

export const runs = () => answered("api/runs");

export const ask = (name, question) =>
  answered(`api/${name}`, { method: "POST", body: JSON.stringify(question) });

export const upload = (model, file) =>
  answered(`api/upload?${new URLSearchParams(model)}`, { method: "POST", body: file });

// Asks one question at a time. While one is on its way only the newest of the others is kept, and an answer that came
// too late, because its model was changed meanwhile, is dropped.
export class Latest {
  #waiting = null;
  #busy = false;

  constructor({ send, show, fail, isCurrent }) {
    Object.assign(this, { send, show, fail, isCurrent });
  }

  async ask(question) {
    this.#waiting = question;
    if (this.#busy) return;
    this.#busy = true;
    while (this.#waiting !== null) {
      const asked = this.#waiting;
      this.#waiting = null;
      const begun = performance.now();
      try {
        const answer = await this.send(asked);
        if (this.isCurrent(asked)) this.show(answer, asked, performance.now() - begun);
      } catch (problem) {
        if (!(problem instanceof Problem)) throw problem;
        if (this.isCurrent(asked)) this.fail(problem.message);
      }
    }
    this.#busy = false;
  }

  get idle() {
    return !this.#busy;
  }
}
