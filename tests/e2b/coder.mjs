// SPDX-License-Identifier: Apache-2.0
// What an agent does that was given a repository: clone it, mend what its tests say, install
// and serve it. The repository and the package lie in the sandbox: there is no network.
import { Sandbox } from 'e2b'
import http from 'node:http'
import { until } from './until.mjs'

const sbx = await Sandbox.create({ timeoutMs: 300_000 })
const sh = (line) => sbx.commands.run(line, { cwd: '/home/user' })

await sbx.files.write([
  { path: 'origin/greet.js', data: "module.exports = (who) => 'hello ' + whom\n" },
  { path: 'origin/test.js', data: "require('assert').equal(require('./greet')('you'), 'hello you')\n" },
  { path: 'origin/app.js', data:
    "const greet = require('greet')\n" +
    "require('http').createServer((q, a) => a.end(greet(q.url.slice(1)))).listen(3000, '127.0.0.1')\n" },
  { path: 'origin/package.json', data: JSON.stringify({ name: 'greet', version: '1.0.0', main: 'greet.js' }) },
])
await sbx.git.init('origin', { initialBranch: 'main' })
await sbx.git.configureUser('Agent', 'agent@example.com')
await sbx.git.add('origin')
await sbx.git.commit('origin', 'first')
await sbx.git.clone('/home/user/origin', { path: '/home/user/work' })

const before = await sh('cd work && node test.js').catch((error) => error)
await sbx.files.write('work/greet.js',
                      (await sbx.files.read('work/greet.js')).replace('whom', 'who'))
const after = await sh('cd work && node test.js')
await sbx.git.add('work')
await sbx.git.commit('work', 'greet who is there')
await sh('mkdir -p site/node_modules && cp -r work site/node_modules/greet && cp work/app.js site/')

const server = await sbx.commands.run('cd site && node app.js', { background: true })
const { hostname, port } = new URL(process.env.E2B_API_URL)
const ask = () => new Promise((done, fail) => {
  http.get({ hostname, port, path: '/world', headers: { Host: sbx.getHost(3000) } }, (answer) => {
    let body = ''
    answer.on('data', (piece) => { body += piece })
    answer.on('end', () => done({ status: answer.statusCode, body }))
  }).on('error', fail)
})
const page = await until(async () => {
  const answer = await ask()
  return answer.status !== 502 && answer
})
console.log(JSON.stringify({
  broken: before.exitCode,
  mended: after.exitCode,
  log: (await sh('git -C work log --format=%s')).stdout,
  page,
}))
await server.kill()
await sbx.kill()
process.exit(0)
