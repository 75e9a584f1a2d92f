// SPDX-License-Identifier: Apache-2.0
// Walks the public methods of E2B's packages against a server. Each row either does what
// it says, or is refused with the error that it names. Prints one line of JSON a row.
import assert from 'node:assert/strict'
import http from 'node:http'
import * as e2b from 'e2b'
import { Sandbox as Interpreter } from '@e2b/code-interpreter'
import { until } from './until.mjs'

const { Sandbox, Template } = e2b
const rows = []
const row = (methods, what, act) => rows.push({ methods: methods.split(' '), what, act })
const refused = (methods, name, text, act) => row(methods, 'refused: ' + text, async (t) => {
  await assert.rejects(() => act(t), (error) => {
    assert.equal(error.constructor.name, name, String(error))
    assert.ok(error.message.includes(text), error.message)
    return true
  })
})
const text = (bytes) => new TextDecoder().decode(bytes)

// A request to HOST, which is a name that nobody's resolver knows.
const ask = (host, path, headers = {}) => new Promise((done, fail) => {
  const { hostname, port } = new URL(process.env.E2B_API_URL)
  http.get({ hostname, port, path, headers: { ...headers, Host: host } }, (answer) => {
    let body = ''
    answer.on('data', (piece) => { body += piece })
    answer.on('end', () => done({ status: answer.statusCode, headers: answer.headers, body }))
  }).on('error', fail)
})
const site = `
from http.server import *
class Site(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Set-Cookie", "a=b; Domain=example.com; Path=/")
        self.end_headers()
        self.wfile.write(("%s %s %s" % (self.path, self.headers["Host"], self.headers["Cookie"])).encode())
ThreadingHTTPServer(("127.0.0.1", 3000), Site).serve_forever()
`
const serve = async (box, port = 3000) => {
  await box.files.write('site.py', site)
  await box.commands.run('python3 site.py', { background: true })
  const host = box.getHost(port)
  return until(async () => (await ask(host, '/')).status !== 502 && host)
}

// Control.
row('Sandbox.create', 'a sandbox has an id that is a host name', async (t) => {
  t.sbx = await Sandbox.create({ metadata: { 'a b': 'c=d&e' }, envs: { FROM_BOX: 'box' },
                                 timeoutMs: 120_000 })
  assert.match(t.sbx.sandboxId, /^i[a-z0-9]{20}$/)
})
row('sandbox.isRunning', 'it runs', async (t) => assert.equal(await t.sbx.isRunning(), true))
row('sandbox.getInfo Sandbox.getInfo', 'metadata and times come back', async (t) => {
  for (const info of [await t.sbx.getInfo(), await Sandbox.getInfo(t.sbx.sandboxId)]) {
    assert.deepEqual(info.metadata, { 'a b': 'c=d&e' })
    assert.equal(info.endAt - info.startedAt, 120_000)
    assert.equal(info.state, 'running')
  }
})
row('Sandbox.getFullInfo', 'and so does all of it', async (t) => {
  const info = await Sandbox.getFullInfo(t.sbx.sandboxId)
  assert.equal(info.sandboxId, t.sbx.sandboxId)
})
row('sandbox.betaPause Sandbox.betaPause', 'older names for a pause', async () => {
  const box = await Sandbox.create()
  await box.betaPause()
  assert.equal((await box.getInfo()).state, 'paused')
  await box.connect()
  await Sandbox.betaPause(box.sandboxId)
  assert.equal((await box.getInfo()).state, 'paused')
  await box.kill()
})
row('Sandbox.listSnapshots sandbox.listSnapshots Sandbox.deleteSnapshot', 'there are none', async (t) => {
  assert.deepEqual(await Sandbox.listSnapshots().nextItems(), [])
  assert.deepEqual(await t.sbx.listSnapshots().nextItems(), [])
  assert.equal(await Sandbox.deleteSnapshot('snp' + '0'.repeat(32)), false)
})
row('sandbox.getMcpUrl', 'a name of its port', async (t) => {
  assert.ok(t.sbx.getMcpUrl().includes(`50005-${t.sbx.sandboxId}.box.test`))
})
refused('sandbox.getMcpToken', 'AuthenticationError', "invalid username: 'root'", (t) => t.sbx.getMcpToken())
row('Sandbox.list paginator.nextItems', 'pages go from new to old, and filters hold', async (t) => {
  const more = await Promise.all([1, 2].map(() => Sandbox.create({ metadata: { of: 'list' } })))
  const pages = Sandbox.list({ limit: 1, query: { metadata: { of: 'list' } } })
  const seen = []
  while (pages.hasNext) seen.push(...(await pages.nextItems()))
  assert.deepEqual(seen.map((s) => s.sandboxId).sort(), more.map((s) => s.sandboxId).sort())
  assert.ok(seen[0].startedAt >= seen[1].startedAt)
  const odd = await Sandbox.list({ query: { metadata: { 'a b': 'c=d&e' } } }).nextItems()
  assert.deepEqual(odd.map((s) => s.sandboxId), [t.sbx.sandboxId])
  const none = await Sandbox.list({ query: { state: ['paused'] } }).nextItems()
  assert.deepEqual(none, [])
  await Promise.all(more.map((s) => s.kill()))
})
row('Sandbox.connect sandbox.connect', 'another client speaks to the same one', async (t) => {
  const other = await Sandbox.connect(t.sbx.sandboxId)
  assert.equal((await other.commands.run('echo $FROM_BOX')).stdout, 'box\n')
  await t.sbx.connect({ timeoutMs: 1000 }) // only lengthens
  assert.ok((await t.sbx.getInfo()).endAt - Date.now() > 60_000)
})
row('sandbox.setTimeout Sandbox.setTimeout', 'the end moves, also to earlier', async (t) => {
  await t.sbx.setTimeout(600_000)
  assert.ok((await t.sbx.getInfo()).endAt - Date.now() > 500_000)
  await Sandbox.setTimeout(t.sbx.sandboxId, 200_000)
  assert.ok((await t.sbx.getInfo()).endAt - Date.now() <= 200_000)
})
row('sandbox.getMetrics Sandbox.getMetrics', 'what is used is told', async (t) => {
  for (const metrics of [await t.sbx.getMetrics(), await Sandbox.getMetrics(t.sbx.sandboxId)]) {
    const last = metrics.at(-1)
    assert.ok(last.memUsed > 0 && last.memUsed < last.memTotal)
    assert.ok(last.diskUsed < last.diskTotal && last.cpuCount >= 1)
    assert.ok(Math.abs(last.timestamp - Date.now()) < 60_000)
  }
  assert.deepEqual(await t.sbx.getMetrics({ end: new Date(5000) }), [])
})
row('sandbox.getHost', 'a port of the sandbox is a site with a name and cookies of its own', async (t) => {
  assert.equal(t.sbx.getHost(3000), `3000-${t.sbx.sandboxId}.box.test`)
  const host = await serve(t.sbx)
  const own = await ask(host, '/e2b/a?b=%20c', { Cookie: 'x=y' })
  assert.equal(own.body, `/e2b/a?b=%20c ${host} x=y`)
  assert.deepEqual(own.headers['set-cookie'], ['a=b; Path=/'])
  const shut = await ask(t.sbx.getHost(3001), '/')
  assert.equal(shut.status, 502)
  assert.equal(JSON.parse(shut.body).message, 'The sandbox is running but port is not open')
})
row('sandbox.getHost', 'by headers it has no origin and no cookies', async (t) => {
  const plain = await ask('127.0.0.1', '/x', { 'E2b-Sandbox-Id': t.sbx.sandboxId,
                                               'E2b-Sandbox-Port': '3000', Cookie: 'x=y' })
  assert.equal(plain.body, '/x localhost:3000 None')
  assert.equal(plain.headers['set-cookie'], undefined)
  assert.match(plain.headers['content-security-policy'], /^sandbox/)
})
row('Sandbox.create sandbox.getHost', 'a port that is not public wants a token', async () => {
  const box = await Sandbox.create({ network: { allowPublicTraffic: false,
                                                maskRequestHost: 'site:${PORT}' } })
  await box.files.write('site.py', site)
  await box.commands.run('python3 site.py', { background: true })
  assert.equal((await ask(box.getHost(3000), '/')).status, 403)
  const token = { 'E2B-Traffic-Access-Token': box.trafficAccessToken }
  await until(async () => (await ask(box.getHost(3000), '/', token)).status === 200)
  assert.equal((await ask(box.getHost(3000), '/', token)).body, '/ site:3000 None')
  await box.kill()
})
row('Sandbox.create', 'names that may be reached are told, and nothing else may be', async () => {
  const box = await Sandbox.create({ network: { allowOut: ['*.example.com'], denyOut: ['0.0.0.0/0'] } })
  assert.deepEqual((await box.getInfo()).network.allowOut, ['*.example.com'])
  await assert.rejects(() => box.commands.run('curl -sS http://example.org/'), /exit status 6/)
  await box.kill()
  const none = await Sandbox.create({ allowInternetAccess: false })
  assert.equal((await none.getInfo()).allowInternetAccess, false)
  await none.kill()
})
row('Sandbox.create', 'a lease ends in a pause, and any use wakes it', async () => {
  const box = await Sandbox.create({ timeoutMs: 1000,
                                     lifecycle: { onTimeout: 'pause', autoResume: true } })
  assert.deepEqual((await box.getInfo()).lifecycle, { onTimeout: 'pause', autoResume: true })
  await until(async () => (await box.getInfo()).state === 'paused')
  assert.equal((await box.commands.run('echo awake')).stdout, 'awake\n')
  assert.equal((await box.getInfo()).state, 'running')
  await box.kill()
})
row('Sandbox.create', 'one that nobody wakes stays paused until a connect', async () => {
  const box = await Sandbox.create({ timeoutMs: 4000, lifecycle: { onTimeout: 'pause' } })
  await box.files.write('kept', 'yes')
  await until(async () => (await box.getInfo()).state === 'paused')
  assert.equal(await box.isRunning(), false)
  await assert.rejects(() => box.files.read('kept'), (e) => e.constructor.name === 'TimeoutError')
  const again = await Sandbox.connect(box.sandboxId)
  assert.equal(await again.files.read('kept'), 'yes')
  await again.kill()
})
row('sandbox.pause Sandbox.pause', 'what was paused goes on where it was', async (t) => {
  const box = await Sandbox.create()
  const sleep = await box.commands.run('sleep 1000', { background: true })
  await sleep.disconnect()
  assert.notEqual(await box.pause(), false)
  assert.equal(await box.isRunning(), false)
  assert.equal((await box.getInfo()).state, 'paused')
  const listed = await Sandbox.list({ query: { state: ['paused'] } }).nextItems()
  assert.deepEqual(listed.map((s) => s.sandboxId), [box.sandboxId])
  assert.equal(await Sandbox.pause(box.sandboxId), false)
  const again = await Sandbox.connect(box.sandboxId, { timeoutMs: 60_000 })
  assert.ok((await again.commands.list()).some((p) => p.pid === sleep.pid))
  assert.equal((await again.getInfo()).state, 'running')
  await again.kill()
})
refused('sandbox.createSnapshot Sandbox.createSnapshot', 'SandboxError',
        "501: template 'base' is the host's programs", (t) => t.sbx.createSnapshot())
row('sandbox.updateNetwork Sandbox.updateNetwork', 'an open network is narrowed, and widened again', async () => {
  const box = await Sandbox.create()
  await box.updateNetwork({ allowOut: ['*.example.com'], denyOut: [e2b.ALL_TRAFFIC] })
  const { allowOut, denyOut } = (await box.getInfo()).network
  assert.deepEqual([allowOut, denyOut], [['*.example.com'], ['0.0.0.0/0']])
  await Sandbox.updateNetwork(box.sandboxId, { allowInternetAccess: false })
  assert.equal((await box.getInfo()).allowInternetAccess, false)
  await box.updateNetwork({})
  assert.equal((await box.getInfo()).allowInternetAccess, true)
  await box.kill()
})
refused('sandbox.updateNetwork', 'SandboxError', "400: 'network.denyOut' of an open sandbox",
        (t) => t.sbx.updateNetwork({ denyOut: ['1.1.1.1'] }))
if (Sandbox.fork)
  refused('sandbox.fork Sandbox.fork', 'SandboxError',
          "501: template 'base' is the host's programs", (t) => t.sbx.fork())
for (const [field, options] of Object.entries({
  'network.rules': { network: { rules: { 'a.example': [{ transform: { headers: { A: 'b' } } }] } } },
}))
  refused('Sandbox.create', 'SandboxError', `400: '${field}' is not supported by this server`,
          () => Sandbox.create(options))
refused('Sandbox.create', 'SandboxError', '400: invalid denied CIDR a.example',
        () => Sandbox.create({ network: { denyOut: ['a.example'] } }))
refused('Sandbox.create', 'SandboxError', "400: 'network.allowOut' needs '0.0.0.0/0'",
        () => Sandbox.create({ network: { allowOut: ['example.com'] } }))
refused('Sandbox.create', 'SandboxError', "400: 'network.maskRequestHost' is not a host",
        () => Sandbox.create({ network: { maskRequestHost: 'a\r\nb: c' } }))
refused('Sandbox.create', 'SandboxError', "404: template 'other' not found",
        () => Sandbox.create('other'))
refused('Sandbox.create', 'SandboxError', '400: Timeout cannot be greater than 24 hours',
        () => Sandbox.create({ timeoutMs: 90_000_000 }))
refused('Sandbox.create', 'AuthenticationError', 'key is missing or not known',
        () => Sandbox.create({ apiKey: 'e2b_' + '0'.repeat(64) }))
row('Template.exists Template.aliasExists', 'names of the settings', async () => {
  assert.equal(await Template.exists('base'), true)
  assert.equal(await Template.exists('code-interpreter-v1'), true)
  assert.equal(await Template.exists('nothing-of-the-kind'), false)
})
refused('Template.build', 'BuildError', "501: template 'base' is the host's programs", () =>
  Template.build(Template().fromBaseImage(), 'mine', { cpuCount: 1, memoryMB: 512 }))
row('Template.getTags', 'a template of the settings has none', async () => {
  assert.deepEqual(await Template.getTags('base'), [])
  await assert.rejects(() => Template.getTags('none'), (e) => e.constructor.name === 'TemplateError')
})
refused('Template.assignTags', 'TemplateError', "404: template 'base' not found",
        () => Template.assignTags('base', 'a'))
refused('Template.removeTags', 'TemplateError', "404: template 'base' not found",
        () => Template.removeTags('base', 'a'))
for (const name of ['create', 'connect', 'getInfo', 'list', 'destroy'])
  refused('Volume.' + name, 'VolumeError', "403: a daemon's callers have volumes only if",
          () => name === 'list' ? e2b.Volume.list() : e2b.Volume[name]('v'))
for (const name of ['create', 'update', 'getInfo', 'list', 'exists', 'destroy'])
  refused('Secret.' + name, 'SecretError', '501: secrets',
          () => name === 'list' ? e2b.Secret.list().nextItems() : e2b.Secret[name]('n', 'v'))

// Programs.
row('commands.run handle.wait', 'output, exit code, directory and variables', async (t) => {
  const seen = []
  const done = await t.sbx.commands.run('pwd; echo "$A $FROM_BOX" >&2; exit 0',
    { cwd: '/tmp', envs: { A: 'call' }, onStdout: (s) => seen.push(s) })
  assert.equal(done.stdout, '/tmp\n')
  assert.equal(done.stderr, 'call box\n')
  assert.deepEqual(seen.join(''), '/tmp\n')
  assert.equal((await t.sbx.commands.run('echo "$A|$HOME|$PWD"')).stdout,
               '|/home/user|/home/user\n')
})
refused('commands.run', 'CommandExitError', 'exit status 3', (t) => t.sbx.commands.run('exit 3'))
refused('commands.run', 'CommandExitError', 'signal: killed',
        (t) => t.sbx.commands.run('kill -9 $$'))
refused('commands.run', 'AuthenticationError', "invalid username: 'root'",
        (t) => t.sbx.commands.run('id', { user: 'root' }))
refused('commands.run', 'InvalidArgumentError', "cwd '/no/such' does not exist",
        (t) => t.sbx.commands.run('true', { cwd: '/no/such' }))
refused('commands.run', 'TimeoutError', '', (t) =>
  t.sbx.commands.run('sleep 60', { timeoutMs: 500 }))
row('commands.list commands.sendStdin commands.closeStdin', 'a program reads what is sent', async (t) => {
  const cat = await t.sbx.commands.run('cat', { background: true, stdin: true })
  assert.ok((await t.sbx.commands.list()).some((p) => p.pid === cat.pid && p.cmd === '/bin/bash'))
  await t.sbx.commands.sendStdin(cat.pid, 'to cat\n')
  await until(() => cat.stdout === 'to cat\n')
  if (t.sbx.commands.closeStdin) await t.sbx.commands.closeStdin(cat.pid)
  else await cat.kill()
  if (t.sbx.commands.closeStdin) assert.equal((await cat.wait()).stdout, 'to cat\n')
})
row('commands.kill handle.kill', 'a program is killed once', async (t) => {
  const sleep = await t.sbx.commands.run('sleep 100', { background: true })
  assert.equal(await t.sbx.commands.kill(sleep.pid), true)
  await assert.rejects(() => sleep.wait(), /signal: killed/)
  assert.equal(await sleep.kill(), false)
})
row('commands.connect handle.disconnect', 'nothing is lost between two connections', async (t) => {
  const first = await t.sbx.commands.run('echo one; read x; echo two; read x; echo three',
                                         { background: true, stdin: true })
  await until(() => first.stdout === 'one\n')
  await first.disconnect()
  await t.sbx.commands.sendStdin(first.pid, '\n')
  let seen = ''
  const again = await t.sbx.commands.connect(first.pid, { onStdout: (s) => { seen += s } })
  await until(() => seen === 'two\n')
  await t.sbx.commands.sendStdin(first.pid, '\n')
  assert.equal((await again.wait()).stdout, 'two\nthree\n')
})
refused('commands.connect', 'NotFoundError', 'process with pid 99999 not found',
        (t) => t.sbx.commands.connect(99999))
row('commands.run', 'a megabyte comes whole', async (t) => {
  const done = await t.sbx.commands.run('head -c 1000000 /dev/zero | tr "\\0" x')
  assert.equal(done.stdout.length, 1000000)
})
row('pty.create pty.sendInput pty.resize pty.kill', 'a terminal has the size it is given', async (t) => {
  let shown = ''
  const pty = await t.sbx.pty.create({ cols: 80, rows: 24, onData: (d) => { shown += text(d) } })
  await t.sbx.pty.sendInput(pty.pid, new TextEncoder().encode('stty size; echo ready\n'))
  await until(() => shown.includes('24 80'))
  await t.sbx.pty.resize(pty.pid, { cols: 100, rows: 30 })
  await t.sbx.pty.sendInput(pty.pid, new TextEncoder().encode('stty size\n'))
  await until(() => shown.includes('30 100'))
  assert.equal(await t.sbx.pty.kill(pty.pid), true)
})
if (Sandbox.prototype && true)
  row('pty.connect', 'a terminal is found again', async (t) => {
    if (!t.sbx.pty.connect) return
    const pty = await t.sbx.pty.create({ cols: 80, rows: 24, onData: () => {} })
    await pty.disconnect()
    let shown = ''
    const again = await t.sbx.pty.connect(pty.pid, { onData: (d) => { shown += text(d) } })
    await t.sbx.pty.sendInput(pty.pid, new TextEncoder().encode('echo $((6*7))\n'))
    await until(() => shown.includes('42'))
    await again.kill()
  })

// Files.
row('files.write files.read', 'text and bytes come back as they were', async (t) => {
  const info = await t.sbx.files.write('dir/a.txt', 'héllo')
  assert.equal(info.path, '/home/user/dir/a.txt')
  assert.equal(await t.sbx.files.read('dir/a.txt'), 'héllo')
  const bytes = new Uint8Array(300_000).map((_, i) => i * 7)
  await t.sbx.files.write('/home/user/b.bin', bytes.buffer)
  assert.deepEqual(await t.sbx.files.read('b.bin', { format: 'bytes' }), bytes)
  await t.sbx.files.write('empty', '')
  assert.equal(await t.sbx.files.read('~/empty'), '')
  assert.equal((await t.sbx.commands.run('stat -c %a dir/a.txt')).stdout, '644\n')
})
row('files.write', 'several files at once', async (t) => {
  const made = await t.sbx.files.write([{ path: 'm/1', data: 'one' }, { path: 'm/2', data: 'two' }])
  assert.deepEqual(made.map((f) => f.name), ['1', '2'])
  assert.equal(await t.sbx.files.read('m/2'), 'two')
})
row('files.write files.getInfo files.list', 'metadata stays with its file', async (t) => {
  const { metadata } = await t.sbx.files.write('noted', 'x', { metadata: { Made: 'by me' } })
  assert.deepEqual(metadata, { made: 'by me' })
  assert.deepEqual((await t.sbx.files.getInfo('noted')).metadata, { made: 'by me' })
  const listed = (await t.sbx.files.list('.')).find((entry) => entry.name === 'noted')
  assert.deepEqual(listed.metadata, { made: 'by me' })
})
row('files.write files.read', 'packed on the way, plain in the sandbox', async (t) => {
  const long = 'packed '.repeat(100_000)
  await t.sbx.files.write('packed', long, { gzip: true })
  assert.equal((await t.sbx.commands.run('wc -c < packed')).stdout, '700000\n')
  for (const gzip of [true, false]) assert.equal(await t.sbx.files.read('packed', { gzip }), long)
})
row('files.writeFiles', 'the same by its other name', async (t) => {
  if (!t.sbx.files.writeFiles) return
  await t.sbx.files.writeFiles([{ path: 'm/3', data: 'three' }])
  assert.equal(await t.sbx.files.read('m/3'), 'three')
})
row('files.list files.exists files.getInfo', 'children stand behind their directory', async (t) => {
  assert.deepEqual((await t.sbx.files.list('m')).map((f) => f.name).slice(0, 2), ['1', '2'])
  await t.sbx.commands.run('mkdir -p tree/a tree/a-b; touch tree/a/x tree/a-b/y')
  assert.deepEqual((await t.sbx.files.list('tree', { depth: 2 })).map((f) => f.path),
                   ['a', 'a/x', 'a-b', 'a-b/y'].map((n) => '/home/user/tree/' + n))
  assert.equal(await t.sbx.files.exists('m/1'), true)
  assert.equal(await t.sbx.files.exists('m/none'), false)
  const info = await t.sbx.files.getInfo('m/1')
  assert.equal(info.size, 3)
  assert.equal(info.permissions, '-rw-r--r--')
  assert.equal(info.type, 'file')
})
row('files.makeDir files.rename files.remove', 'names are made, moved and removed', async (t) => {
  assert.equal(await t.sbx.files.makeDir('new/deep'), true)
  assert.equal(await t.sbx.files.makeDir('new/deep'), false)
  assert.equal((await t.sbx.files.rename('new', 'moved/there')).path, '/home/user/moved/there')
  await t.sbx.files.remove('moved')
  assert.equal(await t.sbx.files.exists('moved'), false)
  await t.sbx.files.remove('moved')
})
refused('files.read', 'FileNotFoundError', "path '/home/user/none' does not exist",
        (t) => t.sbx.files.read('none'))
refused('files.list', 'InvalidArgumentError', 'is not a directory', (t) => t.sbx.files.list('m/1'))
refused('files.read', 'AuthenticationError', "invalid username: 'root'",
        (t) => t.sbx.files.read('m/1', { user: 'root' }))
row('files.watchDir watchHandle.stop', 'what happens is told, by its name', async (t) => {
  await t.sbx.files.makeDir('watched/sub')
  const seen = []
  const handle = await t.sbx.files.watchDir('watched', (event) => seen.push(event))
  await t.sbx.files.write('watched/sub/deep', '')
  await t.sbx.commands.run('echo x > watched/f; mv watched/f watched/g; rm watched/g')
  await until(() => seen.some((e) => e.name === 'g' && e.type === 'remove'))
  assert.deepEqual(seen.filter((e) => e.name.includes('/')), [])
  await t.sbx.files.write('watched/f', 'by the client')
  await t.sbx.commands.run('chmod 600 watched/f')
  await until(() => seen.filter((e) => e.type === 'chmod').length === 2)
  assert.deepEqual(seen.slice(-4).map((e) => `${e.type} ${e.name}`),
                   ['create f', 'chmod f', 'write f', 'chmod f'])
  for (const [name, type] of [['f', 'create'], ['f', 'write'], ['f', 'rename'], ['g', 'create']])
    assert.ok(seen.some((e) => e.name === name && e.type === type), `${type} of ${name}`)
  await handle.stop()
  const deep = []
  const all = await t.sbx.files.watchDir('watched', (event) => deep.push(event), { recursive: true })
  await t.sbx.files.write('watched/sub/more', 'x')
  await until(() => deep.some((e) => e.name === 'sub/more'))
  await all.stop()
})
row('sandbox.uploadUrl sandbox.downloadUrl', 'a signed URL needs no token, a wrong one fails', async (t) => {
  const form = new FormData()
  form.append('file', new Blob(['by url']), 'x')
  const up = await fetch(await t.sbx.uploadUrl('signed.txt', { useSignatureExpiration: 60 }),
                         { method: 'POST', body: form })
  assert.equal(up.status, 200, await up.clone().text())
  const url = await t.sbx.downloadUrl('signed.txt')
  assert.equal(await (await fetch(url)).text(), 'by url')
  const part = await fetch(url, { headers: { Range: 'bytes=3-4' } })
  assert.equal(part.status, 206)
  assert.equal(await part.text(), 'ur')
  const wrong = await fetch(url.replace('signed.txt', 'empty'))
  assert.equal(wrong.status, 401)
  assert.equal((await wrong.json()).message, 'invalid signature')
})
row('git.init git.status git.add git.commit git.branches git.createBranch git.checkoutBranch ' +
    'git.deleteBranch git.setConfig git.getConfig git.configureUser git.remoteAdd git.remoteGet ' +
    'git.reset git.restore', 'git is commands', async (t) => {
  const git = t.sbx.git
  await git.init('repo', { initialBranch: 'main' })
  await git.configureUser('N', 'n@example.com', { scope: 'local', path: 'repo' })
  await t.sbx.files.write('repo/f', '1')
  await git.add('repo')
  await git.commit('repo', 'first')
  assert.equal((await git.status('repo')).currentBranch, 'main')
  await git.createBranch('repo', 'other')
  await git.checkoutBranch('repo', 'main')
  assert.ok((await git.branches('repo')).branches.includes('other'))
  await git.deleteBranch('repo', 'other')
  await git.setConfig('a.b', 'c', { scope: 'local', path: 'repo' })
  assert.equal(await git.getConfig('a.b', { scope: 'local', path: 'repo' }), 'c')
  await git.remoteAdd('repo', 'origin', 'https://example.com/r.git')
  assert.equal(await git.remoteGet('repo', 'origin'), 'https://example.com/r.git')
  await t.sbx.files.write('repo/f', '2')
  await git.restore('repo', { paths: ['f'] })
  assert.equal(await t.sbx.files.read('repo/f'), '1')
  await git.reset('repo')
})

row('git.clone git.push git.pull', 'between repositories of one sandbox', async (t) => {
  const { git, commands } = t.sbx
  await commands.run('git init -q --bare up.git && git -C repo remote set-url origin ~/up.git')
  await git.push('repo', { remote: 'origin', branch: 'main', setUpstream: true })
  await git.clone('/home/user/up.git', { path: '/home/user/down', branch: 'main' })
  await t.sbx.files.write('repo/g', 'new')
  await git.add('repo')
  await git.commit('repo', 'second')
  await git.push('repo')
  await git.pull('/home/user/down')
  assert.equal(await t.sbx.files.read('down/g'), 'new')
})
row('git.dangerouslyAuthenticate', 'git keeps it as it is told to', async (t) => {
  await t.sbx.git.dangerouslyAuthenticate({ username: 'u', password: 'p', host: 'git.example' })
  assert.equal(await t.sbx.files.read('.git-credentials'), 'https://u:p@git.example\n')
})

// The interpreter.
row('runCode', 'variables stay, output and values come in their order', async (t) => {
  t.py = await Interpreter.create({ envs: { BOX: 'b' } })
  const out = []
  const one = await t.py.runCode('x = 41\nprint("a")\nx + 1', { onStdout: (m) => out.push(m.line) })
  assert.equal(one.text, '42')
  assert.deepEqual(one.logs.stdout, ['a\n'])
  assert.deepEqual(out, ['a\n'])
  assert.equal(one.executionCount, 1)
  assert.equal((await t.py.runCode("'abc'")).text, 'abc')
  assert.equal((await t.py.runCode('x')).executionCount, 3)
  const bad = await t.py.runCode('1/0')
  assert.equal(bad.error.name, 'ZeroDivisionError')
  assert.equal(bad.error.value, 'division by zero')
  assert.deepEqual((await t.py.runCode('{"a": [1]}')).results[0].json, { a: [1] })
  assert.deepEqual((await t.py.runCode('!echo shell')).logs.stdout.join(''), 'shell\n')
})
row('runCode', 'variables of one cell are gone behind it', async (t) => {
  const ask = 'import os; os.environ.get("ONE", "none") + os.environ["BOX"]'
  assert.equal((await t.py.runCode(ask, { envs: { ONE: 'é1', BOX: 'c' } })).text, 'é1c')
  assert.equal((await t.py.runCode(ask)).text, 'noneb')
})
row('runCode', 'javascript has its own', async (t) => {
  assert.equal((await t.py.runCode('const a = await Promise.resolve(6); a * 7',
                                   { language: 'javascript' })).text, '42')
  assert.equal((await t.py.runCode('process.env.Q', { language: 'js', envs: { Q: 'q' } })).text, 'q')
})
row('runCode', 'code whose caller has gone is interrupted', async (t) => {
  await assert.rejects(() => t.py.runCode('import time\nwhile True: time.sleep(1)', { timeoutMs: 700 }),
                       (e) => e.constructor.name === 'TimeoutError')
  assert.equal((await t.py.runCode('x')).text, '41')
})
row('runCode', 'bash and R remember, too', async (t) => {
  const bash = (code, more) => t.py.runCode(code, { language: 'bash', ...more })
  assert.deepEqual((await bash('x=5; cd /tmp; echo one; echo two >&2')).logs,
                   { stdout: ['one\n'], stderr: ['two\n'] })
  assert.equal((await bash('echo "$x $PWD $BOX $Q"', { envs: { Q: "q'é" } })).logs.stdout.join(''),
               "5 /tmp b q'é\n")
  assert.equal((await bash('echo "[$Q]"')).logs.stdout.join(''), '[]\n')
  assert.equal((await bash('cat; false')).error.value, '1')
  const r = (code, more) => t.py.runCode(code, { language: 'r', ...more })
  assert.equal((await r('y <- 6; y * 7')).text, '[1] 42')
  assert.equal((await r('Sys.getenv("Q")', { envs: { Q: 'é😀' } })).text, '[1] "é😀"')
  assert.equal((await r('stop("no")')).error.value, 'no')
  assert.equal((await r('y')).text, '[1] 6')
})
row('runCode', 'a shell whose caller has gone is interrupted', async (t) => {
  await assert.rejects(() => t.py.runCode('while true; do sleep 1; done',
                                          { language: 'bash', timeoutMs: 1500 }),
                       (e) => e.constructor.name === 'TimeoutError')
  assert.equal((await t.py.runCode('echo $x', { language: 'bash' })).logs.stdout.join(''), '5\n')
})
refused('runCode', 'SandboxError', '500', (t) => t.py.runCode('1', { language: 'cobol' }))
row('createCodeContext listCodeContexts restartCodeContext removeCodeContext',
    'contexts are apart, begin anew, and go', async (t) => {
  await t.py.files.makeDir('/home/user/sub')
  const own = await t.py.createCodeContext({ language: 'python', cwd: '/home/user/sub' })
  assert.equal(own.cwd, '/home/user/sub')
  assert.equal((await t.py.runCode('import os; os.getcwd()', { context: own })).text, '/home/user/sub')
  assert.equal((await t.py.runCode('x', { context: own })).error.name, 'NameError')
  assert.deepEqual((await t.py.listCodeContexts()).map((c) => c.language),
                   ['python', 'javascript', 'bash', 'r', 'python'])
  await t.py.runCode('y = 1', { context: own })
  await t.py.restartCodeContext(own)
  assert.equal((await t.py.runCode('y', { context: own })).error.name, 'NameError')
  await t.py.removeCodeContext(own)
  await assert.rejects(() => t.py.runCode('1', { context: own }), /not found/)
})
row('runCode', 'a figure is a picture and a chart, and comes where it was shown', async (t) => {
  const came = []
  const drawn = await t.py.runCode(
    'import matplotlib.pyplot as plt\nprint("before")\nplt.plot([1, 2], [3, 4], label="up")\n' +
    'plt.show()\nprint("after")', {
      onStdout: (m) => came.push(m.line ?? m), onResult: (r) => came.push(r.text) })
  assert.equal(drawn.error, undefined)
  assert.deepEqual(came, ['before\n', '<Figure size 640x480 with 1 Axes>', 'after\n'])
  assert.ok(drawn.results[0].png.startsWith('iVBOR'))
  assert.equal(drawn.results[0].chart.type, 'line')
  assert.deepEqual(drawn.results[0].chart.elements, [{ label: 'up', points: [[1, 3], [2, 4]] }])
})
row('runCode', 'a cell that is indented as a whole, and pictures', async (t) => {
  const shown = await t.py.runCode(`
      from PIL import Image
      print("in")
    
      if True:
          picture = Image.new("RGB", (2, 2))
      picture.show()
      picture.save("p.png")
      picture
      `)
  assert.equal(shown.error, undefined)
  assert.deepEqual(shown.logs.stdout, ['in\n'])
  assert.deepEqual(shown.results.map((r) => !!r.png), [true, true, true])
})
row('runCode', 'what JSON has no form for is text', async (t) => {
  assert.equal((await t.py.runCode('[float("nan"), 10**30]')).text,
               '[nan, 1000000000000000000000000000000]')
})

// Ends.
row('sandbox.kill', 'a command that runs is told that its sandbox was killed', async (t) => {
  const dying = await Sandbox.create()
  const sleep = await dying.commands.run('sleep 100', { background: true })
  const waits = assert.rejects(() => sleep.wait(), (e) => e.constructor.name === 'TimeoutError' &&
                               /killed or reached its end of life/.test(e.message))
  assert.equal(await dying.kill(), true)
  await waits
  assert.equal(await dying.isRunning(), false)
  assert.equal(await dying.kill(), false)
  await assert.rejects(() => dying.files.list('.'), (e) => e.constructor.name === 'TimeoutError')
})
row('Sandbox.kill', 'both are gone', async (t) => {
  assert.equal(await Sandbox.kill(t.py.sandboxId), true)
  assert.equal(await t.sbx.kill(), true)
  assert.equal(await Sandbox.kill('inosuchsandbox'), false)
  assert.deepEqual(await Sandbox.list().nextItems(), [])
})
refused('Sandbox.connect', 'SandboxNotFoundError', '', (t) => Sandbox.connect(t.sbx.sandboxId))

const state = {}
const only = process.argv[2]
for (const { methods, what, act } of rows) {
  if (only && methods[0] !== 'Sandbox.create' && !`${methods} ${what}`.includes(only)) continue
  const began = Date.now()
  let error = null
  try {
    await Promise.race([act(state), new Promise((_, no) =>
      setTimeout(() => no(new Error('it takes too long')), 120_000).unref())])
  } catch (e) {
    error = `${e.constructor.name}: ${e.message}`
  }
  console.log(JSON.stringify({ methods, what, error, ms: Date.now() - began }))
}
// All that the packages have, as they have it.
const own = (object, as) => Object.entries(Object.getOwnPropertyDescriptors(object))
  .filter(([name, { value }]) => typeof value === 'function' && name !== 'constructor')
  .map(([name]) => `${as}.${name}`)
const box = Sandbox.prototype
console.log(JSON.stringify({ methods: [], error: null, all: [
  ...own(Sandbox, 'Sandbox'), ...own(Object.getPrototypeOf(Sandbox), 'Sandbox'), ...own(box, 'sandbox'),
  ...own(Template, 'Template'), ...own(e2b.Volume, 'Volume'), ...own(e2b.Secret, 'Secret'),
  ...own(e2b.Git.prototype, 'git'), ...own(Interpreter.prototype, 'interpreter') ] }))
process.exit(0)
