// SPDX-License-Identifier: Apache-2.0
// E2B's services in protobuf, by the descriptors that E2B's own package has, and a client
// that was made for it. Prints what each call came to.
import { readFileSync } from 'node:fs'
import { fileDesc, serviceDesc } from '@bufbuild/protobuf/codegenv2'
import { file_google_protobuf_timestamp as time } from '@bufbuild/protobuf/wkt'
import { createClient, Code } from '@connectrpc/connect'
import { createConnectTransport } from '@connectrpc/connect-web'
import { Sandbox } from 'e2b'

const source = readFileSync('node_modules/e2b/dist/index.mjs', 'utf8')
const [filesystem, process_] = [...source.matchAll(/fileDesc\("([^"]+)"/g)]
  .map(([, packed]) => serviceDesc(fileDesc(packed, [time]), 0))
const { E2B_API_URL: baseUrl, E2B_API_KEY: key } = globalThis.process.env
const made = await (await fetch(baseUrl + '/sandboxes', {
  method: 'POST', headers: { 'X-API-Key': key }, body: '{"templateID": "base"}'
})).json()
const sbx = await Sandbox.connect(made.sandboxID)
const transport = createConnectTransport({
  baseUrl, useBinaryFormat: true,
  interceptors: [(next) => (call) => {
    call.header.set('E2b-Sandbox-Id', made.sandboxID)
    call.header.set('E2b-Sandbox-Port', '49983')
    call.header.set('X-Access-Token', made.envdAccessToken)
    return next(call)
  }]
})
const files = createClient(filesystem, transport)
const programs = createClient(process_, transport)
const text = (bytes) => new TextDecoder().decode(bytes)
const out = {}

const run = async (message) => {
  const seen = { stdout: '', stderr: '' }
  for await (const { event } of programs.start(message)) {
    const { case: kind, value } = event.event
    if (kind === 'start') seen.pid = value.pid > 0
    if (kind === 'data') seen[value.output.case] += text(value.output.value)
    if (kind === 'end') seen.end = [value.exitCode, value.exited, value.status, value.error ?? null]
  }
  return seen
}
const sh = (line, more = {}) => run({ process: { cmd: '/bin/sh', args: ['-c', line], ...more } })
out.ran = await sh('echo "$A"; pwd >&2; exit 3', { envs: { A: 'é\n' }, cwd: '/tmp' })

const cat = programs.start({ process: { cmd: 'cat' }, tag: 'a cat', stdin: true })[Symbol.asyncIterator]()
const { pid } = (await cat.next()).value.event.event.value
const process = { selector: { case: 'pid', value: pid } }
const bytes = new Uint8Array([0, 255, 10])
await programs.sendInput({ process, input: { input: { case: 'stdin', value: bytes } } })
out.echo = [...(await cat.next()).value.event.event.value.output.value]
out.listed = (await programs.list({})).processes.map((p) => [p.pid === pid, p.tag, p.config.cmd])
await programs.sendSignal({ process, signal: 9 })
out.killed = (await cat.next()).value.event.event.value.exitCode

await sbx.files.write('d/f', 'abc', { metadata: { of: 'f' } })
await files.move({ source: 'd/f', destination: 'd/g' })
const { entries } = await files.listDir({ path: '.', depth: 2 })
out.entries = entries.map((e) => [e.path, e.type, e.type === 1 ? String(e.size) : '', e.mode, e.owner, e.metadata,
                                  Math.abs(Number(e.modifiedTime.seconds) - Date.now() / 1000) < 600])
const { watcherId } = await files.createWatcher({ path: 'd' })
await files.makeDir({ path: 'd/new' })
let events = []
while (!events.length) events = (await files.getWatcherEvents({ watcherId })).events
out.events = events.map((e) => [e.name, e.type])
out.missing = await files.stat({ path: 'none' }).catch((e) => [Code[e.code], e.rawMessage])
out.none = await sh('true', { cwd: '/none' }).catch((e) => [Code[e.code], e.rawMessage])
console.log(JSON.stringify(out))
await sbx.kill()
globalThis.process.exit(0)
