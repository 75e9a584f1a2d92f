// SPDX-License-Identifier: Apache-2.0
// gojudge_ws.mjs URL: sends several requests over one WebSocket, and tells what came back.
import WebSocket from "ws";

const url = process.argv[2].replace("http", "ws");
const socket = new WebSocket(`${url}/ws`);
const said = {};
const cmd = (code) => [{ args: ["python3", "-c", code], env: ["PATH=/usr/bin:/bin"],
    cpuLimit: 5e9, clockLimit: 20e9, memoryLimit: 1 << 28, procLimit: 10,
    files: [{ content: "" }, { name: "stdout", max: 1000 }, { name: "stderr", max: 1000 }] }];
const send = (value) => socket.send(JSON.stringify(value));

socket.on("open", () => {
    send({ requestId: "slow", cmd: cmd("import time; time.sleep(15)") });
    send({ requestId: "slow", cmd: cmd("1") });
    send({ cmd: cmd("1") });
    send({ requestId: "quick", cmd: cmd("print('x' * 3)") });
    send({ requestId: "bad", cmd: [] });
});
socket.on("message", (data) => {
    const told = JSON.parse(data);
    const one = told.error ?? told.results[0].files?.stdout ?? told.results[0].status;
    (said[told.requestId] ??= []).push(one);
    if (told.requestId === "quick")
        send({ cancelRequestId: "slow" });
    if (told.results?.[0]?.status === "Signalled" || /cancelled/.test(told.error ?? "")) {
        said.last = told.results?.[0]?.status ?? told.error;
        socket.close(1000);
    }
});
socket.on("close", (code) => {
    said.closed = code;
    console.log(JSON.stringify(said));
    process.exit(0);
});
