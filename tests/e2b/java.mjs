// SPDX-License-Identifier: Apache-2.0
// Cells of Java, which remember, and have variables as properties.
import { Sandbox } from '@e2b/code-interpreter'

const box = await Sandbox.create({ envs: { FROM_BOX: 'box' }, timeoutMs: 600_000 })
const java = (code, more) => box.runCode(code, { language: 'java', timeoutMs: 0, ...more })
const from = 'System.getProperty("FROM_BOX")'
const told = { box: (await java(from)).text, cell: (await java(from, { envs: { FROM_BOX: 'cell' } })).text,
               after: (await java(from)).text, cwd: (await java('System.getProperty("user.dir")')).text }
told.defined = (await java('int f(int a) {\n  return a * 7;\n}\nint x = 6;')).text ?? null
const said = await java('System.out.println("é"); System.err.println("bad"); f(x)')
told.said = [said.text, said.logs.stdout.join(''), said.logs.stderr.join('')]
told.wrong = (await java('int y = "a";')).error.value.split(':')[0]
told.thrown = (await java('throw new IllegalStateException("no");')).error.value
told.goes = (await java('x + 1')).text
console.log(JSON.stringify(told))
await box.kill()
process.exit(0)
