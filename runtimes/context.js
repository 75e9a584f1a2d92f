// SPDX-License-Identifier: Apache-2.0
// A Node that remembers; the frames are those of context.py.
'use strict';
(() => {
  const fs = require('fs');
  const util = require('util');
  const vm = require('vm');
  const { Writable } = require('stream');

  const TEXT_MAX = 256 * 1024;

  function send(message) {
    const body = Buffer.from(JSON.stringify(message));
    const frame = Buffer.alloc(4 + body.length);
    frame.writeUInt32BE(body.length, 0);
    body.copy(frame, 4);
    for (let at = 0; at < frame.length;) {
      try {
        at += fs.writeSync(1, frame, at);
      } catch (error) {
        if (error.code !== 'EAGAIN') throw error;
      }
    }
  }

  function receive(count) {
    const data = Buffer.alloc(count);
    for (let at = 0; at < count;) {
      let n = 0;
      try {
        n = fs.readSync(0, data, at, count - at, null);
      } catch (error) {
        if (error.code === 'EAGAIN') continue;
        if (error.code !== 'EOF') throw error;
      }
      if (n === 0) process.exit(0);
      at += n;
    }
    return data;
  }

  const cut = (text) => text.length <= TEXT_MAX ? text : text.slice(0, TEXT_MAX) + '...';

  // What cells print through the console or process.stdout; children's output is
  // their own affair and goes to the stderr of the context.
  function stream(name) {
    return new Writable({
      decodeStrings: false,
      write(chunk, _encoding, done) {
        const text = String(chunk);
        for (let at = 0; at < text.length; at += 65536)
          send({ kind: 'stream', name, text: text.slice(at, at + 65536) });
        done();
      },
    });
  }

  function bundle(value) {
    const data = { 'text/plain': cut(util.inspect(value)) };
    if (value !== null && typeof value === 'object') {
      try {
        const text = JSON.stringify(value);
        if (text !== undefined && text.length <= TEXT_MAX)
          data['application/json'] = JSON.parse(text);
      } catch (error) { /* not everything has a JSON form */ }
      if (Array.isArray(value) && value.length && value.length <= 1000 &&
          value.every((row) => row && typeof row === 'object' && !Array.isArray(row))) {
        const columns = [...new Set(value.flatMap((row) => Object.keys(row)))];
        data['application/vnd.vial.table+json'] = {
          columns, total_rows: value.length,
          rows: value.map((row) => columns.map((c) => {
            const cell = row[c];
            return cell === undefined || typeof cell === 'object' ||
              typeof cell === 'function' ? cell == null ? null : String(cell) : cell;
          })),
        };
      }
    }
    return data;
  }

  const out = stream('stdout');
  const err = stream('stderr');
  Object.defineProperty(process, 'stdout', { value: out });
  Object.defineProperty(process, 'stderr', { value: err });
  globalThis.console = new console.Console(out, err);
  globalThis.require = require;
  globalThis.display = (...values) =>
    values.forEach((value) => send({ kind: 'display', data: bundle(value) }));

  let cell = 0;
  process.on('SIGINT', () => {});

  function run(code) {
    const script = new vm.Script(code, { filename: `<cell ${++cell}>` });
    return script.runInThisContext({ breakOnSigint: true });
  }

  function explain(error) {
    if (!(error instanceof Error) && !(error && error.stack))
      return { name: 'Error', value: cut(util.inspect(error)), traceback: '' };
    return { name: String(error.name), value: cut(String(error.message)),
             traceback: cut(String(error.stack)) };
  }

  async function serve(request) {
    const reply = { kind: 'done', id: request.id, status: 'ok', value: null, error: null };
    try {
      const value = await run(request.code);
      if (value !== undefined) reply.value = bundle(value);
    } catch (error) {
      const stopped = error && error.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED';
      reply.status = stopped ? 'interrupted' : 'error';
      reply.error = explain(error);
    }
    send(reply);
  }

  async function main() {
    send({ kind: 'ready' });
    for (;;) {
      const size = receive(4).readUInt32BE(0);
      await serve(JSON.parse(receive(size).toString()));
    }
  }
  process.on('unhandledRejection', () => {});
  main();
})();
