// SPDX-License-Identifier: Apache-2.0
// Makes sandboxes with networks by E2B's package, and prints a line of JSON for each network: what
// a program reaches. The arguments: the port, and what is to be reached.
import { Sandbox, ALL_TRAFFIC } from 'e2b'

const [port, ...where] = process.argv.slice(2)
const code = `
import json, socket
out = []
for where in ${JSON.stringify(where)}:
    try:
        with socket.create_connection((where, ${port}), timeout=60) as s:
            out.append(s.recv(100).decode())
    except OSError as e:
        out.append(type(e).__name__ if isinstance(e, ConnectionError) else e.strerror)
print(json.dumps(out))
`
const look = async (box, what) => {
  await box.files.write('look.py', code)
  const { stdout } = await box.commands.run('python3 look.py')
  console.log(JSON.stringify({ what, reached: JSON.parse(stdout), network: (await box.getInfo()).network }))
}
const open = async (what, network) => {
  const box = await Sandbox.create({ network })
  await look(box, what)
  return box
}

await (await open('one address', { allowOut: ['1.1.1.1'], denyOut: [ALL_TRAFFIC] })).kill()
await (await open('all but one range', { denyOut: ['1.1.1.0/24'] })).kill()
await (await open('a part of what is denied', { allowOut: ['1.1.1.2'], denyOut: ['1.1.1.0/24'] })).kill()
await (await open('all and a range are denied',
                  { allowOut: ['1.1.1.1'], denyOut: [ALL_TRAFFIC, '1.1.1.0/24'] })).kill()
await (await open('all wins', { allowOut: ['0.0.0.0/0'], denyOut: [ALL_TRAFFIC, '1.1.1.1'] })).kill()

const box = await open('usual')
await box.updateNetwork({ allowOut: ['1.1.1.2'], denyOut: [ALL_TRAFFIC] })
await look(box, 'narrowed')
await box.updateNetwork({ allowInternetAccess: false })
await look(box, 'closed')
await box.updateNetwork({})
await look(box, 'usual again')
await box.kill()
