// SPDX-License-Identifier: Apache-2.0
// piston_session.mjs URL: an interactive run with piston-api's own WebSocket client.
import { createRequire } from "node:module";
const { PistonClient } = createRequire(import.meta.url)("piston-api");

const client = new PistonClient({ baseUrl: process.argv[2] });
let out = "";
client.on("sessionOutput", (id, data) => { out += data; });
client.on("sessionCompleted", () => {
    console.log(JSON.stringify({ out }));
    process.exit(0);
});
const id = await client.runInteractive("print(int(input()) + 2)", "python");
await client.sendInput(id, "3\n");
