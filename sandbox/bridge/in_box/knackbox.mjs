// Calls the tools of the turn from a Node program in a box: import { tools } from 'knackbox'.
// `await tools.NAME({argument: value})` calls a tool. A call that fails throws a ToolError. Every call is decided upon and
// made outside of the box.
import net from "node:net";

const PIECE = 1 << 20; // characters of a large result fetched at once

export class ToolError extends Error {
  constructor(tool, failed) {
    super(failed.message || `${tool} failed.`);
    this.name = "ToolError";
    this.tool = tool;
    this.failureClass = failed.class ?? "";
    this.reason = failed.reason ?? "";
    this.mayHaveHappened = Boolean(failed.may_have_happened);
    this.output = failed.output;
    this.alternatives = failed.alternatives ?? [];
  }
}

// A result that is too large to be sent at once. It stays outside until the program ends, and is read in pieces.
export class LargeResult {
  constructor(large) {
    this.handle = large.handle;
    this.characters = large.characters;
    this.start = large.start;
  }
  read(offset = 0, characters = PIECE) {
    return ask({ do: "read", handle: this.handle, offset, characters });
  }
  async text() {
    const pieces = [];
    for (let offset = 0; offset < this.characters; offset += PIECE) pieces.push(await this.read(offset));
    return pieces.join("");
  }
  async lines() {
    const lines = (await this.text()).split("\n");
    if (lines.at(-1) === "") lines.pop();
    return lines;
  }
  async json() {
    return JSON.parse(await this.text());
  }
}

const waiting = new Map();
let socket = null;
let sent = 0;
let received = Buffer.alloc(0);

function open() {
  const where = process.env.KNACKBOX_BRIDGE;
  if (!where) throw new Error("This program cannot call tools: it was started without the bridge.");
  const [host, port] = where.split(":");
  const made = net.connect({ host, port: Number(port), noDelay: true });
  made.on("data", (data) => {
    received = received.length ? Buffer.concat([received, data]) : data;
    while (received.length >= 4 && received.length >= 4 + received.readUInt32BE(0)) {
      const end = 4 + received.readUInt32BE(0);
      settle(JSON.parse(received.subarray(4, end).toString()));
      received = received.subarray(end);
    }
  });
  const lost = () => {
    socket = null;
    for (const { reject } of waiting.values()) reject(new Error("The bridge to the tools is closed."));
    waiting.clear();
  };
  made.on("close", lost);
  made.on("error", lost);
  return made;
}

function settle(answer) {
  const { resolve, reject, request } = waiting.get(answer.id) ?? {};
  waiting.delete(answer.id);
  if (waiting.size === 0) socket.unref(); // so that an idle connection does not keep the program alive
  if (!resolve) return;
  if ("failed" in answer) reject(new ToolError(request.name ?? request.do, answer.failed));
  else resolve("large" in answer ? new LargeResult(answer.large) : answer.value);
}

function ask(request) {
  return new Promise((resolve, reject) => {
    socket ??= open();
    socket.ref();
    const id = ++sent;
    const payload = Buffer.from(JSON.stringify({ ...request, id }));
    const length = Buffer.alloc(4);
    length.writeUInt32BE(payload.length);
    waiting.set(id, { resolve, reject, request });
    socket.write(Buffer.concat([length, payload]));
  });
}

export const tools = new Proxy(
  {
    search: (query, limit = 10) => ask({ do: "search", query, limit }),
    describe: (name) => ask({ do: "describe", name }),
  },
  {
    get(own, name) {
      if (typeof name !== "string" || name === "then") return undefined;
      return own[name] ?? ((args = {}) => ask({ do: "call", name, arguments: args }));
    },
  },
);

// Placeholders of secrets. The values are put in their place outside of the box.
export const secrets = new Proxy({}, {
  get: (_, name) => (typeof name === "string" ? process.env[`KNACKBOX_SECRET_${name}`] : undefined),
});
