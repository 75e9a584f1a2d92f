// SPDX-License-Identifier: Apache-2.0
// speed.mjs ROUNDS MANY: E2B's packages against vial, in turns with a server that does nothing but
// answer in their form, in a process of its own (speed.mjs nothing). One line of JSON for each thing;
// tools/e2b-speed prints them.
import { fork } from 'node:child_process'
import http from 'node:http'
import { Sandbox } from 'e2b'
import { Sandbox as Interpreter } from '@e2b/code-interpreter'

if (process.argv[2] === 'nothing') {
  serve()
  await new Promise(() => {}) // until it is killed, or whoever started it has gone
}
const [rounds, many] = process.argv.slice(2).map(Number)
const say = (row) => console.log(JSON.stringify(row))
const size = 100 << 20
const helper = fork(process.argv[1], ['nothing'])
const url = `http://127.0.0.1:${await new Promise((done) => helper.once('message', done))}`
const sides = { nothing: { apiUrl: url, sandboxUrl: url }, vial: {} }

const middle = (list) => list.sort((a, b) => a - b)[list.length >> 1]
const timed = async (act) => {
  const began = performance.now()
  const value = await act()
  return [performance.now() - began, value]
}
// In turns, so that both meet the same machine.
const both = async (what, times, act, after = async () => {}) => {
  const ms = { nothing: [], vial: [] }
  for (let i = 0; i < times + 1; i++)
    for (const side of Object.keys(sides)) {
      const [took, value] = await timed(() => act(side))
      if (i > 0) ms[side].push(took) // the first one opens connections
      await after(value, side)
    }
  const [n, v] = [middle(ms.nothing), middle(ms.vial)]
  say({ what, nothing_ms: n, vial_ms: v, added_ms: v - n })
}

await both('Sandbox.create', rounds, (side) => Sandbox.create('base', sides[side]), (sbx, side) =>
  side === 'vial' ? sbx.kill() : null)
const boxes = {}
for (const side of Object.keys(sides)) boxes[side] = await Interpreter.create(sides[side])
await both("commands.run('true')", rounds, (side) => boxes[side].commands.run('true'))
await both("runCode('1+1')", rounds, (side) => boxes[side].runCode('1+1'))
const blob = new Blob([Buffer.alloc(size, 'x')])
await both('files.write, 100 MiB', 3, (side) => boxes[side].files.write('f', blob))
await both('files.read, 100 MiB', 3, (side) => boxes[side].files.read('f', { format: 'bytes' }))
await boxes.vial.kill()
if (many > 0) {
  const all = []
  for (let i = 0; i < many; i += 10)
    all.push(...(await Promise.all(Array.from({ length: Math.min(10, many - i) }, () =>
      Sandbox.create({ timeoutMs: 600_000 })))))
  say({ what: 'open', open: all.length })
  await new Promise((done) => process.stdin.once('data', done)) // whoever started us looks
  for (const sbx of all) await sbx.kill()
}
helper.kill()
process.exit(0)

function serve() {
  const frame = (flags, message) => {
    const data = Buffer.from(JSON.stringify(message))
    const head = Buffer.alloc(5)
    head.writeUInt8(flags)
    head.writeUInt32BE(data.length, 1)
    return Buffer.concat([head, data])
  }
  const whole = Buffer.alloc(100 << 20, 'x')
  const end = { exitCode: 0, exited: true, status: 'exit status 0' }
  const made = { templateID: 'base', sandboxID: 'i' + '0'.repeat(20), clientID: 'c', envdVersion: '0.6.13',
                 envdAccessToken: 't', domain: null }
  const answers = {
    '/process.Process/Start': ['application/connect+json', () => Buffer.concat([
      frame(0, { event: { start: { pid: 1 } } }), frame(0, { event: { end } }), frame(2, {})])],
    '/execute': ['application/json', () =>
      '{"type":"number_of_executions","execution_count":1}\n' +
      '{"type":"result","text":"2","is_main_result":true,"extra":{}}\n{"type":"end_of_execution"}\n'],
  }
  const nothing = http.createServer((req, res) => {
    const path = req.url.split('?')[0]
    req.on('data', () => {})
    req.on('end', () => {
      const [type, body] = answers[path] ??
        (path === '/files' && req.method === 'GET' ? ['application/octet-stream', () => whole]
          : ['application/json', () => JSON.stringify(path === '/files' ? [{ path: 'f', name: 'f', type: 'file' }] : made)])
      res.writeHead(path.endsWith('/sandboxes') ? 201 : 200, { 'Content-Type': type })
      res.end(body())
    })
  })
  nothing.listen(0, '127.0.0.1', () => process.send(nothing.address().port))
  process.on('disconnect', () => process.exit(0))
}
