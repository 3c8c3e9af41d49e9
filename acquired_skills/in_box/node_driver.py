"""Contains the Node program that loads a skill in the box and makes calls to it, one after another.

The program reads calls as lines of JSON from one descriptor and writes answers to another. The skill runs in the same
process, so it could forge its answers. It gains nothing by that, because the box contains neither expected results nor
tests.
"""

DRIVER = r"""
import { readSync, writeSync } from "node:fs";
import { pathToFileURL } from "node:url";

const MOST_DEPTH = 60;
const [CALLS, ANSWERS] = process.argv.slice(2, 4).map(Number);
const [path, ...names] = process.argv.slice(4);
process.argv = process.argv.slice(0, 1).concat(path);
const { parse, stringify } = JSON;
const { isFinite } = Number;
const { isArray } = Array;
const { entries, getPrototypeOf, hasOwn } = Object;

function send(message) {
  let data = Buffer.from(stringify(message) + "\n");
  while (data.length) data = data.subarray(writeSync(ANSWERS, data));
}

let pending = Buffer.alloc(0);
function nextCall() {
  const chunk = Buffer.alloc(65536);
  for (;;) {
    const end = pending.indexOf(10);
    if (end >= 0) {
      const line = pending.subarray(0, end).toString();
      pending = pending.subarray(end + 1);
      return parse(line);
    }
    const size = readSync(CALLS, chunk);
    if (!size) return null;
    pending = Buffer.concat([pending, chunk.subarray(0, size)]);
  }
}

function plain(value, depth = 0) {
  if (depth > MOST_DEPTH) throw new TypeError("the result is nested too deeply, or contains itself");
  if (value === null || typeof value === "boolean") return value;
  if (typeof value === "string") {
    if (!value.isWellFormed()) throw new TypeError("the result has half of a surrogate pair");
    return value;
  }
  if (typeof value === "number") {
    if (!isFinite(value)) throw new TypeError(`the result has ${value}, which JSON cannot represent`);
    return value;
  }
  if (isArray(value)) return Array.from(value, (each) => plain(each, depth + 1));
  if (typeof value !== "object") throw new TypeError(`the result has a value of type ${typeof value}`);
  if (typeof value.toJSON === "function") return plain(value.toJSON(), depth + 1);
  if (value instanceof Map || value instanceof Set) {
    throw new TypeError("the result has a Map or a Set: return Object.fromEntries(map) or [...set]");
  }
  const found = {};
  for (const [name, each] of entries(value)) {
    if (each !== undefined) found[plain(name)] = plain(each, depth + 1);
  }
  return found;
}

function raised(problem) {
  const types = [];
  try {
    if (problem instanceof Error) {
      types.push(String(problem.name));
      for (let at = getPrototypeOf(problem); at && types.length < 8; at = getPrototypeOf(at)) {
        if (at.constructor !== Object) types.push(String(at.constructor.name));
      }
    }
    const text = problem instanceof Error ? String(problem.stack ?? problem) : String(problem);
    return { raised: types.length ? types : ["Thrown"], text: text.slice(0, 2000) };
  } catch {
    return { raised: ["Thrown"], text: "" };
  }
}

function exported(module) {
  const common = module.default;
  for (const owner of [module, common]) {
    const name = owner && names.find((each) => hasOwn(owner, each) && typeof owner[each] === "function");
    if (name) return (...values) => owner[name](...values);
  }
  const run = typeof common === "function" ? common : common?.default; // `default` is how compilers name it
  if (typeof run !== "function") throw new TypeError(`the module exports no function ${names[0]}`);
  return (...values) => run(...values);
}

let run;
try {
  run = exported(await import(pathToFileURL(path)));
  send({ loaded: true });
} catch (problem) {
  send(raised(problem));
  process.exit(1);
}
for (let call = nextCall(); call; call = nextCall()) {
  let answer;
  try {
    process.chdir(call.folder);
    const value = await run(...call.arguments.map((each) => (each.length ? each[0] : undefined)));
    answer = { value: value === undefined ? null : plain(value) };
  } catch (problem) {
    answer = raised(problem);
  }
  send(answer);
}
process.exit(0);
"""
