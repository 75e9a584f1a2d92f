// SPDX-License-Identifier: Apache-2.0
// What the TypeScript client does against a real daemon. Each scenario is one test, called
// by test_typescript.py: node scenarios.mjs NAME '{"url", "socket", "token", "weak"}'.
import assert from "node:assert/strict";
import {
  Busy, Client, Lost, NotFound, Refused, RunFailed, Unauthorized, VialError, check, contentOf,
} from "vial-client";
import { unixFetch } from "vial-client/node";

const given = JSON.parse(process.argv[3]);
const client = new Client({ url: given.url, token: given.token });
const all = async (from) => {
  const got = [];
  for await (const one of from) got.push(one);
  return got;
};
const until = async (condition) => {
  for (let i = 0; i < 1800; i++) {
    if (await condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  assert.fail("it did not come to pass");
};
const mine = async (key) => (await client.runs({ limit: 2000 })).filter((run) => run.request === key);

const scenarios = {
  async a_program_that_fails_is_a_result() {
    const good = await client.run({ language: "python", code: "print(6 * 7)" });
    assert.deepEqual([good.verdict, good.stdout], ["ok", "42\n"]);
    assert.equal(check(good), good);
    const bad = await client.run({ language: "bash", code: "exit 3" });
    assert.deepEqual([bad.verdict, bad.exit_code], ["nonzero", 3]);
    assert.throws(() => check(bad), (e) => e instanceof RunFailed && e.code === "nonzero" &&
      e.message === "nonzero: the program ended with verdict 'nonzero', exit code 3");
    const raw = await client.run({ language: "bash", code: "printf '\\xff'" }, { raw: true });
    assert.equal(raw.stdout_base64, "/w==");
  },

  async what_is_refused_says_why_and_what_to_do() {
    await assert.rejects(client.run({ language: "pyhton", code: "" }), (e) =>
      e instanceof Refused && e.code === "VIAL-LANGUAGE" && e.remedy.includes("python"));
    await assert.rejects(client.sessionOf("s-none").info(), (e) =>
      e instanceof NotFound && e.code === "VIAL-SESSION");
    await assert.rejects(new Client({ url: given.url, token: "vial_wrong" }).version(), (e) =>
      e instanceof Unauthorized && e.code === "VIAL-AUTH" && e.status === 401);
    await assert.rejects(all(client.stream({ language: "pyhton", code: "" })), (e) =>
      e instanceof VialError && e.code === "VIAL-LANGUAGE");
  },

  async a_daemon_that_is_not_there_is_named() {
    const nobody = new Client({ url: `http://127.0.0.1:${given.closed}`, retries: 1 });
    await assert.rejects(nobody.version(), (e) => e instanceof Lost && e.code === "VIAL-DAEMON" &&
      e.remedy === "start it: vial serve" && e.message.includes("cannot be reached"));
  },

  async a_unix_socket_is_asked_in_node() {
    const local = new Client({ url: "http://vial", fetch: unixFetch(given.socket) });
    assert.equal((await local.run({ language: "bash", code: "echo here" })).stdout, "here\n");
    const events = await all(local.stream({ language: "bash", code: "echo a; echo b >&2" }));
    assert.equal(events.at(-1).result.verdict, "ok");
    const session = await local.session();
    await session.write("f", new Uint8Array([0, 255]));
    assert.deepEqual([...(await session.read("f"))], [0, 255]);
    await session.close();
    await assert.rejects(new Client({ url: "http://vial", fetch: unixFetch("/none"), retries: 0 }).health(),
      (e) => e instanceof Lost && e.remedy === "start it: vial serve");
  },

  async a_stream_tells_what_is_printed_when_it_is() {
    const session = await client.session();
    await session.exec("mkfifo go");
    const program = await session.start("echo one; cat go; echo two >&2");
    const seen = [];
    for await (const event of program.events()) {
      if (event.event === "stdout" || event.event === "stderr") seen.push(event.event + event.data);
      if (event.event === "stdout" && event.data === "one\n") await session.exec("echo > go");
      if (event.event === "exit") seen.push(event.verdict);
    }
    assert.deepEqual(seen, ["stdoutone\n", "stdout\n", "stderrtwo\n", "ok"]);
    await session.close();
  },

  async who_stops_reading_a_run_ends_it() {
    let request;
    for await (const event of client.stream({ language: "bash", code: "echo begun; sleep 60" })) {
      if (event.event === "start") request = event.request;
      if (event.event === "stdout") break;
    }
    await until(async () => (await client.runDetails(request)).state === "ended");
  },

  async who_aborts_a_run_ends_it() {
    const stop = new AbortController();
    const key = "abort-" + process.pid;
    const run = client.run({ language: "bash", code: "sleep 60" }, { key, signal: stop.signal });
    await until(async () => (await mine(key)).length > 0);
    stop.abort();
    await assert.rejects(run, (e) => e.name === "AbortError");
    await until(async () => (await client.runDetails(key)).verdict === "cancelled");
  },

  async a_batch_gives_each_run_once() {
    const items = await all(client.batch({
      requests: [0, 1, 2].map((i) => ({ language: "bash", code: `exit ${i}` })), parallel: 2,
    }));
    assert.deepEqual(items.map((i) => [i.index, i.result.exit_code]).sort(), [[0, 0], [1, 1], [2, 2]]);
    const code = "int getchar(void); int main(void) { return getchar() - 48; }";
    const compiled = await all(client.batch({
      request: { language: "c", code }, inputs: [{ stdin: "4" }, { stdin: "5" }],
    }));
    assert.deepEqual(compiled.map((i) => [i.index, i.result.exit_code]).sort(), [[0, 4], [1, 5]]);
  },

  async a_connection_that_breaks_runs_nothing_twice() {
    const weak = new Client({ url: given.weak, token: given.token });
    const key = "ts-once-" + process.pid;
    const result = await weak.run({ language: "bash", code: "echo ran" }, { key });
    assert.equal(result.stdout, "ran\n");
    assert.equal((await mine(key)).length, 1);
  },

  async a_batch_that_breaks_goes_on_with_what_did_not_come() {
    const requests = Array.from({ length: 12 }, (_, i) => ({ language: "bash", code: `echo ${i}` }));
    const items = await all(new Client({ url: given.weak, token: given.token }).batch({ requests }));
    const got = items.map((i) => [i.index, i.result.stdout]).sort(([a], [b]) => a - b);
    assert.deepEqual(got, requests.map((_, i) => [i, `${i}\n`]));
  },

  async output_is_read_on_from_its_offsets() {
    const session = await client.session();
    const program = await session.start("seq 1 30000; printf '\\377\\376'; seq 1 20000 >&2");
    await program.wait();
    const got = { stdout: [], stderr: [] };
    const weak = new Client({ url: given.weak, token: given.token }).sessionOf(session.id).program(program.number);
    for await (const event of weak.events())
      if (event.event in got) {
        assert.equal(event.offset ?? got[event.event].length, got[event.event].length);
        for (const byte of contentOf(event)) got[event.event].push(byte);
      }
    const numbers = (n) => Array.from({ length: n }, (_, i) => `${i + 1}\n`).join("");
    assert.deepEqual(Buffer.from(got.stdout),
      Buffer.concat([Buffer.from(numbers(30000)), Buffer.from([255, 254])]));
    assert.deepEqual(Buffer.from(got.stderr), Buffer.from(numbers(20000)));
    await session.close();
  },

  async a_daemon_that_is_busy_is_told_of() {
    const few = new Client({ url: given.few, patience: 0 });
    const stream = few.stream({ language: "bash", code: "echo begun; sleep 60" });
    while ((await stream.next()).value.event !== "stdout");
    await assert.rejects(few.run({ language: "bash", code: "true" }), (e) => e instanceof Busy);
    const patient = new Client({ url: given.few }).run({ language: "bash", code: "echo in" });
    await stream.return();
    assert.equal((await patient).stdout, "in\n");
  },

  async programs_and_files_of_a_session() {
    const session = await client.session({ timeout: "1m", lease: "5m" });
    assert.equal((await session.exec(["cat"], { stdin: "given" })).stdout, "given");
    const program = await session.start("cat; exit 4", { stdin_live: true });
    assert.equal(await program.write("some ", false), 5);
    await program.write("more", true);
    const done = await program.wait();
    assert.deepEqual([done.exit_code, done.stdout], [4, "some more"]);
    assert.equal((await program.poll()).running, false);
    assert.equal(Buffer.from(await program.output("stdout", 5)).toString(), "more");
    const killed = await session.start("sleep 60", { rows: 20, columns: 70 });
    await killed.resize(30, 90);
    await killed.signal("KILL", true);
    assert.equal((await killed.wait()).verdict, "signal");
    assert.equal((await session.programs()).length, 3);
    assert.equal(session.program(1).number, 1);
    await session.write("a/b c?.txt", "data", "0640");
    assert.equal((await session.stat("a/b c?.txt")).mode, "0640");
    await session.move("a/b c?.txt", "moved");
    await session.mkdir("x/y");
    assert.deepEqual((await session.list()).map((e) => e.path).sort(), ["a", "moved", "x"]);
    await session.unpack(await session.pack("x"), "z");
    await session.remove("x", true);
    await assert.rejects(session.read("x/none"), (e) => e.code === "VIAL-NO-FILE");
    assert.equal((await session.renew("2m")).id, session.id);
    assert.ok((await client.sessions()).some((row) => row.id === session.id));
    await session.close();
    await session.close();
  },

  async a_session_without_an_image_has_no_snapshot() {
    const session = await client.session();
    const image = "snapshot/00000000/mine:" + "0".repeat(32);
    for (const attempt of [() => session.snapshot("mine"), () => session.fork()])
      await assert.rejects(attempt, (error) => error.code === "VIAL-UNSUPPORTED");
    await session.close();
    await assert.rejects(() => client.removeSnapshot(image), (error) => error.code === "VIAL-IMAGE");
  },

  async a_volume_is_made_used_and_removed() {
    const made = await client.createVolume("by-node", { writers: "many" });
    assert.deepEqual([made.name, made.writers, made.state], ["by-node", "many", "free"]);
    const ran = await client.run({ language: "sh", code: "echo left > /d/x", driver: "native",
                                   volumes: ["by-node:/d:rw"] });
    assert.equal(ran.verdict, "ok");
    assert.equal((await client.volume("by-node")).created, made.created);
    assert.ok((await client.volumes()).some((row) => row.name === "by-node"));
    await client.removeVolume("by-node");
    await assert.rejects(client.volume("by-node"), (e) => e.code === "VIAL-VOLUME");
  },

  async a_session_is_paused_and_goes_on() {
    const session = await client.session();
    assert.equal((await session.pause()).paused, true);
    await assert.rejects(session.exec("true"), (e) => e.code === "VIAL-PAUSED");
    assert.equal((await session.resume()).paused, false);
    await session.pause({ resume: "auto" });
    assert.equal((await session.exec("echo awake")).stdout, "awake\n");
    await session.close();
  },

  async a_watcher_tells_what_happens_to_files() {
    const session = await client.session();
    for await (const event of session.watch(undefined, { deep: true })) {
      if (event.event === "start") await session.write("seen.txt", "x");
      else if (event.path.includes("seen.txt")) break; // or it waits for ever
    }
    await session.close();
  },

  async an_interpreter_remembers() {
    const session = await client.session();
    const cells = await session.context("python");
    await cells.run("x = 6");
    assert.equal((await cells.run("x * 7")).value["text/plain"], "42");
    assert.equal((await cells.run("while True: pass", { timeout: "500ms" })).status, "timeout");
    await cells.restart();
    const cell = cells.run("open('here', 'w')\nimport time\ntime.sleep(60)");
    await until(async () => (await session.list()).some((file) => file.path === "here"));
    await cells.interrupt();
    assert.equal((await cell).status, "interrupted");
    await session.close();
  },

  async what_the_daemon_tells_of_itself() {
    assert.equal((await client.health()).status, "ok");
    assert.equal((await client.ready()).status, "ready");
    assert.ok((await client.languages()).some((one) => one.name === "python"));
    assert.ok((await client.doctor()).drivers.length > 0);
    assert.ok((await client.config()).defaults.memory);
    assert.ok(Array.isArray(await client.vessels()));
    assert.ok((await client.schema("request")).properties);
    assert.ok((await client.openapi()).paths);
    assert.ok((await client.pool()).shapes && (await client.recent()).all);
    assert.ok((await client.metrics()).includes("vial_"));
    assert.ok((await client.plan({ language: "python", code: "1" })).limits);
    for (const ask of [() => client.images(), () => client.prune(), () => all(client.pull("none.invalid/x:1"))])
      await ask().catch((e) => assert.match(e.code, /^VIAL-/));
  },

  async examples_do_what_they_say() {
    const { reward } = await import("./examples/reward.js");
    const { converse } = await import("./examples/notebook.js");
    const tests = [["3", "6"], ["5", "10"]];
    assert.equal(await reward(client, "so:\n```python\nprint(int(input()) * 2)\n```", tests), 1);
    assert.equal(await reward(client, "print(6)", tests), 0.5);
    const cells = ["x = 6", "x * y", "y = 7\nx * y"];
    const talk = await converse(client, async () => cells.shift() ?? null, "multiply");
    assert.equal(talk.at(-1).what, "42");
    assert.match(talk[4].what, /NameError/);
  },
};

await scenarios[process.argv[2]]();
