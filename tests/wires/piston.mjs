// SPDX-License-Identifier: Apache-2.0
// piston.mjs URL: runs a program with each of Piston's clients, and tells what came of it.
import { createRequire } from "node:module";
import piston from "piston-client";

const require = createRequire(import.meta.url);
const { NodePistonClient } = require("piston-api-client");
const { PistonClient } = require("piston-api");
const url = process.argv[2];
const said = {};

const first = await piston({ server: url }).execute("python", "import sys; print(len(sys.argv) + 1)");
said["piston-client"] = first.run.stdout;

const second = await new NodePistonClient({ server: url }).execute(
    { language: "python", version: "*", files: [{ content: "print(2 + 3)" }] });
said["piston-api-client"] = second.data.run.stdout;

const third = new PistonClient({ baseUrl: url });
said["piston-api"] = (await third.run({ language: "python", code: "print(2 + 3)" })).run.stdout;
said.runtimes = (await third.getRuntimes()).length > 0;
said.packages = (await third.getPackages()).every((p) => p.installed);
said.refusal = await third.execute({ language: "python", version: "*", run_timeout: -5,
    files: [{ content: "" }] }).catch((error) => error.message);
console.log(JSON.stringify(said));
process.exit(0);
