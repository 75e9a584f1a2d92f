// SPDX-License-Identifier: Apache-2.0
// What an agent does that was given a table: look at it, compute, draw, save.
import { Sandbox } from '@e2b/code-interpreter'

const sbx = await Sandbox.create()
await sbx.files.write('data/cities.csv', 'city,people\nA,1\nB,5\nC,3\n')
const look = await sbx.runCode('import pandas as pd\ndf = pd.read_csv("data/cities.csv")\ndf')
const largest = await sbx.runCode('top = df.nlargest(1, "people")\ntop.iloc[0]["city"]')
const drawn = await sbx.runCode('import matplotlib.pyplot as plt\n' +
  'plt.bar(df["city"], df["people"])\nplt.show()')
await sbx.runCode('top.to_csv("top.csv", index=False)')
console.log(JSON.stringify({
  columns: look.results[0].data,
  largest: largest.text,
  pictures: drawn.results.filter((r) => r.png).length,
  saved: await sbx.files.read('top.csv'),
  errors: [look, largest, drawn].map((r) => r.error).filter((e) => e),
}))
await sbx.kill()
process.exit(0)
