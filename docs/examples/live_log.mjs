// A live session from Node: append through a pipe, read the file itself.
//
//     node live_log.mjs STORE SESSION
//
// STORE is the folder of the sessions. `runlore` must be on the path, or RUNLORE names it.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { join } from "node:path";

const [store, id] = process.argv.slice(2);

/** A session that is appended to: one line out, one line back. */
class Session {
  constructor(store, id) {
    const [program, ...words] = (process.env.RUNLORE ?? "runlore").split(" ");
    const args = [...words, "live", "--dir", store, "append", id, "--stdin"];
    this.process = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"] });
    this.answers = createInterface({ input: this.process.stdout })[Symbol.asyncIterator]();
  }

  /** Append a record, or an array of records. Resolves when they are in the log. */
  async append(records) {
    this.process.stdin.write(JSON.stringify(records) + "\n");
    const { value, done } = await this.answers.next();
    if (done) throw new Error("runlore has ended");
    const answer = JSON.parse(value);
    if (answer.error) throw new Error(`${answer.error.code}: ${answer.error.message}`);
    return answer;
  }

  async close() {
    this.process.stdin.end();
    await new Promise((resolve) => this.process.on("close", resolve));
  }
}

/** The records of a log. Lines that are damaged, and one that is being written, are left out. */
function* read(store, id) {
  const bytes = readFileSync(join(store, id, "log.jsonl"));
  for (let start = 0, end; (end = bytes.indexOf(10, start)) >= 0; start = end + 1) {
    const line = bytes.subarray(start, end);
    const mark = line.length - ',"c":"12345678"}'.length;
    const check = line.toString("latin1").slice(mark);
    const sum = /^,"c":"([0-9a-f]{8})"}$/.exec(check);
    if (sum && sum[1] !== crc32(line.subarray(0, mark)).toString(16).padStart(8, "0")) continue;
    const value = JSON.parse(line.toString("utf8"));
    yield* value.b ?? [value];
  }
}

function crc32(bytes) {
  let crc = ~0;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc >>> 0;
}

const session = new Session(store, id);
const message = (role, content, key) => ({ type: "message", payload: { role, content }, key });
const question = await session.append(message("user", "Name a colour. ü€😀", "question-1"));
await session.append([
  message("assistant", "Red.", "answer-1"),
  { type: "my.note", payload: { mood: "calm" } },
]);
const again = await session.append(message("user", "Name a colour. ü€😀", "question-1"));
if (again.seq !== question.seq) throw new Error("a key counts once");
await session.close();
for (const record of read(store, id)) console.log(record.n, record.t, JSON.stringify(record.p));
