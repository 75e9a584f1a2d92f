// SPDX-License-Identifier: Apache-2.0
// Templates by E2B's own package: each of the builder's methods, and what came of it. One line of
// JSON for each.
import { randomUUID } from 'node:crypto'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { Sandbox, Template } from 'e2b'

const say = (what, value) => console.log(JSON.stringify({ what, value }))
const error = (act) => act().then(() => 'nothing', (e) => `${e.constructor.name}: ${e.message}`)
const files = fs.mkdtempSync(path.join(os.tmpdir(), 'e2b-build-'))
const put = (name, text) => {
  fs.mkdirSync(path.dirname(path.join(files, name)), { recursive: true })
  fs.writeFileSync(path.join(files, name), text)
}
put('app/main.py', 'print("main")\n')
put('app/.hidden', 'h')
put('app/deep/data.txt', 'deep')
put('one.txt', 'one')
put('ignored.txt', 'never')
put('.dockerignore', 'ignored.txt\n')
fs.symlinkSync('main.py', path.join(files, 'app/link'))
const template = () => Template({ fileContextPath: files })
const size = { cpuCount: 1, memoryMB: 512 }

// All of it at once.
const logs = []
const made = await Template.build(template()
  .fromImage('debian')
  .copy('app', 'app')
  .copy('one.txt', '/opt/own/', { user: 'root', mode: 0o600 })
  .copyItems([{ src: ['one.txt'], dest: 'renamed.txt' }])
  .copy('*.txt', 'many')
  .setEnvs({ A: 'it\'s "a" $HOME', B: '$A b' })
  .runCmd('echo "$A|$B" > env; pwd > pwd; id -un > who; echo seen by the log')
  .runCmd(['id -un > /who', 'echo "$HOME" > /home-of-root'], { user: 'root' })
  .setWorkdir('/srv/site')
  .runCmd('pwd > here')
  .setUser('root')
  .runCmd('id -un > /by-user')
  .setUser('user')
  .setWorkdir('sub')
  .makeDir('made', { mode: 0o700 })
  .makeSymlink('made', 'linked')
  .rename('made', 'moved')
  .remove('/home/user/renamed.txt', { force: true }),
'all:v1', { ...size, tags: ['stable'], onBuildLogs: (entry) => logs.push(entry.message) })
say('info', [made.name, made.templateId, made.tags])
say('logged', logs.includes('seen by the log') && logs.some((l) => l.includes('[1/17] COPY app')))
const box = await Sandbox.create('all:stable')
const look = async (line, opts) => (await box.commands.run(line, opts)).stdout.trim()
say('tree', await look('cd app; ls -A . deep; readlink link; python3 main.py'))
say('owners', await look('stat -c "%U %a %n" app app/main.py /opt/own/one.txt /srv/site/sub /srv/site/here',
                         { user: 'root', cwd: '/home/user' }))
say('many', await look('ls many; ls renamed.txt || echo none'))
say('env', await look('cat env pwd who /who /home-of-root /srv/site/here /by-user'))
say('links', await look('cd /srv/site/sub; stat -c %a moved; readlink linked'))
say('left', await look('ls -A /home/user | grep vial-copy || echo nothing'))
say('no env', await look('echo "<$A>"'))
await box.kill()
say('exists', [await Template.exists('all:v1'), await Template.exists('all'), await Template.exists('all:v2')])
say('tags', (await Template.getTags('all')).map((t) => [t.tag, t.buildId === made.buildId,
                                                        t.createdAt instanceof Date]))

const given = await Template.assignTags('all:v1', ['live', 'other'])
const live = await Sandbox.create('all:live')
say('live', [given.tags, (await Template.getTags('all')).length, (await live.commands.run('cat who')).stdout])
await live.kill()
say('assign', await error(() => Template.assignTags('all:v1', ':x')))
say('unassign some', await error(() => Template.removeTags('all', 'live')))
let gone // once the sandbox's vessel has been closed
do { gone = await error(() => Template.removeTags('all', ['live', 'other'])) } while (gone.includes('409'))
say('unassign', [gone, await Template.exists('all:live'), await Template.exists('all:v1')])

// One on top of another, in the background.
const info = await Template.buildInBackground(template().fromTemplate('all:v1').runCmd('cat app/main.py > onto'),
                                              'onto', size)
let status
do {
  status = await Template.getBuildStatus(info)
} while (status.status === 'building' || status.status === 'waiting')
const onto = await Sandbox.create('onto')
say('onto', [status.status, (await onto.commands.run('cat onto')).stdout])
await onto.kill()

// What fails, says where.
const fails = async (t) => {
  try {
    await Template.build(t, 'fails', size)
  } catch (e) {
    return [`${e.constructor.name}: ${e.message}`, String(e.stack).includes('build.mjs')]
  }
}
say('exit', await fails(template().fromImage('debian').runCmd('echo no >&2; exit 7')))
say('who', await fails(template().fromImage('debian').runCmd('whoami', { user: 'root123' })))
say('missing', await fails(template().fromImage('no-such-image').runCmd('true')))
say('start', await fails(template().fromImage('debian').setStartCmd('sleep 1000', 'true')))
say('registry', await fails(template().fromImage('debian', { username: 'u', password: 'p' })))
say('no template', await fails(template().fromTemplate('nothing-of-the-kind')))
say('name', await error(() => Template.build(template().fromImage('debian'), 'Upper', size)))
say('operator', await error(() => Template.build(template().fromImage('debian'), 'deb', size)))
say('failed is none', await Template.exists('fails'))
say('dockerfile', await error(async () => {
  const name = 'docker-' + randomUUID().slice(0, 8)
  await Template.build(template().fromDockerfile(
    'FROM debian\nENV X=y\nWORKDIR /work\nCOPY one.txt ./\nRUN echo $X > x && id -un >> x\nUSER user\n'),
  name, size)
  const sbx = await Sandbox.create(name)
  const { stdout } = await sbx.commands.run('cat /work/one.txt /work/x')
  await sbx.kill()
  throw new Error(stdout)
}))
fs.rmSync(files, { recursive: true })
process.exit(0)
