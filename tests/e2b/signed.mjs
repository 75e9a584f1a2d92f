// SPDX-License-Identifier: Apache-2.0
// Addresses that carry their own right, by E2B's own package, as root and as the user.
import { Sandbox } from 'e2b'

const sbx = await Sandbox.create('deb')
const path = '/etc/signed'
const form = new FormData()
form.append('file', new Blob(['by root']), 'signed')
const written = await fetch(await sbx.uploadUrl(path, { user: 'root' }), { method: 'POST', body: form })
await sbx.commands.run(`chmod 600 ${path}`, { user: 'root' })
const get = async (user) => fetch(await sbx.downloadUrl(path, { user }))
const forged = (await sbx.downloadUrl(path, { user: 'user' })).replace('username=user', 'username=root')
console.log(JSON.stringify({
  written: written.status,
  owner: (await sbx.files.getInfo(path, { user: 'root' })).owner,
  read: await (await get('root')).text(),
  user: (await get('user')).status,
  other: (await fetch(forged)).status
}))
await sbx.kill()
process.exit(0)
