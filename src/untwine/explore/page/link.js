// The state of the page in its address, after the #.

const SIDES = ["", "2"];

// { sides: [{ run, member, code }], start, tied } as text. Numbers keep all of their digits.
export function written({ sides, start, tied }) {
  const fields = new URLSearchParams();
  sides.forEach(({ run, member, code }, i) => {
    fields.set(`run${SIDES[i]}`, run);
    fields.set(`seed${SIDES[i]}`, member);
    if (code) fields.set(`code${SIDES[i]}`, code.join(","));
  });
  if ("example" in start) fields.set("example", start.example);
  else if ("factors" in start) fields.set("factors", start.factors.join(","));
  else fields.set("start", "zero" in start ? "zero" : "upload");
  if (sides.length === 2) fields.set("tied", tied ? "1" : "0");
  return fields.toString().replaceAll("%2C", ",");
}

// What `written` wrote; fields that are missing or make no sense are left out.
export function read(text) {
  const fields = new URLSearchParams(text.replace(/^#/, ""));
  const sides = SIDES.filter((side) => fields.has(`run${side}`)).map((side) => ({
    run: fields.get(`run${side}`),
    member: fields.get(`seed${side}`),
    code: numbers(fields.get(`code${side}`)),
  }));
  const factors = numbers(fields.get("factors"));
  const example = numbers(fields.get("example"));
  let start = null;
  if (fields.get("start") === "zero") start = { zero: true };
  else if (fields.get("start") === "upload") start = { lost: true };
  else if (factors) start = { factors: factors.map(Math.round) };
  else if (example) start = { example: Math.round(example[0]) };
  return { sides, start, tied: fields.get("tied") !== "0" };
}

function numbers(text) {
  if (!text) return null;
  const values = text.split(",").map(Number);
  return values.every(Number.isFinite) ? values : null;
}
