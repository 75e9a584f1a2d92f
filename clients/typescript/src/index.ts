// SPDX-License-Identifier: Apache-2.0
/**
 * A client for vial's daemon, which runs code that nobody trusts. Without dependencies, for
 * Node 18 and later, and for browsers.
 *
 *     import { Client } from "vial-client";
 *     const client = new Client({ url: "http://127.0.0.1:8123", token });
 *     const result = await client.run({ language: "python", code: "print(6 * 7)" });
 *     console.log(result.verdict, result.stdout);
 *
 * A program that fails is no exception: its result has a verdict (`check(result)` makes one
 * of it). A VialError means that nothing was run, and carries the error's code and remedy.
 * What connections lose is tried again where that is safe: a run has an Idempotency-Key and
 * so is run once, a program's output is read on from its offsets.
 */
import * as schema from "./schema.js";
import { operations, type Operation } from "./schema.js";

export type * from "./schema.js";

/** What the daemon refused, or why it could not be asked. */
export class VialError extends Error {
  /** One of docs/errors.md; programs look at this. */
  readonly code: string;
  /** What can be done now, or empty. */
  readonly remedy: string;
  /** What the system said, or empty. */
  readonly detail: string;
  /** Of HTTP; 0: there was no answer. */
  readonly status: number;
  /** Seconds; 0: not told. */
  readonly retryAfter: number;
  /** Of a run that was refused with one, or that did not end well. */
  readonly result: schema.Result | undefined;

  constructor(error: Partial<schema.ErrorInfo>, status = 0, retryAfter = 0, result?: schema.Result) {
    super(
      `${error.code}: ${error.message}` +
        (error.cause ? `: ${error.cause}` : "") +
        (error.remedy ? ` (${error.remedy})` : ""),
    );
    this.name = new.target.name;
    this.code = error.code ?? "VIAL-HTTP";
    this.remedy = error.remedy ?? "";
    this.detail = error.cause ?? "";
    this.status = status;
    this.retryAfter = retryAfter;
    this.result = result;
  }
}
/** The request itself is at fault. */
export class Refused extends VialError {}
/** The daemon does not know who asks, or does not allow it. */
export class Unauthorized extends Refused {}
/** There is no such thing. */
export class NotFound extends Refused {}
/** It is in another state than was thought. */
export class Conflict extends Refused {}
/** As many are under way as may be, for longer than the client's patience. */
export class Busy extends VialError {}
/** The daemon cannot be reached, or hung up. */
export class Lost extends VialError {}
/** A program did not end well: what `check` makes of its verdict. */
export class RunFailed extends VialError {}

const kinds: Record<number, typeof VialError> = {
  401: Unauthorized, 403: Unauthorized, 404: NotFound, 409: Conflict, 429: Busy, 503: Busy,
};

function errorOf(
  status: number, error: Partial<schema.ErrorInfo>, retryAfter = 0, result?: schema.Result,
): VialError {
  const kind = kinds[status] ?? (status >= 400 && status < 500 ? Refused : VialError);
  return new kind(error, status, retryAfter, result);
}

/** RESULT itself, or RunFailed unless its verdict is ok. */
export function check<T extends schema.Result | schema.ExecResult>(result: T): T {
  if (result.verdict === "ok") return result;
  const said = result.signal
    ? `, signal ${result.signal}`
    : result.exit_code !== null && result.exit_code !== undefined
      ? `, exit code ${result.exit_code}`
      : "";
  const error = result.error ?? {
    code: String(result.verdict),
    message: `the program ended with verdict '${result.verdict}'${said}`,
  };
  throw new RunFailed(error, 200, 0, result as schema.Result);
}

export interface ClientOptions {
  /** http://… or https://…; for a unix socket, see unixFetch in "vial-client/node". */
  url: string;
  /** A bearer token. */
  token?: string;
  /** How often what a connection lost is tried again; else 3. */
  retries?: number;
  /** How many seconds a daemon that is busy is waited for; else 60. */
  patience?: number;
  /** Another fetch than the usual one. */
  fetch?: typeof fetch;
}

/** What may be said beside a request. */
export interface Options {
  /** Ends what goes on. */
  signal?: AbortSignal;
}

type Query = Record<string, string | number | boolean | undefined>;

interface Ask {
  operation: Operation;
  names?: readonly string[];
  query?: Query;
  json?: unknown;
  bytes?: Uint8Array;
  headers?: Record<string, string>;
  signal?: AbortSignal | undefined;
}

/** POSTs that come to the same when they are asked for twice. Of a batch, what runs ends when
 * its client hangs up. */
const repeatablePosts: readonly Operation[] = [
  "info_plan", "sessions_renew", "files_mkdir", "contexts_open", "batch_run",
];
/** Errors that pass by themselves; VIAL-HTTP: what stands between says so. */
const passing: readonly string[] = ["VIAL-BUSY", "VIAL-RATE", "VIAL-HTTP"];

/** The connection broke. `sent`: the daemon may have begun what was asked. */
class Broken extends Error {
  constructor(readonly reason: unknown, readonly sent: boolean) {
    super(String(reason));
  }
}

const neverSent = new Set(["ECONNREFUSED", "ENOENT", "ENOTFOUND", "EACCES", "EAI_AGAIN"]);

function brokenBy(reason: unknown): Broken {
  const cause = (reason as { cause?: { code?: string }; code?: string } | undefined) ?? {};
  return new Broken(reason, !neverSent.has(cause.cause?.code ?? cause.code ?? ""));
}

function sleep(seconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, seconds * 1000);
    if (signal?.aborted) stop();
    else signal?.addEventListener("abort", stop, { once: true });
  });
}

function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
}

async function refusalOf(answer: Response): Promise<VialError> {
  let told: { error?: schema.ErrorInfo; verdict?: string } = {};
  try {
    told = (await answer.json()) ?? {};
  } catch {
    // not vial's
  }
  const error = told.error ?? {
    code: "VIAL-HTTP",
    message: `the answer has status ${answer.status} and no error of vial's`,
  };
  const after = Number(answer.headers.get("retry-after") ?? 0);
  return errorOf(answer.status, error, Number.isFinite(after) ? after : 0,
    told.verdict ? (told as schema.Result) : undefined);
}

/** Asks, and asks again. Shared by all that belongs to a client. */
class Core {
  readonly retries: number;
  readonly patience: number;
  readonly #base: string;
  readonly #headers: Record<string, string>;
  readonly #fetch: typeof fetch;

  constructor(options: ClientOptions) {
    this.#base = options.url.replace(/\/+$/, "");
    this.#headers = options.token ? { Authorization: `Bearer ${options.token}` } : {};
    this.retries = options.retries ?? 3;
    this.patience = options.patience ?? 60;
    this.#fetch = options.fetch ?? ((...given) => fetch(...given));
  }

  target(ask: Ask): string {
    const [, path, known] = operations[ask.operation];
    let at = 0;
    let target = path.replace(/\{(\w+)\}/g, (_, kind: string) => {
      const name = ask.names?.[at++] ?? "";
      return kind === "path" ? name.split("/").map(encodeURIComponent).join("/")
        : encodeURIComponent(name);
    });
    const words = Object.entries(ask.query ?? {}).filter(([, v]) => v !== undefined && v !== false);
    for (const [name] of words)
      if (!(known as readonly string[]).includes(name))
        throw new TypeError(`${ask.operation} does not take '${name}'`);
    if (words.length)
      target += "?" + words.map(([n, v]) => `${n}=${v === true ? 1 : encodeURIComponent(v as string)}`)
        .join("&");
    return this.#base + target;
  }

  isRepeatable(ask: Ask): boolean {
    return operations[ask.operation][0] !== "POST" || ask.headers?.["Idempotency-Key"] !== undefined ||
      repeatablePosts.includes(ask.operation);
  }

  /** One answer, good or not. */
  async once(ask: Ask): Promise<Response> {
    const headers: Record<string, string> = { ...this.#headers, ...ask.headers };
    const init: RequestInit = { method: operations[ask.operation][0], headers, redirect: "error" };
    if (ask.json !== undefined) {
      headers["Content-Type"] = "application/json";
      init.body = JSON.stringify(ask.json);
    } else if (ask.bytes) {
      init.body = ask.bytes as BodyInit;
    }
    if (ask.signal) init.signal = ask.signal;
    try {
      return await this.#fetch(this.target(ask), init);
    } catch (reason) {
      if (ask.signal?.aborted) throw ask.signal.reason;
      throw brokenBy(reason);
    }
  }

  lost(broken: Broken): Lost {
    const what = broken.sent ? "hung up" : "cannot be reached";
    const cause = (broken.reason as { cause?: unknown } | undefined)?.cause ?? broken.reason;
    return new Lost({
      code: "VIAL-DAEMON", message: `the daemon at '${this.#base}' ${what}`,
      cause: String((cause as Error | undefined)?.message ?? cause),
      remedy: broken.sent ? "" : "start it: vial serve",
    });
  }

  pause(tries: number, signal?: AbortSignal): Promise<void> {
    return sleep(Math.min(0.1 * 2 ** tries, 5) * (0.5 + Math.random() / 2), signal);
  }

  /** The answer with what READ makes of it, once it is a good one. Connections that break
   * and daemons that are busy are tried again. */
  async ask<T>(ask: Ask, read: (answer: Response) => Promise<T>): Promise<T> {
    const until = Date.now() + this.patience * 1000;
    for (let lost = 0; ; ) {
      let refusal: VialError;
      try {
        const answer = await this.once(ask);
        const isGone = answer.status === 404 && lost > 0 && operations[ask.operation][0] === "DELETE";
        if (answer.ok || isGone)
          return await read(answer).catch((reason) => {
            if (ask.signal?.aborted) throw ask.signal.reason;
            throw brokenBy(reason);
          });
        refusal = await refusalOf(answer);
      } catch (broken) {
        if (!(broken instanceof Broken)) throw broken;
        if (lost >= this.retries || (broken.sent && !this.isRepeatable(ask))) throw this.lost(broken);
        await this.pause(lost++, ask.signal);
        continue;
      }
      // Our own first try goes on, and its answer will come.
      if (lost > 0 && ask.headers?.["Idempotency-Key"] && refusal.code === "VIAL-IDEMPOTENCY" &&
          refusal.retryAfter) {
        await sleep(refusal.retryAfter, ask.signal);
        continue;
      }
      const wait = Math.max(refusal.retryAfter, 0.1) * (1 + Math.random() * 0.3);
      const passes = passing.includes(refusal.code);
      if (!(refusal instanceof Busy) || !passes || Date.now() + wait * 1000 > until) throw refusal;
      await sleep(wait, ask.signal);
    }
  }

  json<T>(ask: Ask): Promise<T> {
    return this.ask(ask, async (answer) => {
      const text = await answer.text();
      return (text ? JSON.parse(text) : undefined) as T;
    });
  }

  async nothing(ask: Ask): Promise<void> {
    await this.ask(ask, (answer) => answer.arrayBuffer());
  }

  bytes(ask: Ask): Promise<Uint8Array> {
    return this.ask(ask, async (answer) => new Uint8Array(await answer.arrayBuffer()));
  }

  text(ask: Ask): Promise<string> {
    return this.ask(ask, (answer) => answer.text());
  }

  /** The events of one answer. */
  async *events(ask: Ask): AsyncGenerator<Event> {
    const reader = await this.ask(ask, async (answer) => answer.body!.getReader());
    const decoder = new TextDecoder();
    let rest = "";
    let isOver = false;
    try {
      while (!isOver) {
        const piece = await reader.read().catch((reason) => {
          if (ask.signal?.aborted) throw ask.signal.reason;
          throw new Broken(reason, true);
        });
        isOver = piece.done;
        const lines = (rest + decoder.decode(piece.value, { stream: !isOver })).split("\n");
        rest = lines.pop() ?? "";
        for (const line of lines) if (line.trim()) yield JSON.parse(line) as Event;
      }
    } finally {
      if (!isOver) await reader.cancel().catch(() => undefined);
    }
  }
}

/** What happens while something goes on. */
export type Event =
  | schema.WatchStart | schema.FileEvent | schema.WatchError
  | schema.RunStart | schema.ExecStart | schema.Output | schema.Gap | schema.Notice | schema.Progress
  | schema.RunResult | schema.RunError | schema.BatchStart | schema.BatchResult | schema.BatchError
  | schema.BatchEnd | schema.ExecError | schema.ExecExit | schema.PullImage | schema.PullError;
export type RunEvent =
  schema.RunStart | schema.Output | schema.Gap | schema.Notice | schema.Progress | schema.RunResult;
export type ProgramEvent = schema.ExecStart | schema.Output | schema.Gap | schema.ExecExit;
export type PullEvent = schema.Progress | schema.PullImage;
export type WatchEvent = schema.WatchStart | schema.FileEvent;

/** The bytes of an event of stdout or stderr. */
export function contentOf(event: schema.Output): Uint8Array {
  if (event.base64 === undefined) return new TextEncoder().encode(event.data ?? "");
  return Uint8Array.from(atob(event.base64), (c) => c.charCodeAt(0));
}

/** One run of a batch: its result, or why it was not run. */
export interface BatchItem {
  index: number;
  result?: schema.Result;
  error?: VialError;
}

export type BatchOf =
  | { requests: schema.Request[]; parallel?: number }
  | { request: schema.Request; inputs: schema.Request[]; parallel?: number; keep?: boolean };

/** Of a run that was refused: the same error as where that is an answer's status. */
function deniedBy(result: schema.Result): VialError | undefined {
  if (result.verdict !== "denied" || !result.error) return undefined;
  return errorOf(400, result.error, 0, result);
}

function throwTold(event: schema.RunError | schema.ExecError | schema.PullError | schema.WatchError): never {
  const after = "retry_after" in event ? event.retry_after : 0;
  throw errorOf(after ? 503 : 0, event.error, after);
}

/** A program that was started in a session, by its number. */
export class Program {
  readonly #core: Core;
  readonly #names: [string, string];

  constructor(core: Core, readonly session: string, readonly number: number) {
    this.#core = core;
    this.#names = [session, String(number)];
  }

  /** How it is now. */
  poll(): Promise<schema.ExecInfo> {
    return this.#core.json({ operation: "execs_get", names: this.#names });
  }

  /** Its end, and what is kept of its output. */
  wait(options: Options = {}): Promise<schema.ExecResult> {
    return this.#core.json({ operation: "execs_get", names: this.#names, query: { wait: true }, ...options });
  }

  /** Its output from these offsets on, until its exit; read on where a connection was lost. */
  async *events(from: { stdout?: number; stderr?: number } & Options = {}): AsyncGenerator<ProgramEvent> {
    const at = { stdout: from.stdout ?? 0, stderr: from.stderr ?? 0 };
    for (let lost = 0, told = false; ; ) {
      try {
        for await (const event of this.#core.events({
          operation: "execs_attach", names: this.#names,
          query: { ...at, stream: "ndjson" }, signal: from.signal,
        })) {
          lost = 0;
          if (event.event === "error") throwTold(event as schema.ExecError);
          if (event.event === "start" && told) continue;
          told = true;
          if (event.event === "stdout" || event.event === "stderr")
            at[event.event] = (event.offset ?? at[event.event]) + contentOf(event).length;
          if (event.event === "gap") at[event.stream === 2 ? "stderr" : "stdout"] += event.bytes;
          yield event as ProgramEvent;
          if (event.event === "exit") return;
        }
        throw new Broken("the stream ended early", true);
      } catch (broken) {
        if (!(broken instanceof Broken)) throw broken;
        if (lost >= this.#core.retries) throw this.#core.lost(broken);
        await this.#core.pause(lost++, from.signal);
      }
    }
  }

  /** The bytes of one stream; with `follow` until the program has ended. */
  output(of: "stdout" | "stderr" = "stdout", offset = 0, follow = false): Promise<Uint8Array> {
    return this.#core.bytes({ operation: "execs_output", names: this.#names, query: { of, offset, follow } });
  }

  /** Hands bytes to its live standard input; how many were taken. */
  async write(data: Uint8Array | string, close = false): Promise<number> {
    const told = await this.#core.json<schema.Taken>({
      operation: "execs_stdin", names: this.#names, query: { close }, bytes: bytesOf(data),
    });
    return told.taken;
  }

  signal(signal: string | number = "TERM", tree = false): Promise<void> {
    const json: schema.SignalBody = typeof signal === "number" ? { number: signal, tree } : { signal, tree };
    return this.#core.nothing({ operation: "execs_signal", names: this.#names, json });
  }

  resize(rows: number, columns: number): Promise<void> {
    const json: schema.ResizeBody = { rows, columns };
    return this.#core.nothing({ operation: "execs_resize", names: this.#names, json });
  }
}

/** An interpreter that remembers, like a notebook's kernel. */
export class Context {
  readonly #core: Core;
  readonly #names: [string, string];

  constructor(core: Core, readonly session: string, readonly name: string) {
    this.#core = core;
    this.#names = [session, name];
  }

  run(code: string, options: { timeout?: schema.Duration } & Options = {}): Promise<schema.Cell> {
    const json: schema.CellBody = { code };
    if (options.timeout !== undefined) json.timeout = options.timeout;
    return this.#core.json({ operation: "contexts_run", names: this.#names, json, signal: options.signal });
  }

  interrupt(): Promise<void> {
    return this.#core.nothing({ operation: "contexts_interrupt", names: this.#names });
  }

  restart(): Promise<void> {
    return this.#core.nothing({ operation: "contexts_restart", names: this.#names });
  }
}

function bytesOf(data: Uint8Array | string): Uint8Array {
  return typeof data === "string" ? new TextEncoder().encode(data) : data;
}

/** A text is a line for the shell, a list a program and its arguments. */
export type Command = string | readonly string[];
export type ExecOptions = Omit<schema.ExecBody, "argv" | "shell">;

function execBody(command: Command, options: ExecOptions): schema.ExecBody {
  return typeof command === "string" ? { ...options, shell: command } : { ...options, argv: [...command] };
}

/** A vessel that stays: its files and programs do, until it is closed. */
export class Session {
  readonly #core: Core;

  constructor(core: Core, readonly id: string) {
    this.#core = core;
  }

  #ask(operation: Operation, more: Omit<Ask, "operation" | "names"> & { name?: string } = {}): Ask {
    const { name, ...rest } = more;
    return { operation, names: name === undefined ? [this.id] : [this.id, name], ...rest };
  }

  info(): Promise<schema.SessionInfo> {
    return this.#core.json(this.#ask("sessions_get"));
  }

  renew(lease?: schema.Duration): Promise<schema.SessionInfo> {
    const json: schema.RenewBody = lease === undefined ? {} : { lease };
    return this.#core.json(this.#ask("sessions_renew", { json }));
  }

  /** From now on its gate lets out these, of those that it was opened with, and ends other
   * connections. */
  allow(...allow: string[]): Promise<schema.SessionInfo> {
    return this.#core.json(this.#ask("sessions_allow", { json: { allow } }));
  }

  /** Nothing in the session runs, and its clocks stand still, until `resume`; or, with
   * `resume: "auto"`, until it is used. */
  pause(json: schema.PauseBody = {}): Promise<schema.SessionInfo> {
    return this.#core.json(this.#ask("sessions_pause", { json }));
  }

  resume(): Promise<schema.SessionInfo> {
    return this.#core.json(this.#ask("sessions_resume"));
  }

  /** Where the server on that port of the session is reached over HTTP, and its token. */
  port(port: number): Promise<schema.Port> {
    return this.#core.json(this.#ask("ports_get", { name: String(port) }));
  }

  /** Saves its files as an image; `snapshot.image` opens sessions of it. */
  snapshot(name: string): Promise<schema.Snapshot> {
    return this.#core.json(this.#ask("sessions_snapshot", { json: { name } }));
  }

  /** Opens a session with the files of this one, and without its programs. */
  async fork(request: schema.Request & schema.SessionBody = {}): Promise<Session> {
    const told = await this.#core.json<schema.SessionInfo>(this.#ask("sessions_fork", { json: request }));
    return new Session(this.#core, told.id);
  }

  /** What happens to files, until the loop is left. A stream that breaks is not taken up again:
   * what happened meanwhile would be missing. */
  async *watch(path?: string, options: { deep?: boolean; attributes?: boolean } = {}):
      AsyncGenerator<WatchEvent> {
    try {
      for await (const event of this.#core.events(
        this.#ask("files_watch", { query: { path, ...options, stream: "ndjson" } }))) {
        if (event.event === "error") throwTold(event as schema.WatchError);
        yield event as WatchEvent;
      }
    } catch (broken) {
      throw broken instanceof Broken ? this.#core.lost(broken) : broken;
    }
  }

  /** Ends the session. One that has ended is no error. */
  async close(): Promise<void> {
    try {
      await this.#core.nothing(this.#ask("sessions_stop"));
    } catch (error) {
      if (!(error instanceof NotFound)) throw error;
    }
  }

  /** Starts a program. */
  async start(command: Command, options: ExecOptions = {}): Promise<Program> {
    const told = await this.#core.json<schema.ExecInfo>(
      this.#ask("execs_start", { json: execBody(command, options) }));
    return new Program(this.#core, this.id, told.exec);
  }

  /** Runs a program to its end. */
  exec(command: Command, options: ExecOptions = {}, more: Options = {}): Promise<schema.ExecResult> {
    return this.#core.json(
      this.#ask("execs_start", { query: { wait: true }, json: execBody(command, options), ...more }));
  }

  programs(): Promise<schema.ExecInfo[]> {
    return this.#core.json(this.#ask("execs_list"));
  }

  /** One that was started before. */
  program(number: number): Program {
    return new Program(this.#core, this.id, number);
  }

  /** An interpreter that remembers; one of that name which runs is taken. */
  async context(language: string, name?: string): Promise<Context> {
    const json: schema.ContextBody = name === undefined ? { language } : { language, name };
    const told = await this.#core.json<schema.ContextInfo>(this.#ask("contexts_open", { json }));
    return new Context(this.#core, this.id, told.context);
  }

  read(path: string, offset?: number, length?: number): Promise<Uint8Array> {
    return this.#core.bytes(this.#ask("files_get", { name: path, query: { offset, length } }));
  }

  /** Writes a file, with its parents. `mode` is octal text: "0755". */
  write(path: string, data: Uint8Array | string, mode?: string): Promise<void> {
    return this.#core.nothing(this.#ask("files_put", { name: path, query: { mode }, bytes: bytesOf(data) }));
  }

  remove(path: string, deep = false): Promise<void> {
    return this.#core.nothing(this.#ask("files_remove", { name: path, query: { deep } }));
  }

  list(path?: string, deep = false): Promise<schema.Entry[]> {
    return this.#core.json(this.#ask("files_list", { query: { path, deep } }));
  }

  stat(path: string): Promise<schema.Entry> {
    return this.#core.json(this.#ask("files_stat", { query: { path } }));
  }

  mkdir(path: string): Promise<void> {
    const json: schema.MkdirBody = { path };
    return this.#core.nothing(this.#ask("files_mkdir", { json }));
  }

  move(from: string, to: string): Promise<void> {
    const json: schema.MoveBody = { from, to };
    return this.#core.nothing(this.#ask("files_move", { json }));
  }

  /** A directory as a tar archive. */
  pack(path?: string): Promise<Uint8Array> {
    return this.#core.bytes(this.#ask("files_pack", { query: { path } }));
  }

  unpack(archive: Uint8Array, path?: string): Promise<void> {
    return this.#core.nothing(this.#ask("files_unpack", { query: { path }, bytes: archive }));
  }

  /** What differs from the host's tree, of a workspace with a layer of its own. */
  changes(options: { names?: boolean; path?: string } = {}): Promise<schema.Change[]> {
    return this.#core.json(this.#ask("workspaces_diff", { query: { ...options } }));
  }

  /** The changes as one unified diff. */
  diff(path?: string): Promise<string> {
    return this.#core.text(this.#ask("workspaces_diff", { query: { format: "text", path } }));
  }

  commit(options: schema.CommitBody = {}): Promise<schema.Committed> {
    return this.#core.json(this.#ask("workspaces_commit", { json: options }));
  }

  discard(): Promise<void> {
    return this.#core.nothing(this.#ask("workspaces_discard"));
  }

  checkpoints(): Promise<string[]> {
    return this.#core.json(this.#ask("workspaces_checkpoints"));
  }

  checkpoint(name: string): Promise<void> {
    return this.#core.nothing(this.#ask("workspaces_checkpoint", { name }));
  }

  rollback(name: string): Promise<void> {
    return this.#core.nothing(this.#ask("workspaces_rollback", { name }));
  }
}

/** A daemon. */
export class Client {
  readonly #core: Core;

  constructor(options: ClientOptions) {
    this.#core = new Core(options);
  }

  /** Runs code, or a command, in a vessel of its own. Run once, however often a connection
   * is lost; `key` is the Idempotency-Key, else a new one. */
  async run(
    request: schema.Request, options: { raw?: boolean; key?: string } & Options = {},
  ): Promise<schema.Result> {
    const key = options.key ?? newKey();
    try {
      return await this.#core.json({
        operation: "run_code", query: { raw: options.raw }, json: request, signal: options.signal,
        headers: { "Idempotency-Key": key, "X-Request-Id": key },
      });
    } catch (error) {
      // A run with a key goes on when its client hangs up; nobody wants this one.
      if (options.signal?.aborted)
        await this.#core.once({ operation: "runs_cancel", names: [key] }).catch(() => undefined);
      throw error;
    }
  }

  /** Runs code and tells what it prints, as it does. It is not tried again: who stops
   * reading ends the run. */
  async *stream(request: schema.Request, options: Options = {}): AsyncGenerator<RunEvent> {
    try {
      for await (const event of this.#core.events({
        operation: "run_code", query: { stream: "ndjson" }, json: request, ...options,
      })) {
        if (event.event === "error") throwTold(event as schema.RunError);
        const denied = event.event === "result" ? deniedBy(event.result) : undefined;
        if (denied) throw denied;
        yield event as RunEvent;
        if (event.event === "result") return;
      }
      throw new Broken("the stream ended early", true);
    } catch (broken) {
      throw broken instanceof Broken ? this.#core.lost(broken) : broken;
    }
  }

  /** Runs many requests, or one on many inputs, compiled once. After a connection was lost,
   * those that did not come are asked for again: each comes once. */
  async *batch(of: BatchOf, options: Options = {}): AsyncGenerator<BatchItem> {
    const items = "requests" in of ? of.requests : of.inputs;
    const missing = new Set(items.keys());
    for (let lost = 0; missing.size > 0; ) {
      const asked = [...missing];
      const some = asked.map((index) => items[index]!);
      const json: schema.BatchBody = "requests" in of ? { ...of, requests: some } : { ...of, inputs: some };
      try {
        for await (const event of this.#core.events({
          operation: "batch_run", query: { stream: "ndjson" }, json, ...options,
        })) {
          if (!("index" in event)) continue;
          const index = asked[event.index]!;
          lost = 0;
          missing.delete(index);
          const error = event.event === "error" ? errorOf(0, event.error) : deniedBy(event.result);
          if (error) yield { index, error };
          else if (event.event === "result") yield { index, result: event.result };
        }
        if (missing.size > 0) throw new Broken("the stream ended early", true);
      } catch (broken) {
        if (!(broken instanceof Broken)) throw broken;
        if (lost >= this.#core.retries) throw this.#core.lost(broken);
        await this.#core.pause(lost++, options.signal);
      }
    }
  }

  /** What would be run, and how. */
  plan(request: schema.Request): Promise<schema.Plan> {
    return this.#core.json({ operation: "info_plan", json: request });
  }

  runs(options: { limit?: number; all?: boolean } = {}): Promise<schema.Run[]> {
    return this.#core.json({ operation: "runs_list", query: { ...options } });
  }

  runDetails(request: string, caller?: string): Promise<schema.RunDetails> {
    return this.#core.json({ operation: "runs_get", names: [request], query: { caller } });
  }

  cancel(request: string, caller?: string): Promise<void> {
    return this.#core.nothing({ operation: "runs_cancel", names: [request], query: { caller } });
  }

  /** Opens a session; close it. */
  async session(request: schema.Request & schema.SessionBody = {}): Promise<Session> {
    const told = await this.#core.json<schema.SessionInfo>({ operation: "sessions_start", json: request });
    return new Session(this.#core, told.id);
  }

  /** Of the caller's own: what `Session.snapshot` gave. */
  removeSnapshot(image: string): Promise<void> {
    return this.#core.nothing({ operation: "snapshots_remove", names: [image] });
  }

  /** Those that the caller may have. */
  volumes(): Promise<schema.Volume[]> {
    return this.#core.json({ operation: "volumes_list" });
  }

  volume(name: string): Promise<schema.Volume> {
    return this.#core.json({ operation: "volumes_get", names: [name] });
  }

  /** Makes one: a token's own, whose name begins with the token's and a slash. */
  createVolume(name: string, options: Omit<schema.VolumeBody, "name"> = {}): Promise<schema.Volume> {
    return this.#core.json({ operation: "volumes_create", json: { ...options, name } });
  }

  /** With all that is in it, unless a vessel has it. */
  removeVolume(name: string): Promise<void> {
    return this.#core.nothing({ operation: "volumes_remove", names: [name] });
  }

  /** A session that is open already. */
  sessionOf(id: string): Session {
    return new Session(this.#core, id);
  }

  sessions(all = false): Promise<schema.SessionRow[]> {
    return this.#core.json({ operation: "sessions_list", query: { all } });
  }

  languages(): Promise<schema.Language[]> {
    return this.#core.json({ operation: "info_languages" });
  }

  images(): Promise<schema.Image[]> {
    return this.#core.json({ operation: "images_list" });
  }

  /** Pulls an image, and tells how it gets on. */
  async *pull(name: string, timeout?: schema.Duration): AsyncGenerator<PullEvent> {
    const json: schema.PullBody = timeout === undefined ? { name } : { name, timeout };
    try {
      for await (const event of this.#core.events({
        operation: "images_pull", query: { stream: "ndjson" }, json,
      })) {
        if (event.event === "error") throwTold(event as schema.PullError);
        yield event as PullEvent;
      }
    } catch (broken) {
      throw broken instanceof Broken ? this.#core.lost(broken) : broken;
    }
  }

  prune(all = false): Promise<schema.Pruned> {
    const json: schema.PruneBody = { all };
    return this.#core.json({ operation: "images_prune", json });
  }

  version(): Promise<schema.Version> {
    return this.#core.json({ operation: "info_version" });
  }

  doctor(): Promise<schema.Doctor> {
    return this.#core.json({ operation: "info_doctor" });
  }

  config(): Promise<schema.Config> {
    return this.#core.json({ operation: "info_config" });
  }

  vessels(): Promise<schema.Vessel[]> {
    return this.#core.json({ operation: "info_vessels" });
  }

  schema(name: "request" | "result" | "settings"): Promise<Record<string, unknown>> {
    return this.#core.json({ operation: "info_schema", names: [name] });
  }

  openapi(): Promise<Record<string, unknown>> {
    return this.#core.json({ operation: "openapi_get" });
  }

  pool(): Promise<schema.Pool> {
    return this.#core.json({ operation: "page_pool" });
  }

  recent(): Promise<schema.Recent> {
    return this.#core.json({ operation: "page_recent" });
  }

  metrics(): Promise<string> {
    return this.#core.text({ operation: "info_metrics" });
  }

  health(): Promise<schema.Health> {
    return this.#core.json({ operation: "info_health" });
  }

  /** Whether it can open vessels now; no exception when it cannot. */
  async ready(): Promise<schema.Ready> {
    try {
      return (await (await this.#core.once({ operation: "info_ready" })).json()) as schema.Ready;
    } catch (broken) {
      throw broken instanceof Broken ? this.#core.lost(broken) : broken;
    }
  }
}
