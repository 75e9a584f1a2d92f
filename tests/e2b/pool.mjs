// SPDX-License-Identifier: Apache-2.0
// Many sandboxes at once, each with a task of its own.
import { Sandbox } from 'e2b'

const count = Number(process.argv[2])
const boxes = await Promise.all([...Array(count)].map(() => Sandbox.create()))
const answers = await Promise.all(boxes.map((sbx, i) =>
  sbx.commands.run(`echo ${i} > mine; cat mine`)))
await Promise.all(boxes.map((sbx) => sbx.kill()))
console.log(JSON.stringify({
  opened: boxes.length,
  different: new Set(boxes.map((sbx) => sbx.sandboxId)).size,
  sum: answers.reduce((sum, done) => sum + Number(done.stdout), 0),
  left: (await Sandbox.list().nextItems()).length,
}))
process.exit(0)
