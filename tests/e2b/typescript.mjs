// SPDX-License-Identifier: Apache-2.0
// Cells of TypeScript, where the package that reads it lies in the sandbox's home.
import fs from 'node:fs'
import { Sandbox } from '@e2b/code-interpreter'

const sbx = await Sandbox.create()
const said = {}
const ts = (code, more) => sbx.runCode(code, { language: 'ts', ...more })
for (const file of ['package.json', 'lib/typescript.js'])
  await sbx.files.write(`node_modules/typescript/${file}`,
                        await fs.openAsBlob(`node_modules/typescript/${file}`))
said.hello = (await ts('const message: string = "Hello World!"; console.log(message)')).logs.stdout
said.value = (await ts('enum A { X, Y }; interface P { a: number }\nconst p: P = { a: A.Y }; p')).text
await ts('import { readFileSync } from "fs"\nimport type { Stats } from "fs"')
said.kept = (await ts('typeof readFileSync')).text
said.awaited = (await ts('const v: number = await Promise.resolve(4) as number; v! + 1')).text
said.cwd = (await ts('process.cwd()')).text
said.error = (await ts('const : = 4')).error.name
said.thrown = (await ts('throw new Error("no")')).error.value
said.env = (await ts('process.env.A as string', { envs: { A: 'x' } })).text
said.after = (await ts('typeof process.env.A')).text
said.contexts = (await sbx.listCodeContexts()).map((c) => c.language)
console.log(JSON.stringify(said))
await sbx.kill()
process.exit(0)
