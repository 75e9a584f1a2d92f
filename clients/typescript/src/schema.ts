// SPDX-License-Identifier: Apache-2.0
// Made by tools/gen-clients from what 'vial serve --openapi' prints; do not edit.

/** Seconds, or text with a unit: "500ms", "2m". */
export type Duration = number | string;
/** Bytes, or text with a unit: "64m". */
export type Size = number | string;

export interface AllowBody {
  /** Entries, as a request's allow has them; only what the session was opened with. */
  allow: string[];
}

export interface Automatic {
  /** Who makes vessels when nobody is asked for. */
  driver: string | null;
  /** Why nobody can. */
  error: ErrorInfo | null;
}

export interface BatchBody {
  /** The runs, when each is another. */
  requests?: Request[];
  /** What all runs have in common, when there are inputs. */
  request?: Request;
  /** What each run has of its own, laid over the request. */
  inputs?: Request[];
  /** The request is compiled from itself alone and kept for its caller's later batches of the same one; files and args of inputs come beside its own. */
  keep?: boolean;
  /** How many run at once, at most; else as many as the daemon allows. */
  parallel?: number;
}

export interface BatchEnd {
  event: "end";
  /** How many runs there were. */
  count: number;
  /** How many of them were not run. */
  refused: number;
  /** How many ended with each verdict. */
  verdicts: Record<string, number>;
}

export interface BatchError {
  event: "error";
  /** Which of the batch's runs, from 0. */
  index: number;
  /** Why it was not run. */
  error: ErrorInfo;
}

export interface BatchResult {
  event: "result";
  /** How it ended. */
  result: Result;
  /** Which of the batch's runs, from 0. */
  index: number;
}

export interface BatchStart {
  event: "start";
  /** The request's id: the client's X-Request-Id, or one of ours. */
  request: string;
  /** How many runs there are. */
  count: number;
  /** Whether one program was compiled for all. */
  compiled: boolean;
}

export interface BytesOf {
  /** How many. */
  bytes: number;
  /** A checksum. */
  fnv1a64: string;
}

export interface Cell {
  /** How it ended. */
  status: "ok" | "error" | "interrupted" | "timeout";
  /** What it printed. */
  stdout: string;
  /** What it complained. */
  stderr: string;
  /** Whether there was more. */
  stdout_truncated: boolean;
  /** Whether there was more. */
  stderr_truncated: boolean;
  /** The value of its last expression, by media type. */
  value: Record<string, unknown> | null;
  /** What it showed: pictures and tables, by media type. */
  displays: unknown[];
  /** How output and displays were interleaved. */
  order: CellPiece[];
  /** The exception: name, value, traceback. */
  error: Record<string, unknown> | null;
}

export interface CellBody {
  /** The code of the cell. */
  code: string;
  /** How long it may take; else as long as the session's timeout says. */
  timeout?: Duration;
}

export interface CellPiece {
  /** Of what. */
  kind: "stdout" | "stderr" | "display";
  /** So many characters, or displays. */
  length: number;
}

export interface Change {
  /** Below the workspace. */
  path: string | null;
  /** added, modified, deleted, mode … */
  kind: string;
  /** f: file, d: directory, l: link; null: it is gone. */
  type: string | null;
  /** Its mode. */
  mode: number;
  /** In bytes. */
  size: number;
  /** What the host's tree has. */
  before: ChangeBefore | null;
  /** A unified diff, where it is text. */
  diff: string | null;
  /** The host's tree was changed in the meantime. */
  conflict: boolean;
  /** Why it cannot be applied. */
  obstacle: string | null;
}

export interface ChangeBefore {
  /** What it was. */
  type: string | null;
  /** Its mode. */
  mode: number;
  /** Its size. */
  size: number;
}

export interface CommitBody {
  /** Only what lies at or below these; else all. */
  paths?: string[];
  /** Links that lead out of the tree are applied, too. */
  links_out?: boolean;
}

export interface Committed {
  /** How many. */
  added: number;
  /** How many. */
  modified: number;
  /** How many. */
  deleted: number;
}

export interface Config {
  /** Where vial's data lies. */
  share_dir: string;
  /** The preset in force. */
  preset: string | null;
  /** The files that were read. */
  files: string[];
  /** Project files, and whether they are trusted. */
  projects: unknown[];
  /** The languages. */
  languages: string[];
  /** Whether vessels are kept. */
  keep: Keeping;
  /** The container engine's address. */
  engine: string | null;
  /** What holds where a request says nothing. */
  defaults: Record<string, Setting>;
  /** What requests may have at most. */
  policy: Record<string, Setting>;
  /** The daemon's settings. */
  serve: Record<string, unknown>;
  /** Where the audit log is, and how it is kept. */
  audit: Record<string, unknown> | null;
  /** How often what dead runs left is removed. */
  cleanup: Record<string, unknown>;
  /** How many runs are remembered. */
  journal: Record<string, unknown>;
  /** Where images are kept, and how large they may be. */
  images: Record<string, unknown>;
  /** Where volumes are kept, how many callers may make, and how large. */
  volumes: Record<string, unknown>;
  /** What holds for all pods of the driver kubernetes. */
  kubernetes: Record<string, unknown>;
  /** Secrets by name: where their values come from and go to; never a value. */
  secrets: Record<string, unknown>;
}

export interface Connection {
  /** The name that was asked for. */
  name: string;
  /** Its port; 0: it was only looked up. */
  port: number;
  /** ok, or why it was refused. */
  verdict: string;
  /** To the vessel. */
  bytes_in: number;
  /** From it. */
  bytes_out: number;
  /** From the try to the end. */
  ms: number;
  /** How often it was refused. */
  times?: number;
  /** To a port of the vessel. */
  incoming?: boolean;
}

export interface ContextInfo {
  /** The name by which cells are run in it. */
  context: string;
}

export interface ContextBody {
  /** The interpreter's language. */
  language: string;
  /** Its name, where there are several of a language. */
  name?: string;
}

export interface Doctor {
  /** Of vial. */
  version: string;
  /** Where its data lies. */
  share_dir: string;
  /** Whether vial-init is there. */
  guest: boolean;
  /** Who makes vessels when nobody is asked for. */
  automatic: Automatic;
  /** Who makes them by these settings. */
  needed: Needed;
  /** Each, and what it can do here. */
  drivers: Driver[];
}

export interface Driver {
  /** Who makes vessels. */
  name: string;
  /** Whether it can here. */
  usable: boolean;
  /** Whether auto may take it. */
  automatic: boolean;
  /** Of its engine. */
  version: string | null;
  /** How its vessels are isolated. */
  level: string;
  /** What enforces their limits. */
  limits_by: string;
  /** What they are made of. */
  layers: Layer[];
  /** Why it cannot be used. */
  error: ErrorInfo | null;
}

export interface Entry {
  /** Its name, below what was listed. */
  path: string;
  /** What it is. */
  type: "file" | "directory" | "link" | "other";
  /** In octal. */
  mode: string;
  /** Its owner, by the number that programs inside see. */
  uid: number;
  /** Its group, likewise. */
  gid: number;
  /** In bytes. */
  size: number;
  /** How many of them are holes. */
  holes: number;
  /** When it was changed: nanoseconds since 1970. */
  mtime_ns: number;
  /** What a link says; null: it is none. */
  target: string | null;
  /** Its media type, by its name. */
  media: string | null;
}

export interface ErrorInfo {
  /** One of docs/errors.md; programs look at this. */
  code: string;
  /** What was tried, on what. */
  message: string;
  /** What the system said, or empty. */
  cause: string;
  /** What can be done now, or empty. */
  remedy: string;
}

export interface ExecInfo {
  /** The program's number in its session. */
  exec: number;
  /** Its process number inside the vessel; null: it did not start, or not yet. */
  pid: number | null;
  /** Whether it goes on; the rest comes when it has ended. */
  running: boolean;
  /** What it has written so far. */
  stdout_bytes: number;
  /** What it has written so far. */
  stderr_bytes: number;
  /** As in a result. */
  verdict?: string;
  /** Its exit status, if it exited. */
  exit_code?: number | null;
  /** The signal that ended it. */
  signal?: string | null;
  /** How long it took. */
  duration_ms?: number;
  /** Its cpu time. */
  cpu_user_ms?: number;
  /** The kernel's for it. */
  cpu_system_ms?: number;
  /** How often it tried to reach a network that is not there. */
  network_refused?: number;
  /** What was reached through the session's gate since the last program ended. */
  network?: Network;
  /** The most memory that was used. */
  memory_peak_bytes?: number;
  /** What went wrong. */
  error?: ErrorInfo | null;
}

export interface ExecBody {
  /** A program and its arguments; or give shell. */
  argv?: string[];
  /** A line for the shell; or give argv. */
  shell?: string;
  /** The image's ENTRYPOINT begins argv, and its CMD stands for an argv that is not given. */
  entrypoint?: boolean;
  /** Environment variables, beside the session's. */
  env?: Record<string, string>;
  /** Where it starts; else in the working directory. */
  cwd?: string;
  /** What it reads from its standard input. */
  stdin?: string;
  /** Its standard input stays open: more may come by /stdin. */
  stdin_live?: boolean;
  /** How long it may take; else as long as the session's timeout says. */
  timeout?: Duration;
  /** With columns: it gets a terminal of so many rows. */
  rows?: number;
  /** With rows: it gets a terminal of so many columns. */
  columns?: number;
}

export interface ExecError {
  event: "error";
  /** Why its output cannot be read on. */
  error: ErrorInfo;
}

export interface ExecExit {
  /** The program's number in its session. */
  exec: number;
  /** Its process number inside the vessel; null: it did not start, or not yet. */
  pid: number | null;
  /** Whether it goes on; the rest comes when it has ended. */
  running: boolean;
  /** What it has written so far. */
  stdout_bytes: number;
  /** What it has written so far. */
  stderr_bytes: number;
  /** As in a result. */
  verdict?: string;
  /** Its exit status, if it exited. */
  exit_code?: number | null;
  /** The signal that ended it. */
  signal?: string | null;
  /** How long it took. */
  duration_ms?: number;
  /** Its cpu time. */
  cpu_user_ms?: number;
  /** The kernel's for it. */
  cpu_system_ms?: number;
  /** How often it tried to reach a network that is not there. */
  network_refused?: number;
  /** What was reached through the session's gate since the last program ended. */
  network?: Network;
  /** The most memory that was used. */
  memory_peak_bytes?: number;
  /** What went wrong. */
  error?: ErrorInfo | null;
  event: "exit";
}

export interface ExecStart {
  event: "start";
  /** The program's number in its session. */
  exec: number;
  /** Its process number inside the vessel; null: it did not start, or not yet. */
  pid: number | null;
}

export interface ExecResult {
  /** The program's number in its session. */
  exec: number;
  /** Its process number inside the vessel; null: it did not start, or not yet. */
  pid: number | null;
  /** Whether it goes on; the rest comes when it has ended. */
  running: boolean;
  /** What it has written so far. */
  stdout_bytes: number;
  /** What it has written so far. */
  stderr_bytes: number;
  /** As in a result. */
  verdict?: string;
  /** Its exit status, if it exited. */
  exit_code?: number | null;
  /** The signal that ended it. */
  signal?: string | null;
  /** How long it took. */
  duration_ms?: number;
  /** Its cpu time. */
  cpu_user_ms?: number;
  /** The kernel's for it. */
  cpu_system_ms?: number;
  /** How often it tried to reach a network that is not there. */
  network_refused?: number;
  /** What was reached through the session's gate since the last program ended. */
  network?: Network;
  /** The most memory that was used. */
  memory_peak_bytes?: number;
  /** What went wrong. */
  error?: ErrorInfo | null;
  /** What is kept of it, up to 1 MiB. */
  stdout: string;
  /** What is kept of it, up to 1 MiB. */
  stderr: string;
  /** Whether there was more. */
  stdout_truncated: boolean;
  /** Whether there was more. */
  stderr_truncated: boolean;
}

export interface FileEvent {
  /** What happened; lost: more than could be told, so list again. */
  event: "created" | "written" | "removed" | "moved" | "attributes" | "lost";
  /** Below what is watched; empty: events were lost. */
  path: string;
  /** What it was called before; of a move. */
  from?: string;
}

export interface Gap {
  event: "gap";
  /** 1: stdout, 2: stderr. */
  stream: number;
  /** How much of it was left out, as the client was too slow. */
  bytes: number;
}

export interface Health {
  status: "ok";
}

export interface Image {
  /** The engine's id of it. */
  id: string | null;
  /** Its names. */
  tags: string[] | null;
  /** Its digests. */
  digests: string[] | null;
  /** In bytes. */
  size: number | null;
}

export interface Keeping {
  /** Vessels are kept from call to call. */
  alive: boolean;
  /** For so many calls. */
  executions: number;
  /** For so many seconds without one. */
  idle: number;
}

export interface Language {
  /** Its name in requests. */
  name: string;
  /** Other names. */
  aliases: string[];
  /** Whether it can run here. */
  usable: boolean;
  /** Its interpreter or compiler. */
  program: string;
  /** Where that is. */
  path: string | null;
  /** What it says of itself. */
  version: string | null;
}

export interface Layer {
  /** Of the isolation. */
  name: string;
  /** Whether it can be had here. */
  available: boolean;
  /** Why not. */
  reason: string;
  /** What can be done about it. */
  fix: string;
}

export interface MkdirBody {
  /** The directory; its parents are made, too. */
  path: string;
}

export interface MoveBody {
  /** What it is called now. */
  from: string;
  /** What it is called then. */
  to: string;
}

export interface Needed {
  /** Who the settings ask for. */
  driver: string;
  /** Who may stand in. */
  fallback: string | null;
  /** Who it is now. */
  takes: string | null;
  /** Whether there is somebody. */
  ready: boolean;
}

export interface Network {
  /** The first of them. */
  connections: Connection[];
  /** How many are not among them. */
  left_out: number;
  /** How many were made in all. */
  made: number;
  /** How many were refused in all. */
  refused: number;
  /** Of those refused, how many by the caller's quota. */
  over_quota: number;
  /** In all, to the vessel. */
  bytes_in: number;
  /** And from it. */
  bytes_out: number;
  /** False: the gate did not say. */
  whole: boolean;
}

export interface Notice {
  event: "notice";
  /** What the caller should know, and no error. */
  message: string;
}

export interface Output {
  event: "stdout" | "stderr";
  /** Where in its stream this begins; of a session's programs only. */
  offset?: number;
  /** What was written, if it is text. */
  data?: string;
  /** What was written, if it is none. */
  base64?: string;
}

export interface PauseBody {
  /** auto: any use wakes it; else uses are refused until it is resumed. */
  resume?: "auto" | "manual";
  /** What it has in memory and can be read again is given back. */
  reclaim?: boolean;
  /** It ends once it was paused for so long; else after 24 hours. */
  most?: Duration;
}

export interface Plan {
  /** The run's id. */
  id: string | null;
  /** Who makes the vessel. */
  driver: string;
  /** The code's language. */
  language: string | null;
  /** The compiler and its arguments; empty: none. */
  compile: string[];
  /** The program and its arguments. */
  argv: string[];
  /** Its environment: NAME=VALUE. */
  env: string[];
  /** The working directory. */
  workdir: string | null;
  /** Where it starts. */
  cwd: string | null;
  /** Of the code, where it is given by itself. */
  code: BytesOf | null;
  /** Files that are put in. */
  files: PlanFile[];
  /** Files that are brought back. */
  outputs: string[];
  /** Where artifacts are looked for. */
  artifacts: string | null;
  /** Of the standard input. */
  stdin: PlanStdin;
  /** Each limit, in milliseconds, bytes, thousandths or pieces; null: none. */
  limits: Record<string, number | null>;
  /** What it can reach. */
  network: "none" | "bridge" | "gate";
  /** The names, with network gate. */
  gate?: PlanGate;
  /** Which part of a long stream is kept. */
  output_keep: "head" | "tail" | "both";
  /** What stands where output was left out. */
  output_note?: string;
  /** What is shown of the host. */
  mounts: PlanMount[];
  /** The container image. */
  image: string | null;
  /** The image's ENTRYPOINT begins argv; the word {image} stands for its CMD. */
  entrypoint?: "image";
  /** The whole root can be written to. */
  root_mode?: "rw";
  /** Programs are root inside. */
  user?: "root";
  /** Programs can become root inside. */
  sudo?: "nopasswd";
  /** The directory that is its root. */
  rootfs: string | null;
  /** The profile's name. */
  seccomp: string | null;
  /** A profile of the administrator's own. */
  seccomp_file?: PlanProfile;
  /** What the profile allows and refuses; of native vessels. */
  seccomp_profile?: Record<string, unknown>;
  /** Refused system calls are counted. */
  denials?: "count";
  /** Programs have the same addresses in every run. */
  addresses?: "fixed";
  /** How long programs have to end by themselves. */
  stop_ms?: number;
  /** The vessel's host name. */
  hostname: string | null;
  /** What the vessel must have. */
  require: string[];
  /** Limits that end the run. */
  end_on: string[];
  /** A label that groups runs. */
  session: string | null;
  /** A label of this run. */
  task: string | null;
  /** What an engine is asked for, where there is one. */
  container: PlanContainer | null;
}

export interface PlanCache {
  /** The engine's name of it. */
  volume: string;
  /** Where it lies inside. */
  target: string;
}

export interface PlanContainer {
  /** Who the program is: uid:gid. */
  user?: string;
  /** Programs have a ulimit of processes. */
  nproc?: "pids";
  /** How names begin. */
  prefix: string | null;
  /** The container runtime. */
  runtime: string | null;
  /** The network to join. */
  network_name: string | null;
  /** Name servers. */
  dns: string[];
  /** Ports of the host. */
  ports: PlanPort[];
  /** Volumes that stay. */
  caches: PlanCache[];
  /** How long each step of opening may take. */
  open_ms: number;
  /** How often the engine is asked again. */
  retries: number;
  /** How long to wait before that. */
  retry_ms: number;
  /** How many of the same prefix may be open. */
  containers?: number;
  /** How many may be open at all. */
  all_containers?: number;
  /** How long connecting may take. */
  network_timeout_ms?: number;
  /** When the image is pulled. */
  pull: "missing" | "always" | "never";
  /** How long that may take. */
  pull_ms: number;
}

export interface PlanFile {
  /** How many. */
  bytes: number;
  /** A checksum. */
  fnv1a64: string;
  /** Where it lies, below the working directory. */
  path: string;
  /** Its mode, in octal. */
  mode: string;
}

export interface PlanGate {
  /** What it can reach: NAME or NAME:PORT. */
  allow: string[];
  /** And of that, what not. */
  deny: string[];
}

export interface PlanMount {
  /** What is shown of the host: a path, or a volume's name. */
  source: string;
  /** Where it lies inside. */
  target: string;
  /** How. */
  mode: "ro" | "rw" | "overlay";
  /** What it is. */
  kind: "file" | "directory" | "volume";
  /** What is not shown of it. */
  hidden?: string[];
}

export interface PlanPort {
  /** The host's address. */
  address: string;
  /** The host's port. */
  host: number;
  /** The program's port. */
  inside: number;
  protocol: "tcp" | "udp";
}

export interface PlanProfile {
  /** The profile's file. */
  path: string;
  /** Of its bytes. */
  sha256: string;
  /** How many rules it has. */
  rules: number;
}

export interface PlanStdin {
  /** How many. */
  bytes: number;
  /** A checksum. */
  fnv1a64: string;
  /** Whether more may come. */
  live: boolean;
}

export interface Pool {
  /** Each kind of vessel that waits. */
  shapes: Stock[];
  /** What all that wait take of memory. */
  idle_bytes?: number;
  /** What they may take. */
  memory_bytes?: number;
  /** Open descriptors of the daemon. */
  descriptors?: number;
  /** How many it may have. */
  descriptors_limit?: number;
  /** Runs for which nothing can wait. */
  unfit?: number;
}

export interface Port {
  /** The port inside. */
  port: number;
  /** What is asked for below it goes to the server that listens there. */
  path: string;
  /** Good for this port alone, as long as the session is open: in the header X-Vial-Port-Token, or the parameter vial_token. */
  token: string;
}

export interface Progress {
  event: "progress";
  /** A part of the image that is pulled. */
  layer: string;
  /** What is done with it, in the engine's words. */
  status: string;
  /** Bytes that are there. */
  current: number;
  /** Bytes that it has; 0: not known. */
  total: number;
}

export interface PruneBody {
  /** All that no container uses, not only those without a name. */
  all?: boolean;
}

export interface Pruned {
  /** How many were removed. */
  removed: number;
  /** How much that freed. */
  freed_bytes: number | null;
}

export interface PullBody {
  /** The image, with its tag or digest. */
  name: string;
  /** How long it may take; else as long as pull_timeout says. */
  timeout?: Duration;
}

export interface PullError {
  event: "error";
  /** Why there is none. */
  error: ErrorInfo;
  /** What the preset calls this error. */
  preset_code?: string;
}

export interface PullImage {
  event: "image";
  /** The image that was pulled. */
  image: Image;
}

export interface Ready {
  /** All that strangers learn. */
  status: "ready" | "not ready" | "draining";
  /** Who makes vessels when nobody is asked for. */
  engine?: Automatic | null;
  /** Who makes them by these settings. */
  needed?: Needed;
  /** Each driver. */
  drivers?: ReadyDriver[];
  /** How much goes on here, and how much may. */
  capacity?: ReadyCapacity;
  /** The process that opens vessels; null: it does not answer. */
  keeper?: ReadyKeeper | null;
  /** The daemon that has the sessions, if it is another one; status says nothing of it. */
  sessions?: ReadySessions;
}

export interface ReadyCapacity {
  /** What ids of this daemon have in them; or nothing. */
  node: string;
  /** Runs that go on. */
  running: number;
  /** How many may. */
  most: number;
  /** Runs that wait for their turn. */
  waiting: number;
  /** How many may. */
  queue: number;
  /** Sessions that are open. */
  sessions: number;
  /** How many may be. */
  sessions_most: number;
}

export interface ReadyDriver {
  /** Who makes vessels. */
  name: string;
  /** Whether it can now. */
  ready: boolean;
  /** Of its engine. */
  version: string | null;
  /** Why it cannot. */
  error: ErrorInfo | null;
}

export interface ReadyKeeper {
  /** Its process. */
  pid: number;
  /** How many it holds. */
  vessels: number;
  /** How often it had to be started anew. */
  restarts: number;
}

export interface ReadySessions {
  /** Its socket. */
  at: string;
  /** Whether somebody listens there. */
  answers: boolean;
}

export interface Recent {
  /** How long a slot is. */
  slot_ms: number;
  /** How many runs ended in each slot, oldest first. */
  ended: number[];
  /** How long they took, with those of the half minute before where fewer than 40 ended; null: not known. */
  median_ms: (number | null)[];
  /** The 95th percentile. */
  p95_ms: (number | null)[];
  /** Of all slots together. */
  all: RecentAll;
  /** Runs that belong together, the caller's own; for administrators all. */
  batches: RecentBatch[];
}

export interface RecentAll {
  /** How many runs ended. */
  ended: number;
  /** How long they took; null: none did. */
  median_ms: number | null;
  /** The 95th percentile. */
  p95_ms: number | null;
}

export interface RecentBatch {
  /** What its runs were called. */
  name: string;
  /** Whose it is. */
  caller: string;
  /** How many ended so far. */
  runs: number;
  /** How many of them with each verdict. */
  verdicts: Record<string, number>;
  /** How many end a second, of late. */
  per_second: number;
  /** From its first run's end to its last. */
  seconds: number;
  /** One ended in the last ten seconds. */
  active: boolean;
}

export interface Refusal {
  /** Why nothing was done. */
  error: ErrorInfo;
}

export interface RenewBody {
  /** How long it lives from now on; else as long as at first. */
  lease?: Duration;
}

export interface RequestFilesItem {
  path: string;
  content?: string;
  content_base64?: string;
  mode?: string;
}

export interface RequestMountsItem {
  source: string;
  target: string;
  mode?: "ro" | "rw";
}

export interface Request {
  /** Language of the code: a name or alias from the language table. */
  language?: string;
  /** The program's text. */
  code?: string;
  /** A program and its arguments, run instead of code. */
  command?: string[];
  /** Arguments for the code, as sys.argv[1:] or "$@". */
  args?: string[];
  /** What the program reads from its standard input. */
  stdin?: string;
  /** A file to put into the working directory before the run. */
  files?: RequestFilesItem[];
  /** A file to bring back from the working directory after the run. */
  outputs?: string[];
  /** List new and changed files below this directory after the run; images and small tables (CSV) come with their content. */
  artifacts?: string;
  /** An environment variable for the program. */
  env?: Record<string, string>;
  /** Directory to start in, absolute or below the working directory. */
  cwd?: string;
  /** Wall-clock limit; the whole process tree dies when it is over. */
  timeout?: Duration;
  /** Wall-clock limit of the compile step, for languages that have one. */
  compile_timeout?: Duration;
  /** Limit on cpu time used by all processes together. */
  cpu_time?: Duration;
  /** Memory limit of the vessel; swap is off. */
  memory?: Size;
  /** How many cpu cores the vessel may keep busy. */
  cpus?: Duration;
  /** How many processes and threads may exist at once. */
  pids?: number;
  /** Size of the working directory. */
  disk?: Size;
  /** Size of /tmp, and of /dev/shm. */
  tmp?: Size;
  /** How many files the working directory and /tmp may hold, each. */
  inodes?: number;
  /** How many files a process may have open. */
  open_files?: number;
  /** Size of the largest file a process may write. */
  file_size?: Size;
  /** How much of stdout and of stderr is kept; more is counted and marked truncated. */
  output_limit?: Size;
  /** Which part is kept of a stream that is longer. */
  output_keep?: "head" | "tail" | "both";
  /** What stands where output was left out; {limit} is how much was kept, {left} how much was not. */
  output_note?: string;
  /** Ends the run with verdict output_limit once it has printed more than this. */
  output_max?: Size;
  /** What the program can reach: none (its own loopback only), bridge, or gate (names of allow alone, each connection judged and counted). */
  network?: "none" | "bridge" | "gate";
  /** A name that the program can reach through its gate, on ports 80 and 443 unless it says which; *.NAME for all below it; ADDRESS/BITS[:PORT]; or a list: python-packages, npm, debian, github. */
  allow?: string[];
  /** A name, or a range of addresses, that it cannot reach, though allow has it; on all ports unless it says which. */
  deny?: string[];
  /** A secret that the program uses through its gate and never sees: the name of one in the settings' block secrets; or NAME=env:VARIABLE@HOST,… (file:/PATH). The program finds a placeholder in the variable NAME; in headers to HOST it becomes the value. */
  secrets?: string[];
  /** How many connections may be made through the gate in all, by a run or a session; what is tried beyond them is cut off. */
  network_connections?: number;
  /** How many connections may be made through the gate in a minute. */
  network_rate?: number;
  /** How many bytes may come in through the gate in all, by a run or a session; with more, all its connections are cut off. */
  network_in?: Size;
  /** How many bytes may go out through the gate in all. */
  network_out?: Size;
  /** The container network to join instead of the engine's own; what else is on it can be reached. */
  network_name?: string;
  /** A name server for the program, where it has a network. */
  dns?: string[];
  /** How long the kernel tries to connect, or to get data through, and the resolver to find a name, where the program has a network; at least 3s. Silence of a peer that answers is bounded by timeout alone. */
  network_timeout?: Duration;
  /** A port of this host that leads to one of the program's, by its gate or a container's network; on 127.0.0.1 unless an address is given. */
  ports?: string[];
  /** A host file or directory to show inside, read-only unless rw. */
  mounts?: (string | RequestMountsItem)[];
  /** Where mount sources lie, if the policy names no roots: anywhere that is allowed, or below the workspace. A request can narrow what settings say, not widen it. */
  mounts_from?: "anywhere" | "workspace";
  /** A volume of this host's (vial volume create) to show inside, read-only unless rw; one vessel at a time may write to it, unless it was made for many. */
  volumes?: string[];
  /** A volume that outlives the vessel, writable at DIR (/cache/NAME): what one run leaves there, later ones find. */
  caches?: string[];
  /** Where the vessel's own working directory lies, if no workspace lies there. */
  workdir?: "/work" | "/workspace" | "/home/user";
  /** A host directory at /workspace, where the program starts. */
  workspace?: string;
  /** Where the workspace lies inside. */
  workspace_at?: string;
  /** How the workspace is mounted; overlay keeps what programs write in a layer above it. */
  workspace_mode?: "rw" | "ro" | "overlay";
  /** Who makes the vessel; auto takes the strongest and never process. */
  driver?: "auto" | "native" | "docker" | "kubernetes" | "e2b" | "process";
  /** The container image that is the vessel's root. */
  image?: string;
  /** Whether the image's ENTRYPOINT begins the command, and its CMD stands for one that is not given (image), as container engines have it. */
  entrypoint?: "none" | "image";
  /** When the image is pulled: missing (it is not here), always (the registry is asked each time) or never (only what is here is used). */
  pull?: "missing" | "always" | "never";
  /** How long pulling an image may take, all tries together. */
  pull_timeout?: Duration;
  /** The container runtime, as the engine calls it: runc, runsc, kata. */
  runtime?: string;
  /** A directory to use as the vessel's root instead of the host's system directories. */
  rootfs?: string;
  /** Whether programs may write to the whole root of an image (rw), in a layer of the vessel's own that disk bounds, or only to their own directories. */
  root_mode?: "ro" | "rw";
  /** Whether programs may become root inside, by sudo and other setuid programs of the image, without a password; with root_mode rw. It costs the layers no_new_privs and caps. */
  sudo?: "none" | "nopasswd";
  /** A Python environment of the host's to run with: a virtual one, or one of pyenv's; shown read-only. Else the active one (VIRTUAL_ENV), or /usr's Python; none: that. */
  venv?: string;
  /** Name of the seccomp profile. */
  seccomp?: string;
  /** Whether system calls that the seccomp profile refuses are counted and named in the result. */
  denials?: "none" | "count";
  /** Where the kernel puts a program's code, stack and heap: anywhere, or at the same addresses in every run (fixed), so that what it prints of them is the same. It makes faults of the program easier to use against the program itself; the vessel's walls are the same. */
  addresses?: "random" | "fixed";
  /** Refuse unless the vessel has this: a level (namespaces), a layer (landlock, seccomp), or limits=cgroup. */
  require?: string[];
  /** End the run when this limit is touched: pids or disk. */
  end_on?: ("pids" | "disk")[];
  /** Who the program is in a container: numbers, or nobody; never root, but with root_mode rw, where root is one and costs the layer caps. Usually who its image, a writable mount or a cache says, else a user of this container alone. */
  user?: string;
  /** Whether a container's programs have a ulimit of processes, as many as pids. They get a user namespace of their own for it, in which nobody else is counted; where that cannot be had, pids alone limits them. */
  nproc?: "none" | "pids";
  /** How long a container engine may take over each step of making a vessel. */
  open_timeout?: Duration;
  /** How often an engine, or a registry through it, is asked again after a failure that may pass. */
  retries?: number;
  /** How long to wait before asking again, and ten times that before asking a registry; doubled each time. */
  retry_wait?: Duration;
  /** How long a session's programs have to end by themselves after SIGTERM, once the session is closed; then they are killed. */
  stop_grace?: Duration;
  /** How many containers with the same prefix may be open on the engine at once, whoever asked for them; past that a run waits, for as long as open_timeout. */
  containers?: number;
  /** A label that groups runs. */
  session?: string;
  /** A label for this run. */
  task?: string;
  /** How the names of containers and cache volumes begin, and the keys of their labels. */
  prefix?: string;
}

export interface ResizeBody {
  /** From 1 to 10000. */
  rows: number;
  /** From 1 to 10000. */
  columns: number;
}

export interface ResultTiming {
  queue_ms: number;
  open_ms: number;
  run_ms: number;
  close_ms: number;
}

export interface ResultUsage {
  cpu_user_ms: number;
  cpu_system_ms: number;
  memory_peak_bytes: number;
  pids_peak: number;
  throttled_ms: number;
  read_bytes: number;
  write_bytes: number;
  net_rx_bytes: number;
  net_tx_bytes: number;
  disk_peak_bytes: number;
}

export interface ResultNetwork {
  connections: Connection[];
  left_out: number;
  made: number;
  refused: number;
  bytes_in: number;
  bytes_out: number;
  whole: boolean;
  over_quota: number;
}

export interface ResultIsolation {
  level: "none" | "remote" | "landlock" | "namespaces" | "container";
  layers: string[];
  limits_by: "none" | "rlimit" | "cgroup" | "cgroup1" | "cgroup2";
}

export interface ResultFilesItem {
  path: string;
  bytes: number | null;
  content: string | null;
  content_base64?: string;
  error: ErrorInfo | null;
}

export interface ResultArtifactsItem {
  path: string;
  type: string;
  bytes: number;
  sha256: string | null;
  content_base64?: string;
}

export interface Result {
  id: string;
  correlation?: string;
  verdict: "ok" | "nonzero" | "signal" | "timeout" | "cpu_timeout" | "oom" | "disk" | "pids" | "output_limit" | "denied" | "cancelled" | "failed";
  stage: "compile" | "run";
  exit_code: number | null;
  signal: string | null;
  stdout: string;
  stderr: string;
  stdout_bytes: number;
  stderr_bytes: number;
  stdout_truncated: boolean;
  stderr_truncated: boolean;
  stdout_base64?: string;
  stderr_base64?: string;
  duration_ms: number;
  timing: ResultTiming;
  usage: ResultUsage;
  limits_hit: ("memory" | "pids" | "cpu" | "disk" | "fsize" | "output" | "time" | "network")[];
  network_refused?: number;
  network?: ResultNetwork;
  denied_calls?: Record<string, unknown>;
  driver: string | null;
  vessel_id: string | null;
  container_id: string | null;
  name: string | null;
  image: string | null;
  image_digest?: string;
  image_owners?: "image" | "one" | "nobody";
  start: string | null;
  isolation: ResultIsolation;
  files: ResultFilesItem[];
  artifacts: ResultArtifactsItem[];
  artifacts_truncated: boolean;
  error: ErrorInfo | null;
  preset_code?: string;
  wanted_driver?: string;
}

export interface ResultBrief {
  id: string;
  correlation?: string;
  verdict: "ok" | "nonzero" | "signal" | "timeout" | "cpu_timeout" | "oom" | "disk" | "pids" | "output_limit" | "denied" | "cancelled" | "failed";
  stage: "compile" | "run";
  exit_code: number | null;
  signal: string | null;
  stdout_bytes: number;
  stderr_bytes: number;
  stdout_truncated: boolean;
  stderr_truncated: boolean;
  duration_ms: number;
  timing: ResultTiming;
  usage: ResultUsage;
  limits_hit: ("memory" | "pids" | "cpu" | "disk" | "fsize" | "output" | "time" | "network")[];
  network_refused?: number;
  network?: ResultNetwork;
  denied_calls?: Record<string, unknown>;
  driver: string | null;
  vessel_id: string | null;
  container_id: string | null;
  name: string | null;
  image: string | null;
  image_digest?: string;
  image_owners?: "image" | "one" | "nobody";
  start: string | null;
  isolation: ResultIsolation;
  artifacts: ResultArtifactsItem[];
  artifacts_truncated: boolean;
  error: ErrorInfo | null;
  preset_code?: string;
  wanted_driver?: string;
}

export interface Run {
  /** The request's id. */
  request: string;
  /** The run's id, once it has ended. */
  id: string | null;
  /** Who asked for it. */
  caller: string;
  /** Its language or command. */
  what: string;
  /** When: milliseconds since 1970. */
  started_ms: number;
  /** Whether it goes on. */
  state: "running" | "ended";
  /** As in a result; null while it runs. */
  verdict: string | null;
  /** As in a result. */
  exit_code: number | null;
  /** As in a result; null while it runs. */
  duration_ms: number | null;
}

export interface RunDetails {
  /** The request's id. */
  request: string;
  /** The run's id, once it has ended. */
  id: string | null;
  /** Who asked for it. */
  caller: string;
  /** Its language or command. */
  what: string;
  /** When: milliseconds since 1970. */
  started_ms: number;
  /** Whether it goes on. */
  state: "running" | "ended";
  /** As in a result; null while it runs. */
  verdict: string | null;
  /** As in a result. */
  exit_code: number | null;
  /** As in a result; null while it runs. */
  duration_ms: number | null;
  /** The begin of it, as much as is kept. */
  stdout: string;
  /** The begin of it, as much as is kept. */
  stderr: string;
  /** The program, and what else the request said: no input, files or variables. */
  asked: Record<string, unknown> | null;
  /** The result without output and files; null while it runs. */
  result: ResultBrief | null;
}

export interface RunError {
  event: "error";
  /** Why it was not run. */
  error: ErrorInfo;
  /** Try again after so many seconds; 0: that does not help. */
  retry_after: number;
}

export interface RunResult {
  event: "result";
  /** How it ended. */
  result: Result;
}

export interface RunStart {
  event: "start";
  /** The request's id: the client's X-Request-Id, or one of ours. */
  request: string;
}

export interface Schema {
}

export interface SessionInfo {
  /** The session's id. */
  id: string;
  /** open, or how it ended. */
  outcome: string;
  /** Whether it is frozen. */
  paused: boolean;
  /** Who made its vessel. */
  driver: string;
  /** How it is isolated. */
  level: string;
  /** How many programs were started in it. */
  execs: number;
  /** How long it has been open. */
  duration_ms: number;
  /** The vessel's id. */
  vessel_id: string;
  /** What enforces its limits. */
  limits_by: string;
  /** What it has used. */
  usage: SessionUsage;
  /** Why it ended, if that was an error. */
  error: ErrorInfo | null;
}

export interface SessionBody {
  /** The session ends when it was not used for so long. */
  idle?: Duration;
  /** The session ends after so long, unless it is renewed. */
  lease?: Duration;
}

export interface SessionRow {
  /** The session's id. */
  id: string;
  /** open, or how it ended. */
  outcome: string;
  /** Whether it is frozen. */
  paused: boolean;
  /** Who made its vessel. */
  driver: string;
  /** How it is isolated. */
  level: string;
  /** How many programs were started in it. */
  execs: number;
  /** How long it has been open. */
  age_ms: number;
}

export interface SessionUsage {
  /** Cpu time of its programs. */
  cpu_user_ms: number;
  /** Cpu time of the kernel for them. */
  cpu_system_ms: number;
  /** The most memory that was used. */
  memory_peak_bytes: number;
  /** The most processes there were. */
  pids_peak: number;
}

export interface Setting {
  /** What holds; null: nothing. */
  value: unknown;
  /** Where that was said. */
  from: string | null;
}

export interface SignalBody {
  /** Its name, as TERM or SIGTERM; or give number. */
  signal?: string;
  /** Its number, from 1 to 64. */
  number?: number;
  /** To all that the program started, too. */
  tree?: boolean;
}

export interface Snapshot {
  /** What a request names it by; nobody else can guess it. */
  image: string;
  /** Of its manifest. */
  digest: string;
  /** Of its config. */
  id: string;
  /** In bytes, with the image that it stands on. */
  size: number;
  /** Whether nothing ran while its files were read; else each file is as it was at its own moment. */
  frozen: boolean;
}

export interface SnapshotBody {
  /** A word of the caller's, which the image's name has in it. */
  name: string;
}

export interface Stock {
  /** Who makes them. */
  driver: string;
  /** For which language. */
  language: string | null;
  /** Of which image. */
  image: string | null;
  /** Their memory limit. */
  memory_bytes: number;
  /** Their limit of processes. */
  pids: number;
  /** An interpreter is forked into them. */
  hatches: boolean;
  /** An interpreter is started in them. */
  prestarts: boolean;
  /** Its parent lives. */
  zygote: boolean;
  /** They are one caller's. */
  claimed: boolean;
  /** How many shall wait. */
  wanted: number;
  /** How many wait. */
  idle: number;
  /** How many were used. */
  taken: number;
  /** How often there was none. */
  missed: number;
  /** How many died while they waited. */
  lost: number;
  /** How many were made. */
  refills: number;
  /** How often that failed. */
  failures: number;
  /** How long making one takes. */
  refill_ms: number;
  /** What one that waits takes of memory. */
  pss_bytes: number;
  /** How many parents there were. */
  zygotes: number;
  /** Why the last one could not be made. */
  error: string | null;
  /** What is missing for more. */
  lacks: string | null;
}

export interface Taken {
  /** How many bytes the program was given. */
  taken: number;
}

export interface Version {
  /** Of vial. */
  version: string;
  /** Who asks. */
  caller: string;
  /** What that caller may do. */
  scopes: string[];
  /** The preset in force. */
  preset: string | null;
}

export interface Vessel {
  /** Who made it. */
  driver: string;
  /** What it does. */
  state: string | null;
  /** Its owner is dead. */
  orphan: boolean;
  /** Its name. */
  name?: string | null;
  /** Of its first process; of a native one. */
  pid?: number;
  /** The pid of its owner; of a native one. */
  owner?: number;
  /** The engine's id; of a container. */
  id?: string | null;
  /** The vessel's id; of a container. */
  vessel?: string | null;
  /** The request's label. */
  session?: string | null;
  /** The request's label. */
  task?: string | null;
  /** What it was made of. */
  image?: string | null;
  /** When: seconds since 1970. */
  created?: number | null;
  /** Ports of the host that lead into it. */
  ports?: string[];
}

export interface Volume {
  /** What a request names it by. */
  name: string;
  /** How many vessels may write to it at once. */
  writers: "one" | "many";
  /** Whether a vessel has it, and whether one may write to it now; broken: a part of it is lost, and no vessel can have it. */
  state: "free" | "read" | "written" | "broken";
  /** How many bytes it holds, its file system's own among them; null: as many as the file system of the store. */
  size: number | null;
  /** When it was made, in seconds since 1970. */
  created: number;
  /** When a vessel last had it: the end of its use (if its owner was killed: the beginning); or when it was made, likewise. */
  used: number;
}

export interface VolumeBody {
  /** One or two parts with '/' between them; a token's own begin with its name. */
  name: string;
  /** How many vessels may write to it at once; else one. */
  writers?: "one" | "many";
  /** How many bytes it holds, its file system's own among them, from 16m on; else what the settings say. So much is taken from the host's disk at once. */
  size?: Size;
}

export interface WatchError {
  event: "error";
  /** Why nothing more is told. */
  error: ErrorInfo;
}

export interface WatchStart {
  event: "start";
  /** What is watched; from now on nothing is missed. */
  path: string;
}

/** What each is called in the OpenAPI document: method, path, query. */
export const operations = {
  run_code: ["POST", "/v1/run", ["stream", "raw", "batch"]],
  batch_run: ["POST", "/v1/batch", ["stream", "batch"]],
  info_plan: ["POST", "/v1/plan", []],
  runs_list: ["GET", "/v1/runs", ["limit", "all"]],
  runs_get: ["GET", "/v1/runs/{id}", ["caller"]],
  runs_cancel: ["DELETE", "/v1/runs/{id}", ["caller"]],
  sessions_start: ["POST", "/v1/sessions", []],
  sessions_list: ["GET", "/v1/sessions", ["all"]],
  sessions_get: ["GET", "/v1/sessions/{id}", []],
  sessions_stop: ["DELETE", "/v1/sessions/{id}", []],
  sessions_renew: ["POST", "/v1/sessions/{id}/renew", []],
  sessions_allow: ["PUT", "/v1/sessions/{id}/allow", []],
  sessions_pause: ["POST", "/v1/sessions/{id}/pause", []],
  sessions_resume: ["POST", "/v1/sessions/{id}/resume", []],
  sessions_snapshot: ["POST", "/v1/sessions/{id}/snapshot", []],
  sessions_fork: ["POST", "/v1/sessions/{id}/fork", []],
  snapshots_remove: ["DELETE", "/v1/snapshots/{path}", []],
  execs_start: ["POST", "/v1/sessions/{id}/exec", ["wait", "stream"]],
  execs_list: ["GET", "/v1/sessions/{id}/exec", []],
  execs_get: ["GET", "/v1/sessions/{id}/exec/{name}", ["wait"]],
  execs_attach: ["GET", "/v1/sessions/{id}/exec/{name}/attach", ["stdout", "stderr", "stream"]],
  execs_output: ["GET", "/v1/sessions/{id}/exec/{name}/output", ["of", "offset", "follow"]],
  execs_stdin: ["POST", "/v1/sessions/{id}/exec/{name}/stdin", ["close"]],
  execs_signal: ["POST", "/v1/sessions/{id}/exec/{name}/signal", []],
  execs_resize: ["POST", "/v1/sessions/{id}/exec/{name}/resize", []],
  files_get: ["GET", "/v1/sessions/{id}/files/{path}", ["offset", "length"]],
  files_put: ["PUT", "/v1/sessions/{id}/files/{path}", ["mode"]],
  files_remove: ["DELETE", "/v1/sessions/{id}/files/{path}", ["deep"]],
  files_list: ["GET", "/v1/sessions/{id}/list", ["path", "deep"]],
  files_stat: ["GET", "/v1/sessions/{id}/stat", ["path"]],
  files_watch: ["GET", "/v1/sessions/{id}/watch", ["path", "deep", "attributes", "stream"]],
  files_mkdir: ["POST", "/v1/sessions/{id}/mkdir", []],
  files_move: ["POST", "/v1/sessions/{id}/move", []],
  files_pack: ["GET", "/v1/sessions/{id}/tar", ["path"]],
  files_unpack: ["PUT", "/v1/sessions/{id}/tar", ["path"]],
  workspaces_diff: ["GET", "/v1/sessions/{id}/workspace", ["names", "format", "path"]],
  workspaces_commit: ["POST", "/v1/sessions/{id}/workspace/commit", []],
  workspaces_discard: ["POST", "/v1/sessions/{id}/workspace/discard", []],
  workspaces_checkpoints: ["GET", "/v1/sessions/{id}/workspace/checkpoints", []],
  workspaces_checkpoint: ["POST", "/v1/sessions/{id}/workspace/checkpoints/{name}", []],
  workspaces_rollback: ["POST", "/v1/sessions/{id}/workspace/rollback/{name}", []],
  contexts_open: ["POST", "/v1/sessions/{id}/contexts", []],
  contexts_run: ["POST", "/v1/sessions/{id}/contexts/{name}/run", []],
  contexts_interrupt: ["POST", "/v1/sessions/{id}/contexts/{name}/interrupt", []],
  contexts_restart: ["POST", "/v1/sessions/{id}/contexts/{name}/restart", []],
  ports_get: ["GET", "/v1/sessions/{id}/ports/{name}", []],
  info_languages: ["GET", "/v1/languages", []],
  info_doctor: ["GET", "/v1/doctor", []],
  info_config: ["GET", "/v1/config", []],
  info_vessels: ["GET", "/v1/vessels", []],
  info_version: ["GET", "/v1/version", []],
  info_schema: ["GET", "/v1/schema/{id}", []],
  openapi_get: ["GET", "/v1/openapi.json", []],
  images_list: ["GET", "/v1/images", []],
  images_pull: ["POST", "/v1/images/pull", ["stream"]],
  images_prune: ["POST", "/v1/images/prune", []],
  volumes_list: ["GET", "/v1/volumes", []],
  volumes_create: ["POST", "/v1/volumes", []],
  volumes_get: ["GET", "/v1/volumes/{path}", []],
  volumes_remove: ["DELETE", "/v1/volumes/{path}", []],
  page_recent: ["GET", "/v1/recent", []],
  page_pool: ["GET", "/v1/pool", []],
  info_metrics: ["GET", "/metrics", []],
  info_health: ["GET", "/healthz", []],
  info_ready: ["GET", "/readyz", []],
} as const satisfies Record<string, readonly [string, string, readonly string[]]>;
export type Operation = keyof typeof operations;
