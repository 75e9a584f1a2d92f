// SPDX-License-Identifier: Apache-2.0
// A reward function: the share of a problem's tests that a model's program passes.
import { Client } from "vial-client";

/** null: vial could not tell. That is no fault of the program, so leave it out. */
export async function reward(
  client: Client, completion: string, tests: [given: string, wanted: string][], language = "python",
): Promise<number | null> {
  const blocks = [...completion.matchAll(/```\w*\n(.*?)```/gs)];
  const code = blocks.at(-1)?.[1] ?? completion;
  const words = (text: string) => text.trim().split(/\s+/).join(" ");
  let passed = 0;
  for await (const item of client.batch({
    request: { language, code, timeout: "5s", memory: "256m" },
    inputs: tests.map(([given]) => ({ stdin: given })),
  })) {
    if (!item.result || item.result.verdict === "failed") return null;
    const right = words(item.result.stdout) === words(tests[item.index]![1]);
    if (item.result.verdict === "ok" && right) passed++;
  }
  return passed / tests.length;
}
