// SPDX-License-Identifier: Apache-2.0
// Loaded by a node that was started before its program is known, inside the vessel that
// will be used once for it. It waits here, where node has done all but load the program;
// then it makes arguments, environment and stdin those of the request, and node goes on
// as if it had been started with them. It must leave no trace.
'use strict';
const fs = require('fs');
const modules = require('module');
const threads = require('worker_threads');

function readAll(count) {
  const bytes = Buffer.alloc(count);
  for (let have = 0; have < count;) {
    const got = fs.readSync(0, bytes, have, count - have, null);
    if (got === 0) process.reallyExit(127); // nobody wants it any more
    have += got;
  }
  return bytes;
}

// Threads inherit how node was started, and would look for this file.
function startThreadsWithout() {
  const Worker = threads.Worker;
  threads.Worker = new Proxy(Worker, {
    construct(target, [file, options], self) {
      return Reflect.construct(target, [file, { execArgv: process.execArgv, ...options }],
                               self);
    },
  });
  Worker.prototype.constructor = threads.Worker;
  modules.syncBuiltinESMExports();
}

function become({ args, env, input }) {
  for (const name of Object.keys(process.env)) delete process.env[name];
  for (const [name, value] of Object.entries(env)) process.env[name] = value;
  process.argv.push(...args);
  if (!input) { // the lowest free number is the one that was closed
    fs.closeSync(0);
    fs.openSync('/dev/null', 'r');
  }
}

if (threads.isMainThread) {
  fs.unlinkSync(__filename);
  delete require.cache[__filename];
  process.execArgv = [];
  process._preload_modules.length = 0;
  startThreadsWithout();
  fs.writeSync(1, '\0'); // ready; the host takes it away
  become(JSON.parse(readAll(readAll(4).readUInt32LE(0)).toString()));
}
