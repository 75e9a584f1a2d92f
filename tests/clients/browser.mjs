// SPDX-License-Identifier: Apache-2.0
// browser.mjs PROFILE '{"page", "other", "url", "token"}': what pages of two origins can do with
// the TypeScript client in a real Chromium, as JSON. It judges nothing; test_browser.py does.
import { browse } from "./chromium.mjs";

const [profile, text] = process.argv.slice(2);
const given = { ...JSON.parse(text), module: "/node_modules/vial-client/dist/index.js" };
const context = await browse(profile);
context.setDefaultTimeout(60000);

// What FUNCTION gives in a page of ORIGIN.
async function from(origin, what) {
  const page = await context.newPage();
  await page.goto(origin + "/");
  const told = await page.evaluate(what, given);
  await page.close();
  return told;
}

const listed = await from(given.page, async ({ url, token, module }) => {
  const { Client, contentOf } = await import(module);
  const client = new Client({ url, token });
  const all = async (events) => {
    const got = [];
    for await (const event of events) got.push(event);
    return got;
  };
  const why = (promise) => promise.then(() => "nothing", (e) => `${e.name} ${e.code} ${e.status}`);
  const said = (events) => events.filter((e) => e.event === "stdout")
    .map((e) => new TextDecoder().decode(contentOf(e))).join("");
  const saw = { origin: location.origin, run: await client.run({ language: "bash", code: "echo $((6 * 7))" }) };
  saw.stream = said(await all(client.stream({ language: "bash", code: "echo one; echo two" })));
  const code = { language: "bash", code: "read n; echo $((n * n))" };
  saw.batch = (await all(client.batch({ request: code, inputs: [{ stdin: "3\n" }, { stdin: "4\n" }] })))
    .sort((a, b) => a.index - b.index).map((item) => item.result.stdout);
  const session = await client.session();
  await session.write("a file", "from a page");
  saw.file = new TextDecoder().decode(await session.read("a file"));
  saw.program = said(await all((await session.start("cat 'a file'")).events()));
  saw.closed = await why(session.close());
  saw.refusal = await why(client.run({ language: "pyhton", code: "" }));
  saw.stranger = await why(new Client({ url, token: "vial_wrong" }).run({ language: "bash", code: ":" }));
  // What a page hears of one answer, besides its body.
  const answer = await fetch(`${url}/v1/version`, { headers: { Authorization: `Bearer ${token}` } });
  saw.request = answer.headers.get("x-request-id");
  saw.cookies = await fetch(`${url}/v1/version`, { credentials: "include", headers: { Authorization: `Bearer ${token}` } })
    .then((r) => `status ${r.status}`, (e) => e.name);
  return saw;
});

const unlisted = await from(given.other, async ({ url, token, module }) => {
  const { Client } = await import(module);
  const client = new Client({ url, token, retries: 0, patience: 1 });
  const code = "echo of another origin";
  const why = (promise) => promise.then((r) => `status ${r.status}`, (e) => `${e.name} ${e.code ?? ""}`.trim());
  return {
    origin: location.origin,
    client: await why(client.run({ language: "bash", code })),
    plain: await why(fetch(`${url}/healthz`)),
    // Sent without asking first, as a form would be.
    simple: await fetch(`${url}/v1/run`, { method: "POST", mode: "no-cors", body: JSON.stringify({ language: "bash", code }) })
      .then((r) => `${r.type} ${r.status}`, (e) => e.name),
  };
});

console.log(JSON.stringify({ listed, unlisted }));
await context.close();
