// SPDX-License-Identifier: Apache-2.0
// Waits until LOOK gives something, and gives it.
export const until = async (look) => {
  for (let i = 0; i < 3600; i++) {
    const value = await look()
    if (value) return value
    await new Promise((done) => setTimeout(done, 25))
  }
  throw new Error('it did not come to pass')
}
