// SPDX-License-Identifier: Apache-2.0
// A Node that remembers; the frames are those of context.py. A cell is a script in which
// `await` and `import` may stand, and whose declarations can be made again. With the argument
// `typescript` it is of that, and its types are taken away first.
'use strict';
(() => {
  const childProcess = require('child_process');
  const fs = require('fs');
  const util = require('util');
  const vm = require('vm');
  const { Writable } = require('stream');

  const TEXT_MAX = 256 * 1024;
  const OURS = /^ +at .*\(?(\[eval\]|node:vm):/; // lines of a traceback

  // A lone surrogate, which JSON.stringify escapes, is no character of JSON's.
  const ESCAPE = /\\(?:u[0-9a-f]{4}|.)/g;
  const plain = (escape) => /^\\ud[89a-f]/.test(escape) ? '?' : escape;

  function send(message) {
    const body = Buffer.from(JSON.stringify(message).replace(ESCAPE, plain));
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

  // What cells print through the console or process.stdout.
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

  // A child that inherits our streams would write between our frames: what it prints is
  // passed on instead.
  const inherits = (how, fd) => ['inherit', fd, out, err].includes(how);

  function tame(name, pass) {
    const original = childProcess[name];
    childProcess[name] = (...args) => {
      const known = args.find((arg) => arg && typeof arg === 'object' && !Array.isArray(arg));
      const options = known || {};
      const given = name === 'fork' && !options.stdio && !options.silent
        ? ['inherit', 'inherit', 'inherit', 'ipc'] : options.stdio;
      const stdio = Array.isArray(given) ? given : [given, given, given];
      const ours = [1, 2].filter((fd) => inherits(stdio[fd], fd));
      if (!ours.length && !inherits(stdio[0], 0)) return original(...args);
      const tamed = { ...options, stdio: stdio.map((how, fd) =>
        fd > 2 || !inherits(how, fd) ? how : fd ? 'pipe' : 'ignore') };
      const others = known ? args.map((arg) => arg === known ? tamed : arg) : [...args, tamed];
      return pass(original, others, ours);
    };
  }

  function passLater(original, args, ours) {
    const child = original(...args);
    ours.forEach((fd) => child.stdio[fd].on('data', (data) => [out, err][fd - 1].write(data)));
    return child;
  }

  function passNow(original, args, ours) {
    const ended = original(...args);
    ours.forEach((fd) => ended.output && [out, err][fd - 1].write(ended.output[fd]));
    return ended;
  }

  function passOrThrow(_original, args, ours) {
    const ended = passNow(spawnSync, args, ours);
    if (ended.error) throw ended.error;
    if (ended.status !== 0)
      throw Object.assign(new Error(`Command failed: ${args[0]}`), ended);
    return ended.stdout && !ours.includes(1) ? ended.stdout : null;
  }

  const { spawnSync } = childProcess;
  tame('spawn', passLater);
  tame('fork', passLater);
  tame('spawnSync', passNow);
  tame('execFileSync', passOrThrow);
  tame('execSync', (original, [line, options], ours) =>
    passOrThrow(original, [line, { ...options, shell: options.shell || true }], ours));

  let acorn = null;
  try {
    acorn = require('internal/deps/acorn/acorn/dist/acorn');
  } catch (error) { /* cells are plain scripts then */ }

  // Where npm puts the package `typescript` for all.
  const MODULES = ['/usr/local/lib/node_modules/', '/usr/lib/node_modules/', '/usr/share/nodejs/'];

  function stripByNode(strip) {
    const quietly = (code, mode) => {
      const { emitWarning } = process;
      process.emitWarning = () => {}; // that it is an experiment
      try {
        return strip(code, { mode });
      } finally {
        process.emitWarning = emitWarning;
      }
    };
    return (code) => {
      try {
        return quietly(code, 'strip');
      } catch (error) {
        if (error.code !== 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX') throw error;
        return quietly(code, 'transform'); // enums and the like
      }
    };
  }

  function stripByPackage(ts) {
    const compilerOptions = { target: ts.ScriptTarget.ESNext, module: ts.ModuleKind.ESNext,
                              verbatimModuleSyntax: true };
    return (code) => {
      const { outputText, diagnostics } =
        ts.transpileModule(code, { compilerOptions, reportDiagnostics: true });
      if (diagnostics.length)
        throw new SyntaxError(ts.flattenDiagnosticMessageText(diagnostics[0].messageText, ' '));
      return outputText.replace(/\bexport \{\};?\s*$/, '');
    };
  }

  // By Node itself, or by the package `typescript`. Names that a cell imports stay, for the
  // next cells. Null: neither is here.
  function stripper() {
    const { stripTypeScriptTypes } = require('module');
    if (stripTypeScriptTypes) return stripByNode(stripTypeScriptTypes);
    for (const where of ['', ...MODULES])
      try {
        return stripByPackage(require(`${where}typescript`));
      } catch (error) { /* not there */ }
    return null;
  }
  const strip = process.argv[1] === 'typescript' ? stripper() : (code) => code;

  // Node's own, for cells, whose scripts have none.
  globalThis.__import = async (from, names = []) => {
    const found = await import(from);
    const lacks = names.find((name) => !(name in found));
    if (lacks !== undefined)
      throw new SyntaxError(
        `The requested module '${from}' does not provide an export named '${lacks}'`);
    return found;
  };
  Object.defineProperty(globalThis, '__import', { enumerable: false });

  function walk(node, see, parent = null) {
    if (see(node, parent) === false) return;
    Object.values(node).flat().forEach((child) => {
      if (child && typeof child.type === 'string') walk(child, see, node);
    });
  }

  const isFunction = (node) => /Function/.test(node.type);

  function namesIn(pattern) {
    switch (pattern && pattern.type) {
      case 'Identifier': return [pattern.name];
      case 'ObjectPattern': return pattern.properties.flatMap((p) => namesIn(p.value || p));
      case 'ArrayPattern': return pattern.elements.flatMap(namesIn);
      case 'AssignmentPattern': return namesIn(pattern.left);
      case 'RestElement': return namesIn(pattern.argument);
      default: return [];
    }
  }

  // `import a, { b as c } from 'd'` as an assignment, on as many lines.
  function importText(node, code) {
    const whole = node.specifiers.find((s) => s.type === 'ImportNamespaceSpecifier');
    const pairs = node.specifiers.filter((s) => s !== whole).map((s) =>
      [s.imported ? s.imported.name || s.imported.value : 'default', s.local.name]);
    const got = `await __import(${node.source.raw}, ${JSON.stringify(pairs.map((p) => p[0]))})`;
    const parts = pairs.map(([name, local]) => `${JSON.stringify(name)}: ${local}`);
    const lines = '\n'.repeat(code.slice(node.start, node.end).split('\n').length - 1);
    if (!whole) return `void ({${parts}} = ${got});${lines}`;
    return `void (${whole.local.name} = ${got}, {${parts}} = ${whole.local.name});${lines}`;
  }

  // Declarations at the top of a cell become variables of the global object, which can be
  // declared again. A cell that waits is the body of an async function; its variables are
  // declared outside, and assigned within.
  function rewrite(code) {
    const tree = acorn.parse(code, { ecmaVersion: 'latest', allowHashBang: true,
      allowAwaitOutsideFunction: true, allowImportExportEverywhere: true });
    const last = tree.body[tree.body.length - 1];
    const declared = [];
    const names = [];
    const edits = [];
    const edit = (from, to, text) => edits.push({ from, to, text });
    let waits = false;
    let begin = '';

    walk(tree, (node, parent) => {
      waits ||= /^AwaitExpression|^ImportDeclaration/.test(node.type) || node.await === true;
      if (node.type === 'VariableDeclaration' && (node.kind === 'var' || parent === tree))
        declared.push([node, parent]);
      return !isFunction(node);
    });
    walk(tree, (node) => {
      if (node.type === 'ImportExpression') edit(node.start, node.start + 6, '__import');
    });
    declared.forEach(([node, parent]) => {
      const end = node.start + node.kind.length;
      if (node.kind === 'let')
        node.declarations.filter((d) => !d.init).forEach((d) => edit(d.end, d.end, ' = undefined'));
      if (!waits) return edit(node.start, end, 'var'.padEnd(node.kind.length));
      names.push(...node.declarations.flatMap((d) => namesIn(d.id)));
      if (/^For/.test(parent.type) && parent.body !== node) return edit(node.start, end, '');
      edit(node.start, end, 'void (');
      const close = node.declarations[node.declarations.length - 1].end;
      edit(close, close, ')');
    });
    tree.body.forEach((node) => {
      if (node.type === 'ClassDeclaration') {
        if (waits) names.push(node.id.name);
        edit(node.start, node.start, `${waits ? '' : 'var '}${node.id.name} = `);
        edit(node.end, node.end, ';');
      } else if (node.type === 'ImportDeclaration') {
        names.push(...node.specifiers.map((s) => s.local.name));
        edit(node.start, node.end, importText(node, code));
      } else if (waits && node.type === 'FunctionDeclaration') {
        begin += `globalThis.${node.id.name} = ${node.id.name}; `;
      }
    });
    if (waits && last.type === 'ExpressionStatement') {
      const end = code[last.end - 1] === ';' ? last.end - 1 : last.end;
      edit(last.start, last.start, 'return (');
      edit(end, end, '\n)');
    }
    let text = '';
    let at = 0;
    edits.sort((a, b) => a.from - b.from || a.to - b.to).forEach((e) => {
      text += code.slice(at, e.from) + e.text;
      at = e.to;
    });
    text += code.slice(at);
    if (!waits) return { text, before: 0 };
    const head = `${names.length ? `var ${names}; ` : ''}(async () => { ${begin}`;
    return { text: `${head}${text}\n})()`, before: head.length };
  }

  let cell = 0;
  let stop = () => {};
  process.on('SIGINT', () => stop());

  // V8 says best what is wrong with a cell, unless it stumbles over what is right in one.
  function compile(code, name) {
    let script = { text: code, before: 0 };
    let wrong = null;
    try {
      if (acorn) script = rewrite(code);
    } catch (error) { wrong = error; }
    try {
      return new vm.Script(script.text, { filename: name, columnOffset: -script.before });
    } catch (error) {
      if (!wrong || !/outside a module|await is only valid/.test(error.message)) throw error;
      throw Object.assign(new SyntaxError(wrong.message),
        { stack: `${name}:${wrong.loc?.line ?? 1}\nSyntaxError: ${wrong.message}` });
    }
  }

  const run = (code) => compile(code, `<cell ${++cell}>`).runInThisContext({ breakOnSigint: true });

  // Its value, or the interrupt: it may wait for what never comes.
  async function settle(code) {
    const alive = setInterval(() => {}, 1 << 30);
    const stopped = new Promise((_resolve, reject) => {
      stop = () => reject(Object.assign(new Error('the cell was interrupted'),
        { code: 'ERR_SCRIPT_EXECUTION_INTERRUPTED' }));
    });
    try {
      return await Promise.race([run(code), stopped]);
    } finally {
      clearInterval(alive);
      stop = () => {};
    }
  }

  function explain(error) {
    if (!(error instanceof Error) && !(error && error.stack))
      return { name: 'Error', value: cut(util.inspect(error)), traceback: '' };
    const lines = String(error.stack).split('\n');
    return { name: String(error.name), value: cut(String(error.message)),
             traceback: cut(lines.filter((line) => !OURS.test(line)).join('\n')) };
  }

  async function serve(request) {
    const reply = { kind: 'done', id: request.id, status: 'ok', value: null, error: null };
    try {
      const value = await settle(strip(request.code));
      if (value !== undefined) reply.value = bundle(value);
    } catch (error) {
      const stopped = error && error.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED';
      reply.status = stopped ? 'interrupted' : 'error';
      reply.error = explain(error);
    }
    send(reply);
  }

  async function main() {
    if (!strip) return send({ kind: 'missing' });
    send({ kind: 'ready' });
    for (;;) {
      const size = receive(4).readUInt32BE(0);
      await serve(JSON.parse(receive(size).toString()));
    }
  }
  process.on('unhandledRejection', () => {});
  main();
})();
