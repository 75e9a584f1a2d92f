// SPDX-License-Identifier: Apache-2.0
// An agent with a notebook: a model writes cells, an interpreter runs them and remembers.
import { Client, type Cell } from "vial-client";

export type Talk = { who: "user" | "model" | "notebook"; what: string }[];

/** What a model is told of a cell. */
export function seen(cell: Cell): string {
  const value = cell.value ? String(cell.value["text/plain"] ?? "") : "";
  const error = cell.error ? `\n${cell.error["name"]}: ${cell.error["value"]}` : "";
  return cell.stdout + cell.stderr + value + error;
}

export async function converse(
  client: Client, model: (talk: Talk) => Promise<string | null>, task: string, turns = 20,
): Promise<Talk> {
  const talk: Talk = [{ who: "user", what: task }];
  const session = await client.session({ timeout: "10m", lease: "30m" });
  try {
    const notebook = await session.context("python");
    for (let turn = 0; turn < turns; turn++) {
      const code = await model(talk);
      if (code === null) break;
      talk.push({ who: "model", what: code });
      talk.push({ who: "notebook", what: seen(await notebook.run(code, { timeout: "30s" })) });
    }
  } finally {
    await session.close();
  }
  return talk;
}
