// SPDX-License-Identifier: Apache-2.0
// The same packages with a domain alone: every address is a name behind a proxy that ends TLS. Who
// started us says where names lead, as a wildcard record would. One line of JSON for each thing.
import dns from 'node:dns'
import https from 'node:https'
import { until } from './until.mjs'

const lookup = dns.lookup
dns.lookup = (name, options, done) => lookup(/\.box\.test$/.test(name) ? '127.0.0.1' : name, options, done)
const { Sandbox } = await import('e2b')
const { Sandbox: Interpreter } = await import('@e2b/code-interpreter')

const say = (what, value) => console.log(JSON.stringify({ what, value }))
const domain = process.env.E2B_DOMAIN
const get = (url, headers = {}) => new Promise((done, fail) => {
  https.get(url, { headers }, (answer) => {
    let body = ''
    answer.on('data', (piece) => { body += piece })
    answer.on('end', () => done([answer.statusCode, body]))
  }).on('error', fail)
})

const sbx = await Sandbox.create()
say('host', sbx.getHost(3000) === `3000-${sbx.sandboxId}.${domain}`)
await sbx.files.write('a', 'by name')
say('file', await sbx.files.read('a'))
const big = 'x'.repeat(3_000_000)
await sbx.files.write('big', big)
say('big', (await sbx.files.read('big')) === big)
const seen = []
const done = await sbx.commands.run('echo one; echo two >&2; cat a', { onStdout: (s) => seen.push(s) })
say('command', [done.stdout, done.stderr, seen.join('') === done.stdout])
const cat = await sbx.commands.run('read x; echo "<$x>"', { background: true, stdin: true })
await sbx.commands.sendStdin(cat.pid, 'sent\n')
say('stdin', (await cat.wait()).stdout)
const url = await sbx.downloadUrl('a')
say('signed', [url.startsWith(`https://49983-${sbx.sandboxId}.${domain}/files?`), ...(await get(url))])
await sbx.files.write('site/index.html', 'a page')
await sbx.commands.run('python3 -m http.server 3000 --bind 127.0.0.1 --directory site', { background: true })
say('site', await until(async () => {
  const answer = await get(`https://${sbx.getHost(3000)}/`)
  return answer[0] === 200 && answer
}))
say('shut', (await get(`https://${sbx.getHost(3001)}/`))[0])
say('nobody', (await get(`https://3000-i00000000000000000000.${domain}/`))[0])
const py = await Interpreter.create()
say('cell', (await py.runCode('6 * 7')).text)
await py.kill()
const sleep = await sbx.commands.run('sleep 1000', { background: true })
const waits = sleep.wait().then(() => 'nothing', (e) => e.constructor.name)
say('killed', [await sbx.kill(), await waits])
process.exit(0)
