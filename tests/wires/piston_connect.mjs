// SPDX-License-Identifier: Apache-2.0
// piston_connect.mjs URL: jobs over Piston's WebSocket, and what came of each.
import WebSocket from "ws";

const url = process.argv[2].replace("http", "ws");
const said = {};

// Sends the messages FIRST at once; REPLY answers what the program prints.
const talk = (name, first, reply = () => []) => new Promise((done) => {
    const socket = new WebSocket(`${url}/api/v2/connect`);
    const told = { stages: [], out: "", exit: null };
    const send = (value) => socket.send(JSON.stringify(value));
    socket.on("open", () => first.forEach(send));
    socket.on("message", (text) => {
        const m = JSON.parse(text);
        if (m.type === "stage") told.stages.push(m.stage);
        if (m.type === "exit") told.exit = [m.stage, m.code, m.signal];
        if (m.type === "error") told.error = m.message;
        if (m.type === "data") {
            told.out += m.data;
            reply(told.out).forEach(send);
        }
    });
    socket.on("close", (code, reason) => {
        said[name] = { ...told, closed: code, reason: String(reason) };
        done();
    });
});
const init = (language, content, more = {}) => ({ type: "init", language, version: "*",
    files: [{ content }], ...more });
const line = (data) => ({ type: "data", stream: "stdin", data });

let answered = false;
await talk("asked", [init("python", "name = input('who? ')\nprint('hi', name)")], (out) => {
    if (answered || !out.includes("who?")) return [];
    answered = true;
    return [line("me\n")];
});
await talk("compiled", [init("c++", "#include <cstdio>\nint main(){int n; scanf(\"%d\",&n); return n;}",
    { compile_timeout: 30000 }), line("5\n")]);
await talk("broken", [init("c++", "a=b")]);
await talk("ended", [init("python", "import sys; print(len(sys.stdin.read()))"), line("abc"),
    { type: "data", stream: "stdin", eof: true }]);
let sent = false;
await talk("signalled", [init("python", "import time; print('up', flush=True); time.sleep(60)",
    { run_timeout: 60000 })], (out) => {
    if (sent || !out.includes("up")) return [];
    sent = true;
    return [{ type: "signal", signal: "SIGTERM" }];
});
await talk("late", [init("python", "while True: pass", { run_timeout: 500 })]);
await talk("twice", [init("python", "input()"), init("python", "1")]);
await talk("early", [line("x")]);
await talk("stream", [init("python", "input()"), { type: "data", stream: "stdout", data: "x" }]);
await talk("signal", [init("python", "input()"), { type: "signal", signal: "SIGNOTHING" }]);
await talk("unknown", [init("cobol", "x")]);
await talk("silent", []);
console.log(JSON.stringify(said));
process.exit(0);
