// SPDX-License-Identifier: Apache-2.0
// client.mjs v1|v2 legacy|modern stdio|http TARGET...: the official client library runs
// a program, follows its progress and cancels another one. Prints what it saw as JSON.
// TARGET is a URL, or the command of a server.
const [generation, era, transport, ...target] = process.argv.slice(2)
const load = async () => {
  if (generation === 'v1')
    return {
      ...await import('@modelcontextprotocol/sdk/client/index.js'),
      ...await import('@modelcontextprotocol/sdk/client/stdio.js'),
      ...await import('@modelcontextprotocol/sdk/client/streamableHttp.js'),
    }
  return {
    ...await import('@modelcontextprotocol/client'),
    ...await import('@modelcontextprotocol/client/stdio'),
  }
}
const sdk = await load()
const options = generation === 'v1' ? {}
  : { versionNegotiation: { mode: era === 'legacy' ? 'legacy' : { pin: '2026-07-28' } } }
const client = new sdk.Client({ name: 'vial-test', version: '1' }, options)
await client.connect(transport === 'http'
  ? new sdk.StreamableHTTPClientTransport(new URL(target[0]))
  : new sdk.StdioClientTransport({ command: target[0], args: target.slice(1) }))
const call = (args, options) => generation === 'v1'
  ? client.callTool({ name: 'run_code', arguments: args }, undefined, options)
  : client.callTool({ name: 'run_code', arguments: args }, options)
const seen = { tools: (await client.listTools()).tools.map(t => t.name) }

seen.answer = await call({ language: 'python', code: 'print(6 * 7)' })

// The program goes on only after its first line has come: it waits for a file that is
// never made if progress came with the answer only.
const lines = []
let ended = false
const made = await client.callTool({ name: 'create_sandbox', arguments: {} })
const sandbox_id = made.structuredContent.sandbox_id
const running = call({
  sandbox_id, language: 'bash', timeout: 60,
  code: 'echo first; until [ -e go ]; do sleep 0.02; done; echo second',
}, {
  onprogress: async p => {
    lines.push({ text: p.message, before_end: !ended })
    if (p.message?.includes('first'))
      await client.callTool({ name: 'write_file', arguments: { sandbox_id, path: 'go', content: '' } })
  },
}).then(result => { ended = true; return result })
seen.followed = await running
seen.progress = lines

// Cancelled while it runs: the program is gone when the next call is answered.
const mark = process.env.MARK
const stop = new AbortController()
const cancelled = call({ language: 'bash', code: `echo up; exec -a ${mark} sleep 600`, timeout: 600 }, {
  signal: stop.signal,
  onprogress: p => { if (p.message?.includes('up')) stop.abort('enough') },
}).then(() => 'answered', error => String(error.message ?? error))
seen.cancelled = await cancelled
const begun = process.hrtime.bigint()
const gone = async () => {
  const { readdirSync, readFileSync } = await import('node:fs')
  return !readdirSync('/proc').some(pid => {
    try { return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, 'latin1').startsWith(mark) }
    catch { return false }
  })
}
await client.callTool({ name: 'list_sandboxes', arguments: {} })
while (!await gone()) await new Promise(resolve => setTimeout(resolve, 1))
seen.dead_after_ms = Number(process.hrtime.bigint() - begun) / 1e6
await client.callTool({ name: 'delete_sandbox', arguments: { sandbox_id } })
await client.close()
console.log(JSON.stringify(seen))
process.exit(0)
