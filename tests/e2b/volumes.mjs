// SPDX-License-Identifier: Apache-2.0
// Volumes by E2B's own package: made, filled, shown in sandboxes, and removed.
import { Sandbox, Volume } from 'e2b'

const kind = (error) => error.constructor.name
const text = (bytes) => new TextDecoder().decode(bytes)
const said = {}

const volume = await Volume.create('data')
said.made = [volume.name, volume.volumeId]
said.again = kind(await Volume.create('data').catch((error) => error))
said.info = (await Volume.getInfo(volume.volumeId)).name
said.listed = (await Volume.list()).map((v) => [v.name, v.volumeId])
said.none = kind(await Volume.getInfo('none').catch((error) => error))
said.noneToDestroy = await Volume.destroy('none')

const dir = await volume.makeDir('/in', { mode: 0o750 })
said.dir = [dir.name, dir.type, dir.path, dir.mode.toString(8), dir.mtime instanceof Date]
said.twice = (await volume.makeDir('/in').catch((error) => error)).message
said.forced = (await volume.makeDir('/in', { force: true })).type
said.below = kind(await volume.makeDir('/no/such').catch((error) => error))
said.parents = (await volume.makeDir('/a/b/c', { force: true })).path
const file = await volume.writeFile('in/f', 'é first', { mode: 0o600 })
said.file = [file.name, file.type, file.path, file.size, file.mode.toString(8), file.uid]
said.kept = (await volume.writeFile('in/f', 'x').catch((error) => error)).message
const stream = new Blob(['second ', 'text']).stream()
said.streamed = (await volume.writeFile('in/f', stream, { force: true })).size
said.homeless = kind(await volume.writeFile('/no/such', 'x').catch((error) => error))
said.text = await volume.readFile('/in/f')
said.bytes = text(await volume.readFile('/in/f', { format: 'bytes' }))
said.blob = await (await volume.readFile('/in/f', { format: 'blob' })).text()
said.stream = await new Response(await volume.readFile('/in/f', { format: 'stream' })).text()
await volume.writeFile('empty', '')
said.empty = await volume.readFile('empty')
said.missing = kind(await volume.readFile('none').catch((error) => error))
said.exists = [await volume.exists('in/f'), await volume.exists('in/g')]
said.list = (await volume.list('/')).map((e) => e.path)
said.deep = (await volume.list('/', { depth: 2 })).map((e) => e.path)
said.top = (await volume.getInfo('/')).type
said.changed = (await volume.updateMetadata('in/f', { mode: 0o644 })).mode.toString(8)
said.owner = (await volume.updateMetadata('in/f', { uid: 0 }).catch((error) => error)).message

const box = await Sandbox.create({ volumeMounts: { '/mnt/data': volume } })
const other = await Sandbox.create({ volumeMounts: { '/d': 'data' } })
const run = async (sandbox, line) => (await sandbox.commands.run(line)).stdout.trim()
said.shown = await run(box, 'cat /mnt/data/in/f; stat -c %u /mnt/data/in/f')
await run(box, 'echo of a sandbox > /mnt/data/out')
said.shared = await run(other, 'cat /d/out; echo of another >> /d/out')
said.both = await volume.readFile('out')
said.mounts = (await box.getInfo()).volumeMounts
said.inUse = kind(await Volume.destroy(volume.volumeId).catch((error) => error))
await box.kill()
await other.kill()
const second = await Volume.connect(volume.volumeId)
said.stays = await second.readFile('out')
await second.remove('/in')
said.removed = await second.exists('in')
said.destroyed = await Volume.destroy(volume.volumeId)
said.left = await Volume.list()
said.token = kind(await second.readFile('out').catch((error) => error))
said.gone = (await Sandbox.create({ volumeMounts: { '/d': 'data' } }).catch((error) => error)).message
console.log(JSON.stringify(said))
process.exit(0)
