// SPDX-License-Identifier: Apache-2.0
// Root by E2B's own package, in a template where the operator lets programs be root.
import { Sandbox } from 'e2b'

const sbx = await Sandbox.create('deb')
const say = async (line, opts) => (await sbx.commands.run(line, opts)).stdout.trim()
const root = { user: 'root' }
let shown = ''
const pty = await sbx.pty.create({ cols: 80, rows: 24, user: 'root', cwd: '/',
                                   onData: (bytes) => { shown += new TextDecoder().decode(bytes) } })
await sbx.pty.sendInput(pty.pid, new TextEncoder().encode('id -un > /tmp/who; exit\n'))
await pty.wait()
console.log(JSON.stringify({
  root: await say('id -un; pwd', root),
  env: await say('echo $A $HOME', { ...root, envs: { A: 'a' } }),
  below: await say('pwd', { ...root, cwd: 'tmp' }).catch((error) => error.constructor.name),
  user: await say('id -un; pwd'),
  made: await say('mkdir /app && stat -c %U /app', root),
  pty: await say('cat /tmp/who'),
  files: await (async () => {
    const { user } = root
    await sbx.files.write('/etc/made', 'mine', { user })
    await sbx.files.makeDir('/etc/dir', { user })
    await sbx.files.rename('/etc/made', '/etc/dir/made', { user })
    const [entry] = await sbx.files.list('/etc/dir', { user })
    const text = await sbx.files.read('/etc/dir/made', { user })
    await sbx.files.remove('/etc/dir', { user })
    return [entry.owner, text, await sbx.files.exists('/etc/dir', { user })]
  })()
}))
await sbx.kill()
process.exit(0)
