// SPDX-License-Identifier: Apache-2.0
// gojudge_stream.mjs URL: requests whose streams are live, one for each socket.
import WebSocket from "ws";

const url = process.argv[2].replace("http", "ws");
const cmd = (code, more) => ({ args: ["python3", "-c", code], env: ["PATH=/usr/bin:/bin"],
    cpuLimit: 20e9, clockLimit: 60e9, memoryLimit: 1 << 28, procLimit: 10,
    files: [{ streamIn: true }, { streamOut: true }, { streamOut: true }], ...more });
const request = (...cmds) => Buffer.concat([Buffer.of(1),
    Buffer.from(JSON.stringify({ requestId: "one", cmd: cmds }))]);
const input = (index, text) => Buffer.concat([Buffer.of(3, index << 4), Buffer.from(text)]);

// Sends FIRST; ON is called with each piece of output and all so far.
function talk(first, on = () => {}) {
    return new Promise((resolve) => {
        const socket = new WebSocket(`${url}/stream`);
        const said = { out: {} };
        const raw = [];
        socket.on("open", () => first.forEach((one) => socket.send(one)));
        socket.on("message", (data, isBinary) => {
            if (!isBinary)
                throw new Error("a text");
            if (data[0] === 1) {
                const told = JSON.parse(data.subarray(1));
                said.id = told.requestId;
                said.statuses = told.results.map((result) => result.status);
                if (told.error)
                    said.error = told.error;
                return;
            }
            const from = `${data[1] >> 4}/${data[1] & 15}`;
            raw.push(data.subarray(2));
            said.out[from] = (said.out[from] ?? "") + data.subarray(2).toString("latin1");
            on(said, socket);
        });
        socket.on("close", (closed, reason) => {
            said.closed = closed;
            if (reason.length)
                said.reason = reason.toString();
            said.hex = Buffer.concat(raw).subarray(0, 16).toString("hex");
            said.size = Buffer.concat(raw).length;
            resolve(said);
        });
    });
}

const add = "print(sum(map(int, __import__('sys').stdin)))";
const said = {};
said.asked = await talk([request(cmd(
    "import sys\nname = input('who? ')\nprint('hello', name)\nsys.stderr.write('done')"))],
    (so_far, socket) => {
        if (so_far.out["0/1"] === "who? " && !so_far.before) {
            so_far.before = so_far.out["0/1"];
            socket.send(input(0, "me\n"));
        }
    });
delete said.asked.hex;
delete said.asked.size;
said.two = await talk([request(cmd(add), cmd(add)), input(0, "1\n"), input(1, "3\n4\n"), input(1, ""),
    input(0, "2\n"), input(0, "")]);
said.large = await talk([request(cmd(
    "import sys, shutil\nshutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer)")),
    ...Array(48).fill(input(0, "y".repeat(65536))), input(0, "")]);
delete said.large.out;
said.bytes = await talk([request(cmd("import sys\nsys.stdout.buffer.write(b'\\xff\\0\\xfe\\n')"))]);
said.cancelled = await talk([request(cmd("print('on', flush=True)\nwhile True: pass"))],
    (_, socket) => socket.send(Buffer.of(4)));
said.tty = await talk([request(cmd("1", { tty: true }))]);
said.broken = await talk([Buffer.from("\x01{")]);
said.early = await talk([input(0, "x")]);
said.sized = await talk([request(cmd("input()")), Buffer.from("\x02{\"index\":0,\"fd\":0,\"rows\":9}")]);
said.other = await talk([request(cmd("input()")), Buffer.of(3, 7, 65)]);
console.log(JSON.stringify(said));
process.exit(0);
