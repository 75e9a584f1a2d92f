// SPDX-License-Identifier: Apache-2.0
// How things end, and by which error of the SDK's. One line for each way: what was thrown.
import { Sandbox } from 'e2b'
import { Sandbox as Interpreter } from '@e2b/code-interpreter'
import net from 'node:net'

const name = (act) => act().then(() => 'nothing', (e) => `${e.constructor.name}: ${e.message}`)
const say = (way, error) => console.log(JSON.stringify({ way, error }))

if (process.argv[2] === 'front') { // whoever started us kills the daemon once we say so
  const sbx = await Sandbox.create()
  const sleep = await sbx.commands.run('sleep 100', { background: true })
  const py = await Interpreter.create()
  const begun = Promise.withResolvers()
  const cell = name(() => py.runCode('print("on", flush=True)\nimport time; time.sleep(100)',
                                     { onStdout: begun.resolve }))
  await begun.promise
  console.log(JSON.stringify({ way: 'ready', error: '' }))
  say('command', await name(() => sleep.wait()))
  say('file', await name(() => sbx.files.read('x')))
  say('cell', await cell)
  process.exit(0)
}

// A connection between SDK and server that somebody cuts.
const server = new URL(process.env.E2B_API_URL)
const pairs = new Set()
const proxy = net.createServer((client) => {
  const to = net.connect(Number(server.port), server.hostname)
  client.pipe(to).pipe(client)
  for (const one of [client, to]) one.on('error', () => {})
  pairs.add([client, to])
})
await new Promise((done) => proxy.listen(0, '127.0.0.1', done))
const url = `http://127.0.0.1:${proxy.address().port}`
const far = await Sandbox.create({ apiUrl: url, sandboxUrl: url })
const sleep = await far.commands.run('sleep 100', { background: true })
const waits = name(() => sleep.wait())
for (const pair of pairs) for (const one of pair) one.destroy()
say('cut', await waits)
say('cut, and it lives', String(await far.isRunning()))

const box = await Sandbox.create()
say('full disk', await name(() => box.files.write('big', 'x'.repeat(3 << 20))))
say('full disk, and it lives', (await box.commands.run('echo here')).stdout)
say('wrong token', await name(async () => {
  await fetch(process.env.E2B_API_URL + '/files?path=x', { headers: {
    'E2b-Sandbox-Id': box.sandboxId, 'E2b-Sandbox-Port': '49983', 'X-Access-Token': '0' } })
    .then((answer) => { if (answer.status !== 401) throw new Error(String(answer.status)) })
  await Sandbox.create({ apiKey: 'e2b_' + '0'.repeat(40) })
}))
const stranger = new Sandbox({ sandboxId: box.sandboxId, envdAccessToken: '0'.repeat(40),
                               envdVersion: '0.6.13', sandboxUrl: process.env.E2B_SANDBOX_URL })
say('wrong token: a command', await name(() => stranger.commands.run('true')))
say('wrong token: a file', await name(() => stranger.files.read('x')))
say('wrong token: a name', await name(() => stranger.files.list('.')))
const py = await Interpreter.create()
say('cell, full disk', await name(async () => {
  const { error } = await py.runCode('with open("big", "w") as f: f.write("x" * (3 << 20))')
  throw Object.assign(new Error(error.value), { constructor: { name: error.name } })
}))
say('cell, wrong token', await name(async () => {
  await fetch(process.env.E2B_API_URL + '/execute', { method: 'POST', body: '{"code": "1"}', headers: {
    'E2b-Sandbox-Id': py.sandboxId, 'E2b-Sandbox-Port': '49999', 'X-Access-Token': '0' } })
    .then((answer) => { throw new Error(String(answer.status)) })
}))
await py.pause()
say('cell, paused', await name(() => py.runCode('1')))
await Interpreter.connect(py.sandboxId)
const begun = Promise.withResolvers()
const cell = name(() => py.runCode('print("on", flush=True)\nimport time; time.sleep(100)',
                                   { onStdout: begun.resolve }))
await begun.promise
await py.kill()
say('cell, killed', await cell)
await box.pause()
say('paused: a command', await name(() => box.commands.run('true')))
say('paused: a file', await name(() => box.files.read('x')))
await box.kill()
say('gone', await name(() => box.commands.run('true')))
say('gone: its lease', await name(() => box.setTimeout(1000)))
await far.kill()
process.exit(0)
