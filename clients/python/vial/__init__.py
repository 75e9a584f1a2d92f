# SPDX-License-Identifier: Apache-2.0
"""A client for vial's daemon, which runs code that nobody trusts. Nothing but the standard
library, Python 3.9 and later.

    import vial

    with vial.Client() as client:                      # the daemon's usual socket
        result = client.run("python", "print(6 * 7)", timeout="5s")
        print(result.verdict, result.stdout)           # ok 42

        with client.session() as session:
            session.write("data.csv", b"1,2\\n")
            cells = session.context("python")
            cells.run("rows = open('data.csv').readlines()")
            print(cells.run("len(rows)").value["text/plain"])

AsyncClient has the same methods, to be awaited. A program that fails is no exception: its
result has a verdict (`result.check()` makes one of it). VialError means that nothing was
run, and carries the error's code and remedy.

What connections lose is tried again where that is safe: a run has an Idempotency-Key and
so is run once, a program's output is read on from its offsets. A daemon that is busy is
waited for, as long as `patience` says.
"""
from __future__ import annotations

import asyncio
import base64
import json
import os
import random
import select
import socket
import ssl
import stat
import threading
import time
import urllib.parse
import uuid
from dataclasses import dataclass
from typing import (TYPE_CHECKING, Any, Awaitable, Callable, Coroutine, Dict,
                    Iterable, Iterator, List, Literal, Mapping, NamedTuple, Optional, Sequence,
                    Tuple, Type, TypedDict, TypeVar, Union, cast)

if TYPE_CHECKING:
    from typing_extensions import Unpack

__version__ = "0.2.0"
__all__ = ["AsyncBatch", "AsyncClient", "AsyncContext", "AsyncEvents", "AsyncProgram",
           "AsyncSession", "Batch", "BatchItem", "Busy", "Client", "Conflict", "Context", "Event",
           "Events", "Lost", "NotFound", "Program", "Record", "Refused", "Request", "Result",
           "RunFailed", "Session", "Unauthorized", "VialError"]

_T = TypeVar("_T")
_CONNECT_S = 10.0
_HEAD_MOST = 1 << 16
_PIECE = 1 << 16
_IDLE_MOST = 64  # connections that are kept for the next call


# Errors.


class VialError(Exception):
    """What the daemon refused, or why it could not be asked. `code` is one of docs/errors.md;
    `remedy` says what can be done, if anything."""

    def __init__(self, code: str, message: str, cause: str = "", remedy: str = "",
                 status: int = 0, retry_after: float = 0,
                 result: Optional[Mapping[str, Any]] = None) -> None:
        super().__init__(code, message)
        self.code, self.message, self.cause, self.remedy = code, message, cause, remedy
        self.status = status  # of HTTP; 0: there was no answer
        self.retry_after = retry_after  # seconds; 0: not told
        self.result = result  # of a run that was refused with one

    def __str__(self) -> str:
        text = "%s: %s" % (self.code, self.message)
        if self.cause:
            text += ": " + self.cause
        return text + (" (%s)" % self.remedy if self.remedy else "")


class Refused(VialError):
    """The request itself is at fault."""


class Unauthorized(Refused):
    """The daemon does not know who asks, or does not allow it."""


class NotFound(Refused):
    """There is no such thing."""


class Conflict(Refused):
    """It is in another state than was thought."""


class Busy(VialError):
    """As many are under way as may be, for longer than the client's patience."""


class Lost(VialError):
    """The daemon cannot be reached, or hung up."""


class RunFailed(VialError):
    """A program did not end well: what `check()` makes of its verdict. `result` is there."""


def _denied(result: Result) -> Optional[VialError]:
    """Of a run that was refused: the same error as where that is an answer's status."""
    if result.verdict != "denied" or not result.error:
        return None
    return _error(400, result.error, 0, result)


def _error(status: int, error: Mapping[str, Any], retry_after: float = 0,
           result: Optional[Mapping[str, Any]] = None) -> VialError:
    kinds: Dict[int, Type[VialError]] = {401: Unauthorized, 403: Unauthorized, 404: NotFound,
                                         409: Conflict, 429: Busy, 503: Busy}
    kind = kinds.get(status, Refused if 400 <= status < 500 else VialError)
    return kind(str(error.get("code", "VIAL-HTTP")), str(error.get("message", "")),
                str(error.get("cause") or ""), str(error.get("remedy") or ""), status,
                retry_after, result)


# What the daemon says.


class Record(Dict[str, Any]):
    """An object of the daemon's: its members are attributes, and keys."""

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        if name in getattr(type(self), "__annotations__", {}):
            return None  # it may be left out
        raise AttributeError(name)


class _Outcome(Record):
    """How a program ended."""

    @property
    def ok(self) -> bool:
        return bool(self["verdict"] == "ok")

    def check(self: _O) -> _O:
        """Itself, or RunFailed unless the verdict is ok."""
        if self.ok:
            return self
        error = self.get("error") or {}
        said = "signal %s" % self["signal"] if self.get("signal") else (
            "exit code %s" % self["exit_code"] if self.get("exit_code") is not None else "")
        raise RunFailed(error.get("code") or str(self["verdict"]),
                        error.get("message") or "the program ended with verdict '%s'%s" % (
                            self["verdict"], ", " + said if said else ""),
                        error.get("cause") or "", error.get("remedy") or "", 200, 0, self)


_O = TypeVar("_O", bound=_Outcome)


class Event(Record):
    """What happens while something goes on. `event` is start, stdout, stderr, gap, notice,
    progress, result, image, error, exit or end; the other members depend on it."""
    event: str
    request: Optional[str]
    exec: Optional[int]
    offset: Optional[int]
    data: Optional[str]
    base64: Optional[str]
    stream: Optional[int]
    bytes: Optional[int]
    message: Optional[str]
    result: Optional[Result]
    image: Optional[Image]
    verdict: Optional[str]
    exit_code: Optional[int]

    @property
    def content(self) -> bytes_:
        """The bytes that were written, of stdout and stderr."""
        if "base64" in self:
            return base64.b64decode(self["base64"])
        return str(self.get("data") or "").encode("utf-8", "surrogatepass")


bytes_ = bytes  # an event has a member of that name


# --- made by tools/gen-clients; do not edit ---


Duration = Union[float, str]  # seconds, or text with a unit: "500ms", "2m"
Size = Union[int, str]  # bytes, or text with a unit: "64m"


AllowBody = TypedDict("AllowBody", {
    "allow": "List[str]",
})


class Automatic(Record):
    driver: Optional[str]
    error: Optional[ErrorInfo]


BatchBody = TypedDict("BatchBody", {
    "requests": "List[Request]",
    "request": "Request",
    "inputs": "List[Request]",
    "keep": "bool",
    "parallel": "int",
}, total=False)


class BatchEnd(Record):
    event: Literal["end"]
    count: int
    refused: int
    verdicts: Dict[str, int]


class BatchError(Record):
    event: Literal["error"]
    index: int
    error: ErrorInfo


class BatchResult(Record):
    event: Literal["result"]
    result: Result
    index: int


class BatchStart(Record):
    event: Literal["start"]
    request: str
    count: int
    compiled: bool


class BytesOf(Record):
    bytes: int
    fnv1a64: str


class Cell(Record):
    status: Literal["ok", "error", "interrupted", "timeout"]
    stdout: str
    stderr: str
    stdout_truncated: bool
    stderr_truncated: bool
    value: Optional[Dict[str, Any]]
    displays: List[Any]
    order: List[CellPiece]
    error: Optional[Dict[str, Any]]


CellBody = TypedDict("CellBody", {
    "code": "str",
    "timeout": "Duration",
}, total=False)


class CellPiece(Record):
    kind: Literal["stdout", "stderr", "display"]
    length: int


class Change(Record):
    path: Optional[str]
    kind: str
    type: Optional[str]
    mode: int
    size: int
    before: Optional[ChangeBefore]
    diff: Optional[str]
    conflict: bool
    obstacle: Optional[str]


class ChangeBefore(Record):
    type: Optional[str]
    mode: int
    size: int


CommitBody = TypedDict("CommitBody", {
    "paths": "List[str]",
    "links_out": "bool",
}, total=False)


class Committed(Record):
    added: int
    modified: int
    deleted: int


class Config(Record):
    share_dir: str
    preset: Optional[str]
    files: List[str]
    projects: List[Any]
    languages: List[str]
    keep: Keeping
    engine: Optional[str]
    defaults: Dict[str, Setting]
    policy: Dict[str, Setting]
    serve: Dict[str, Any]
    audit: Optional[Dict[str, Any]]
    cleanup: Dict[str, Any]
    journal: Dict[str, Any]
    images: Dict[str, Any]
    volumes: Dict[str, Any]
    kubernetes: Dict[str, Any]
    secrets: Dict[str, Any]


class Connection(Record):
    name: str
    port: int
    verdict: str
    bytes_in: int
    bytes_out: int
    ms: float
    times: Optional[int]
    incoming: Optional[bool]


class ContextInfo(Record):
    context: str


ContextBody = TypedDict("ContextBody", {
    "language": "str",
    "name": "str",
}, total=False)


class Doctor(Record):
    version: str
    share_dir: str
    guest: bool
    automatic: Automatic
    needed: Needed
    drivers: List[Driver]


class Driver(Record):
    name: str
    usable: bool
    automatic: bool
    version: Optional[str]
    level: str
    limits_by: str
    layers: List[Layer]
    error: Optional[ErrorInfo]


class Entry(Record):
    path: str
    type: Literal["file", "directory", "link", "other"]
    mode: str
    uid: int
    gid: int
    size: int
    holes: int
    mtime_ns: int
    target: Optional[str]
    media: Optional[str]


class ErrorInfo(Record):
    code: str
    message: str
    cause: str
    remedy: str


class ExecInfo(Record):
    exec: int
    pid: Optional[int]
    running: bool
    stdout_bytes: int
    stderr_bytes: int
    verdict: Optional[str]
    exit_code: Optional[int]
    signal: Optional[str]
    duration_ms: Optional[float]
    cpu_user_ms: Optional[float]
    cpu_system_ms: Optional[float]
    network_refused: Optional[int]
    network: Optional[Network]
    memory_peak_bytes: Optional[int]
    error: Optional[ErrorInfo]


ExecBody = TypedDict("ExecBody", {
    "argv": "List[str]",
    "shell": "str",
    "entrypoint": "bool",
    "env": "Dict[str, str]",
    "cwd": "str",
    "stdin": "str",
    "stdin_live": "bool",
    "timeout": "Duration",
    "rows": "int",
    "columns": "int",
}, total=False)


class ExecError(Record):
    event: Literal["error"]
    error: ErrorInfo


class ExecExit(_Outcome):
    exec: int
    pid: Optional[int]
    running: bool
    stdout_bytes: int
    stderr_bytes: int
    verdict: Optional[str]
    exit_code: Optional[int]
    signal: Optional[str]
    duration_ms: Optional[float]
    cpu_user_ms: Optional[float]
    cpu_system_ms: Optional[float]
    network_refused: Optional[int]
    network: Optional[Network]
    memory_peak_bytes: Optional[int]
    error: Optional[ErrorInfo]
    event: Literal["exit"]


class ExecStart(Record):
    event: Literal["start"]
    exec: int
    pid: Optional[int]


class ExecResult(_Outcome):
    exec: int
    pid: Optional[int]
    running: bool
    stdout_bytes: int
    stderr_bytes: int
    verdict: Optional[str]
    exit_code: Optional[int]
    signal: Optional[str]
    duration_ms: Optional[float]
    cpu_user_ms: Optional[float]
    cpu_system_ms: Optional[float]
    network_refused: Optional[int]
    network: Optional[Network]
    memory_peak_bytes: Optional[int]
    error: Optional[ErrorInfo]
    stdout: str
    stderr: str
    stdout_truncated: bool
    stderr_truncated: bool


class FileEvent(Record):
    event: Literal["created", "written", "removed", "moved", "attributes", "lost"]
    path: str
    # from: Optional[str]


class Gap(Record):
    event: Literal["gap"]
    stream: int
    bytes: int


class Health(Record):
    status: Literal["ok"]


class Image(Record):
    id: Optional[str]
    tags: Optional[List[str]]
    digests: Optional[List[str]]
    size: Optional[int]


class Keeping(Record):
    alive: bool
    executions: int
    idle: float


class Language(Record):
    name: str
    aliases: List[str]
    usable: bool
    program: str
    path: Optional[str]
    version: Optional[str]


class Layer(Record):
    name: str
    available: bool
    reason: str
    fix: str


MkdirBody = TypedDict("MkdirBody", {
    "path": "str",
})


MoveBody = TypedDict("MoveBody", {
    "from": "str",
    "to": "str",
})


class Needed(Record):
    driver: str
    fallback: Optional[str]
    takes: Optional[str]
    ready: bool


class Network(Record):
    connections: List[Connection]
    left_out: int
    made: int
    refused: int
    over_quota: int
    bytes_in: int
    bytes_out: int
    whole: bool


class Notice(Record):
    event: Literal["notice"]
    message: str


class Output(Record):
    event: Literal["stdout", "stderr"]
    offset: Optional[int]
    data: Optional[str]
    base64: Optional[str]


PauseBody = TypedDict("PauseBody", {
    "resume": 'Literal["auto", "manual"]',
    "reclaim": "bool",
    "most": "Duration",
}, total=False)


class Plan(Record):
    id: Optional[str]
    driver: str
    language: Optional[str]
    compile: List[str]
    argv: List[str]
    env: List[str]
    workdir: Optional[str]
    cwd: Optional[str]
    code: Optional[BytesOf]
    files: List[PlanFile]
    outputs: List[str]
    artifacts: Optional[str]
    stdin: PlanStdin
    limits: Dict[str, Optional[int]]
    network: Literal["none", "bridge", "gate"]
    gate: Optional[PlanGate]
    output_keep: Literal["head", "tail", "both"]
    output_note: Optional[str]
    mounts: List[PlanMount]
    image: Optional[str]
    entrypoint: Optional[Literal["image"]]
    root_mode: Optional[Literal["rw"]]
    user: Optional[Literal["root"]]
    sudo: Optional[Literal["nopasswd"]]
    rootfs: Optional[str]
    seccomp: Optional[str]
    seccomp_file: Optional[PlanProfile]
    seccomp_profile: Optional[Dict[str, Any]]
    denials: Optional[Literal["count"]]
    addresses: Optional[Literal["fixed"]]
    stop_ms: Optional[int]
    hostname: Optional[str]
    require: List[str]
    end_on: List[str]
    session: Optional[str]
    task: Optional[str]
    container: Optional[PlanContainer]


class PlanCache(Record):
    volume: str
    target: str


class PlanContainer(Record):
    user: Optional[str]
    nproc: Optional[Literal["pids"]]
    prefix: Optional[str]
    runtime: Optional[str]
    network_name: Optional[str]
    dns: List[str]
    ports: List[PlanPort]
    caches: List[PlanCache]
    open_ms: int
    retries: int
    retry_ms: int
    containers: Optional[int]
    all_containers: Optional[int]
    network_timeout_ms: Optional[int]
    pull: Literal["missing", "always", "never"]
    pull_ms: int


class PlanFile(Record):
    bytes: int
    fnv1a64: str
    path: str
    mode: str


class PlanGate(Record):
    allow: List[str]
    deny: List[str]


class PlanMount(Record):
    source: str
    target: str
    mode: Literal["ro", "rw", "overlay"]
    kind: Literal["file", "directory", "volume"]
    hidden: Optional[List[str]]


class PlanPort(Record):
    address: str
    host: int
    inside: int
    protocol: Literal["tcp", "udp"]


class PlanProfile(Record):
    path: str
    sha256: str
    rules: int


class PlanStdin(Record):
    bytes: int
    fnv1a64: str
    live: bool


class Pool(Record):
    shapes: List[Stock]
    idle_bytes: Optional[int]
    memory_bytes: Optional[int]
    descriptors: Optional[int]
    descriptors_limit: Optional[int]
    unfit: Optional[int]


class Port(Record):
    port: int
    path: str
    token: str


class Progress(Record):
    event: Literal["progress"]
    layer: str
    status: str
    current: int
    total: int


PruneBody = TypedDict("PruneBody", {
    "all": "bool",
}, total=False)


class Pruned(Record):
    removed: int
    freed_bytes: Optional[int]


PullBody = TypedDict("PullBody", {
    "name": "str",
    "timeout": "Duration",
}, total=False)


class PullError(Record):
    event: Literal["error"]
    error: ErrorInfo
    preset_code: Optional[str]


class PullImage(Record):
    event: Literal["image"]
    image: Image


class Ready(Record):
    status: Literal["ready", "not ready", "draining"]
    engine: Optional[Automatic]
    needed: Optional[Needed]
    drivers: Optional[List[ReadyDriver]]
    capacity: Optional[ReadyCapacity]
    keeper: Optional[ReadyKeeper]
    sessions: Optional[ReadySessions]


class ReadyCapacity(Record):
    node: str
    running: int
    most: int
    waiting: int
    queue: int
    sessions: int
    sessions_most: int


class ReadyDriver(Record):
    name: str
    ready: bool
    version: Optional[str]
    error: Optional[ErrorInfo]


class ReadyKeeper(Record):
    pid: int
    vessels: int
    restarts: int


class ReadySessions(Record):
    at: str
    answers: bool


class Recent(Record):
    slot_ms: int
    ended: List[int]
    median_ms: List[Optional[float]]
    p95_ms: List[Optional[float]]
    all: RecentAll
    batches: List[RecentBatch]


class RecentAll(Record):
    ended: int
    median_ms: Optional[float]
    p95_ms: Optional[float]


class RecentBatch(Record):
    name: str
    caller: str
    runs: int
    verdicts: Dict[str, int]
    per_second: float
    seconds: float
    active: bool


class Refusal(Record):
    error: ErrorInfo


RenewBody = TypedDict("RenewBody", {
    "lease": "Duration",
}, total=False)


RequestFilesItem = TypedDict("RequestFilesItem", {
    "path": "str",
    "content": "str",
    "content_base64": "str",
    "mode": "str",
}, total=False)


RequestMountsItem = TypedDict("RequestMountsItem", {
    "source": "str",
    "target": "str",
    "mode": 'Literal["ro", "rw"]',
}, total=False)


Request = TypedDict("Request", {
    "language": "str",
    "code": "str",
    "command": "List[str]",
    "args": "List[str]",
    "stdin": "str",
    "files": "List[RequestFilesItem]",
    "outputs": "List[str]",
    "artifacts": "str",
    "env": "Dict[str, str]",
    "cwd": "str",
    "timeout": "Duration",
    "compile_timeout": "Duration",
    "cpu_time": "Duration",
    "memory": "Size",
    "cpus": "Duration",
    "pids": "int",
    "disk": "Size",
    "tmp": "Size",
    "inodes": "int",
    "open_files": "int",
    "file_size": "Size",
    "output_limit": "Size",
    "output_keep": 'Literal["head", "tail", "both"]',
    "output_note": "str",
    "output_max": "Size",
    "network": 'Literal["none", "bridge", "gate"]',
    "allow": "List[str]",
    "deny": "List[str]",
    "secrets": "List[str]",
    "network_connections": "int",
    "network_rate": "int",
    "network_in": "Size",
    "network_out": "Size",
    "network_name": "str",
    "dns": "List[str]",
    "network_timeout": "Duration",
    "ports": "List[str]",
    "mounts": "List[Union[str, RequestMountsItem]]",
    "mounts_from": 'Literal["anywhere", "workspace"]',
    "volumes": "List[str]",
    "caches": "List[str]",
    "workdir": 'Literal["/work", "/workspace", "/home/user"]',
    "workspace": "str",
    "workspace_at": "str",
    "workspace_mode": 'Literal["rw", "ro", "overlay"]',
    "driver": 'Literal["auto", "native", "docker", "kubernetes", "e2b", "process"]',
    "image": "str",
    "entrypoint": 'Literal["none", "image"]',
    "pull": 'Literal["missing", "always", "never"]',
    "pull_timeout": "Duration",
    "runtime": "str",
    "rootfs": "str",
    "root_mode": 'Literal["ro", "rw"]',
    "sudo": 'Literal["none", "nopasswd"]',
    "venv": "str",
    "seccomp": "str",
    "denials": 'Literal["none", "count"]',
    "addresses": 'Literal["random", "fixed"]',
    "require": "List[str]",
    "end_on": 'List[Literal["pids", "disk"]]',
    "user": "str",
    "nproc": 'Literal["none", "pids"]',
    "open_timeout": "Duration",
    "retries": "int",
    "retry_wait": "Duration",
    "stop_grace": "Duration",
    "containers": "int",
    "session": "str",
    "task": "str",
    "prefix": "str",
}, total=False)


ResizeBody = TypedDict("ResizeBody", {
    "rows": "int",
    "columns": "int",
})


class ResultTiming(Record):
    queue_ms: float
    open_ms: float
    run_ms: float
    close_ms: float


class ResultUsage(Record):
    cpu_user_ms: float
    cpu_system_ms: float
    memory_peak_bytes: float
    pids_peak: float
    throttled_ms: float
    read_bytes: float
    write_bytes: float
    net_rx_bytes: float
    net_tx_bytes: float
    disk_peak_bytes: float


class ResultNetwork(Record):
    connections: List[Connection]
    left_out: int
    made: int
    refused: int
    bytes_in: int
    bytes_out: int
    whole: bool
    over_quota: int


class ResultIsolation(Record):
    level: Literal["none", "remote", "landlock", "namespaces", "container"]
    layers: List[str]
    limits_by: Literal["none", "rlimit", "cgroup", "cgroup1", "cgroup2"]


class ResultFilesItem(Record):
    path: str
    bytes: Optional[int]
    content: Optional[str]
    content_base64: Optional[str]
    error: Optional[ErrorInfo]


class ResultArtifactsItem(Record):
    path: str
    type: str
    bytes: int
    sha256: Optional[str]
    content_base64: Optional[str]


class Result(_Outcome):
    id: str
    correlation: Optional[str]
    verdict: Literal["ok", "nonzero", "signal", "timeout", "cpu_timeout", "oom", "disk", "pids", "output_limit", "denied", "cancelled", "failed"]
    stage: Literal["compile", "run"]
    exit_code: Optional[int]
    signal: Optional[str]
    stdout: str
    stderr: str
    stdout_bytes: int
    stderr_bytes: int
    stdout_truncated: bool
    stderr_truncated: bool
    stdout_base64: Optional[str]
    stderr_base64: Optional[str]
    duration_ms: float
    timing: ResultTiming
    usage: ResultUsage
    limits_hit: List[Literal["memory", "pids", "cpu", "disk", "fsize", "output", "time", "network"]]
    network_refused: Optional[int]
    network: Optional[ResultNetwork]
    denied_calls: Optional[Dict[str, Any]]
    driver: Optional[str]
    vessel_id: Optional[str]
    container_id: Optional[str]
    name: Optional[str]
    image: Optional[str]
    image_digest: Optional[str]
    image_owners: Optional[Literal["image", "one", "nobody"]]
    start: Optional[str]
    isolation: ResultIsolation
    files: List[ResultFilesItem]
    artifacts: List[ResultArtifactsItem]
    artifacts_truncated: bool
    error: Optional[ErrorInfo]
    preset_code: Optional[str]
    wanted_driver: Optional[str]


class ResultBrief(Record):
    id: str
    correlation: Optional[str]
    verdict: Literal["ok", "nonzero", "signal", "timeout", "cpu_timeout", "oom", "disk", "pids", "output_limit", "denied", "cancelled", "failed"]
    stage: Literal["compile", "run"]
    exit_code: Optional[int]
    signal: Optional[str]
    stdout_bytes: int
    stderr_bytes: int
    stdout_truncated: bool
    stderr_truncated: bool
    duration_ms: float
    timing: ResultTiming
    usage: ResultUsage
    limits_hit: List[Literal["memory", "pids", "cpu", "disk", "fsize", "output", "time", "network"]]
    network_refused: Optional[int]
    network: Optional[ResultNetwork]
    denied_calls: Optional[Dict[str, Any]]
    driver: Optional[str]
    vessel_id: Optional[str]
    container_id: Optional[str]
    name: Optional[str]
    image: Optional[str]
    image_digest: Optional[str]
    image_owners: Optional[Literal["image", "one", "nobody"]]
    start: Optional[str]
    isolation: ResultIsolation
    artifacts: List[ResultArtifactsItem]
    artifacts_truncated: bool
    error: Optional[ErrorInfo]
    preset_code: Optional[str]
    wanted_driver: Optional[str]


class Run(Record):
    request: str
    id: Optional[str]
    caller: str
    what: str
    started_ms: int
    state: Literal["running", "ended"]
    verdict: Optional[str]
    exit_code: Optional[int]
    duration_ms: Optional[float]


class RunDetails(Record):
    request: str
    id: Optional[str]
    caller: str
    what: str
    started_ms: int
    state: Literal["running", "ended"]
    verdict: Optional[str]
    exit_code: Optional[int]
    duration_ms: Optional[float]
    stdout: str
    stderr: str
    asked: Optional[Dict[str, Any]]
    result: Optional[ResultBrief]


class RunError(Record):
    event: Literal["error"]
    error: ErrorInfo
    retry_after: int


class RunResult(Record):
    event: Literal["result"]
    result: Result


class RunStart(Record):
    event: Literal["start"]
    request: str


class Schema(Record):
    pass


class SessionInfo(Record):
    id: str
    outcome: str
    paused: bool
    driver: str
    level: str
    execs: int
    duration_ms: float
    vessel_id: str
    limits_by: str
    usage: SessionUsage
    error: Optional[ErrorInfo]


SessionBody = TypedDict("SessionBody", {
    "idle": "Duration",
    "lease": "Duration",
}, total=False)


class SessionRow(Record):
    id: str
    outcome: str
    paused: bool
    driver: str
    level: str
    execs: int
    age_ms: float


class SessionUsage(Record):
    cpu_user_ms: float
    cpu_system_ms: float
    memory_peak_bytes: int
    pids_peak: int


class Setting(Record):
    value: Any
    # from: Optional[str]


SignalBody = TypedDict("SignalBody", {
    "signal": "str",
    "number": "int",
    "tree": "bool",
}, total=False)


class Snapshot(Record):
    image: str
    digest: str
    id: str
    size: int
    frozen: bool


SnapshotBody = TypedDict("SnapshotBody", {
    "name": "str",
})


class Stock(Record):
    driver: str
    language: Optional[str]
    image: Optional[str]
    memory_bytes: int
    pids: int
    hatches: bool
    prestarts: bool
    zygote: bool
    claimed: bool
    wanted: int
    idle: int
    taken: int
    missed: int
    lost: int
    refills: int
    failures: int
    refill_ms: float
    pss_bytes: int
    zygotes: int
    error: Optional[str]
    lacks: Optional[str]


class Taken(Record):
    taken: int


class Version(Record):
    version: str
    caller: str
    scopes: List[str]
    preset: Optional[str]


class Vessel(Record):
    driver: str
    state: Optional[str]
    orphan: bool
    name: Optional[str]
    pid: Optional[int]
    owner: Optional[int]
    id: Optional[str]
    vessel: Optional[str]
    session: Optional[str]
    task: Optional[str]
    image: Optional[str]
    created: Optional[int]
    ports: Optional[List[str]]


class Volume(Record):
    name: str
    writers: Literal["one", "many"]
    state: Literal["free", "read", "written", "broken"]
    size: Optional[int]
    created: int
    used: int


VolumeBody = TypedDict("VolumeBody", {
    "name": "str",
    "writers": 'Literal["one", "many"]',
    "size": "Size",
}, total=False)


class WatchError(Record):
    event: Literal["error"]
    error: ErrorInfo


class WatchStart(Record):
    event: Literal["start"]
    path: str


Operation = Literal[
    "run_code", "batch_run", "info_plan", "runs_list", "runs_get", "runs_cancel",
    "sessions_start", "sessions_list", "sessions_get", "sessions_stop", "sessions_renew",
    "sessions_allow", "sessions_pause", "sessions_resume", "sessions_snapshot",
    "sessions_fork", "snapshots_remove", "execs_start", "execs_list", "execs_get",
    "execs_attach", "execs_output", "execs_stdin", "execs_signal", "execs_resize", "files_get",
    "files_put", "files_remove", "files_list", "files_stat", "files_watch", "files_mkdir",
    "files_move", "files_pack", "files_unpack", "workspaces_diff", "workspaces_commit",
    "workspaces_discard", "workspaces_checkpoints", "workspaces_checkpoint",
    "workspaces_rollback", "contexts_open", "contexts_run", "contexts_interrupt",
    "contexts_restart", "ports_get", "info_languages", "info_doctor", "info_config",
    "info_vessels", "info_version", "info_schema", "openapi_get", "images_list", "images_pull",
    "images_prune", "volumes_list", "volumes_create", "volumes_get", "volumes_remove",
    "page_recent", "page_pool", "info_metrics", "info_health", "info_ready",]


# What each is called in the OpenAPI document: method, path, query.
OPERATIONS: Dict[str, Tuple[str, str, Tuple[str, ...]]] = {
    "run_code": ("POST", "/v1/run", ("stream", "raw", "batch")),
    "batch_run": ("POST", "/v1/batch", ("stream", "batch")),
    "info_plan": ("POST", "/v1/plan", ()),
    "runs_list": ("GET", "/v1/runs", ("limit", "all")),
    "runs_get": ("GET", "/v1/runs/{id}", ("caller",)),
    "runs_cancel": ("DELETE", "/v1/runs/{id}", ("caller",)),
    "sessions_start": ("POST", "/v1/sessions", ()),
    "sessions_list": ("GET", "/v1/sessions", ("all",)),
    "sessions_get": ("GET", "/v1/sessions/{id}", ()),
    "sessions_stop": ("DELETE", "/v1/sessions/{id}", ()),
    "sessions_renew": ("POST", "/v1/sessions/{id}/renew", ()),
    "sessions_allow": ("PUT", "/v1/sessions/{id}/allow", ()),
    "sessions_pause": ("POST", "/v1/sessions/{id}/pause", ()),
    "sessions_resume": ("POST", "/v1/sessions/{id}/resume", ()),
    "sessions_snapshot": ("POST", "/v1/sessions/{id}/snapshot", ()),
    "sessions_fork": ("POST", "/v1/sessions/{id}/fork", ()),
    "snapshots_remove": ("DELETE", "/v1/snapshots/{path}", ()),
    "execs_start": ("POST", "/v1/sessions/{id}/exec", ("wait", "stream")),
    "execs_list": ("GET", "/v1/sessions/{id}/exec", ()),
    "execs_get": ("GET", "/v1/sessions/{id}/exec/{name}", ("wait",)),
    "execs_attach": ("GET", "/v1/sessions/{id}/exec/{name}/attach", ("stdout", "stderr", "stream")),
    "execs_output": ("GET", "/v1/sessions/{id}/exec/{name}/output", ("of", "offset", "follow")),
    "execs_stdin": ("POST", "/v1/sessions/{id}/exec/{name}/stdin", ("close",)),
    "execs_signal": ("POST", "/v1/sessions/{id}/exec/{name}/signal", ()),
    "execs_resize": ("POST", "/v1/sessions/{id}/exec/{name}/resize", ()),
    "files_get": ("GET", "/v1/sessions/{id}/files/{path}", ("offset", "length")),
    "files_put": ("PUT", "/v1/sessions/{id}/files/{path}", ("mode",)),
    "files_remove": ("DELETE", "/v1/sessions/{id}/files/{path}", ("deep",)),
    "files_list": ("GET", "/v1/sessions/{id}/list", ("path", "deep")),
    "files_stat": ("GET", "/v1/sessions/{id}/stat", ("path",)),
    "files_watch": ("GET", "/v1/sessions/{id}/watch", ("path", "deep", "attributes", "stream")),
    "files_mkdir": ("POST", "/v1/sessions/{id}/mkdir", ()),
    "files_move": ("POST", "/v1/sessions/{id}/move", ()),
    "files_pack": ("GET", "/v1/sessions/{id}/tar", ("path",)),
    "files_unpack": ("PUT", "/v1/sessions/{id}/tar", ("path",)),
    "workspaces_diff": ("GET", "/v1/sessions/{id}/workspace", ("names", "format", "path")),
    "workspaces_commit": ("POST", "/v1/sessions/{id}/workspace/commit", ()),
    "workspaces_discard": ("POST", "/v1/sessions/{id}/workspace/discard", ()),
    "workspaces_checkpoints": ("GET", "/v1/sessions/{id}/workspace/checkpoints", ()),
    "workspaces_checkpoint": ("POST", "/v1/sessions/{id}/workspace/checkpoints/{name}", ()),
    "workspaces_rollback": ("POST", "/v1/sessions/{id}/workspace/rollback/{name}", ()),
    "contexts_open": ("POST", "/v1/sessions/{id}/contexts", ()),
    "contexts_run": ("POST", "/v1/sessions/{id}/contexts/{name}/run", ()),
    "contexts_interrupt": ("POST", "/v1/sessions/{id}/contexts/{name}/interrupt", ()),
    "contexts_restart": ("POST", "/v1/sessions/{id}/contexts/{name}/restart", ()),
    "ports_get": ("GET", "/v1/sessions/{id}/ports/{name}", ()),
    "info_languages": ("GET", "/v1/languages", ()),
    "info_doctor": ("GET", "/v1/doctor", ()),
    "info_config": ("GET", "/v1/config", ()),
    "info_vessels": ("GET", "/v1/vessels", ()),
    "info_version": ("GET", "/v1/version", ()),
    "info_schema": ("GET", "/v1/schema/{id}", ()),
    "openapi_get": ("GET", "/v1/openapi.json", ()),
    "images_list": ("GET", "/v1/images", ()),
    "images_pull": ("POST", "/v1/images/pull", ("stream",)),
    "images_prune": ("POST", "/v1/images/prune", ()),
    "volumes_list": ("GET", "/v1/volumes", ()),
    "volumes_create": ("POST", "/v1/volumes", ()),
    "volumes_get": ("GET", "/v1/volumes/{path}", ()),
    "volumes_remove": ("DELETE", "/v1/volumes/{path}", ()),
    "page_recent": ("GET", "/v1/recent", ()),
    "page_pool": ("GET", "/v1/pool", ()),
    "info_metrics": ("GET", "/metrics", ()),
    "info_health": ("GET", "/healthz", ()),
    "info_ready": ("GET", "/readyz", ()),
}


# --- end of what was made ---


class SessionRequest(Request, SessionBody, total=False):
    """What a session is opened with."""


@dataclass(frozen=True)
class BatchItem:
    """One run of a batch: its result, or why it was not run."""
    index: int
    result: Optional[Result]
    error: Optional[VialError]


# Connections. Everything is written once, with async functions. The blocking client has
# wires whose functions never wait for an event loop, and drives them by hand (`_now`).


class _LostError(Exception):
    """The connection broke. `sent`: the daemon may have begun what was asked."""

    def __init__(self, cause: str, sent: bool) -> None:
        super().__init__(cause)
        self.sent = sent


class _Address(NamedTuple):
    scheme: str  # unix, http, https
    host: str
    port: int
    base: str  # in front of every path
    path: str  # of the socket

    @staticmethod
    def parse(url: str) -> _Address:
        if url.startswith(("unix:", "/")):
            path = url[len("unix:"):] if url.startswith("unix:") else url
            return _Address("unix", "vial", 0, "", "/" + path.lstrip("/"))
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("'%s' is neither http://…, https://… nor unix:/path" % url)
        if parts.username or parts.password:
            raise ValueError("a URL with a password in it is not taken; give a token")
        return _Address(parts.scheme, parts.hostname,
                        parts.port or (443 if parts.scheme == "https" else 80),
                        parts.path.rstrip("/"), "")

    @property
    def host_header(self) -> str:
        host = "[%s]" % self.host if ":" in self.host else self.host
        return host if self.scheme == "unix" else "%s:%d" % (host, self.port)


def _usual_address() -> str:
    """VIAL_URL, or the socket where `vial serve` listens for this user."""
    given = os.environ.get("VIAL_URL")
    if given:
        return given
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.geteuid() == 0:
        where = "/run/vial"
    else:
        where = runtime + "/vial" if runtime.startswith("/") else "/tmp/vial-%d" % os.geteuid()
    if os.geteuid() != 0 and not os.path.exists(where + "/vial.sock"):
        where = "/run/vial"  # the system's
    try:
        found = os.lstat(where)
    except OSError:
        return "unix:%s/vial.sock" % where
    # Who can put a socket there can read what we send.
    if found.st_uid not in (0, os.geteuid()) or stat.S_IMODE(found.st_mode) & stat.S_IWOTH:
        raise Lost("VIAL-DAEMON", "'%s' belongs to somebody else" % where)
    return "unix:%s/vial.sock" % where


class _Wire:
    """One connection."""

    async def send(self, data: bytes_) -> None:
        raise NotImplementedError

    async def receive(self) -> bytes_:
        """Some bytes; none at the end."""
        raise NotImplementedError

    def is_stale(self) -> bool:
        """Whether the other side has hung up, or said something unasked."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class _BlockingWire(_Wire):
    def __init__(self, address: _Address, tls: Optional[ssl.SSLContext],
                 timeout: Optional[float]) -> None:
        if address.scheme == "unix":
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                self.socket.settimeout(_CONNECT_S)
                self.socket.connect(address.path)
            except BaseException:
                self.socket.close()
                raise
        else:
            self.socket = socket.create_connection((address.host, address.port), _CONNECT_S)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if tls:
                self.socket = tls.wrap_socket(self.socket, server_hostname=address.host)
        self.socket.settimeout(timeout)

    async def send(self, data: bytes_) -> None:
        self.socket.sendall(data)

    async def receive(self) -> bytes_:
        return self.socket.recv(_PIECE)

    def is_stale(self) -> bool:
        look = select.poll()
        look.register(self.socket, select.POLLIN)
        return bool(look.poll(0))

    def close(self) -> None:
        self.socket.close()


class _AsyncWire(_Wire):
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter,
                 timeout: Optional[float]) -> None:
        self.reader, self.writer, self.timeout = reader, writer, timeout

    async def send(self, data: bytes_) -> None:
        self.writer.write(data)
        await asyncio.wait_for(self.writer.drain(), self.timeout)

    async def receive(self) -> bytes_:
        return await asyncio.wait_for(self.reader.read(_PIECE), self.timeout)

    def is_stale(self) -> bool:
        return self.reader.at_eof() or self.writer.is_closing()

    def close(self) -> None:
        self.writer.close()


_OpenWire = Callable[[_Address, Optional[ssl.SSLContext], Optional[float]], Awaitable[_Wire]]


async def _open_blocking(address: _Address, tls: Optional[ssl.SSLContext],
                         timeout: Optional[float]) -> _Wire:
    return _BlockingWire(address, tls, timeout)


async def _open_async(address: _Address, tls: Optional[ssl.SSLContext],
                      timeout: Optional[float]) -> _Wire:
    if address.scheme == "unix":
        opened = asyncio.open_unix_connection(address.path)
    else:
        opened = asyncio.open_connection(address.host, address.port, ssl=tls)
    reader, writer = await asyncio.wait_for(opened, _CONNECT_S)
    return _AsyncWire(reader, writer, timeout)


async def _sleep_blocking(seconds: float) -> None:
    time.sleep(seconds)


def _now(it: Coroutine[Any, Any, _T]) -> _T:
    """What IT comes to; it waits for nothing but blocking calls."""
    try:
        it.send(None)
    except StopIteration as end:
        return cast(_T, end.value)
    it.close()
    raise RuntimeError("a blocking client waited for an event loop")


# HTTP.


class _Exchange:
    """One request on a connection, and its answer."""

    def __init__(self, wire: _Wire) -> None:
        self.wire, self.buffer = wire, b""
        self.status, self.headers = 0, {}  # type: int, Dict[str, str]
        self.left: Optional[int] = None  # of the body, or of a chunk
        self.is_chunked = self.is_over = False

    async def more(self) -> None:
        got = await self.wire.receive()
        if not got:
            raise ConnectionError("the daemon hung up")
        self.buffer += got

    async def line(self) -> str:
        while b"\r\n" not in self.buffer:
            if len(self.buffer) > _HEAD_MOST:
                raise ConnectionError("the answer's head is too long")
            await self.more()
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line.decode("latin-1")

    async def head(self) -> None:
        words = (await self.line()).split(" ", 2)
        if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdigit():
            raise ConnectionError("the answer is not HTTP")
        self.status, size = int(words[1]), 0
        while True:
            line = await self.line()
            size += len(line)
            if not line:
                break
            if size > _HEAD_MOST:
                raise ConnectionError("the answer's head is too long")
            name, _, value = line.partition(":")
            self.headers[name.strip().lower()] = value.strip()
        if self.status == 100:
            await self.head()
            return
        self.is_chunked = "chunked" in self.headers.get("transfer-encoding", "").lower()
        if not self.is_chunked and "content-length" in self.headers:
            self.left = int(self.headers["content-length"])
        self.is_over = self.status == 204 or self.left == 0

    async def chunk(self) -> None:
        """Reads a chunk's head; the last one ends the body."""
        if self.left == 0:
            await self.line()  # the end of the chunk before
        self.left = int((await self.line()).split(";", 1)[0], 16)
        if self.left == 0:
            while await self.line():
                pass
            self.is_over = True

    async def piece(self) -> bytes_:
        """Some of the body; nothing at its end."""
        if self.is_chunked and not self.is_over and not self.left:
            await self.chunk()
        if self.is_over:
            return b""
        if not self.buffer:
            if self.left is None:  # it ends with the connection
                got = await self.wire.receive()
                self.is_over = not got
                return got
            await self.more()
        size = len(self.buffer) if self.left is None else min(self.left, len(self.buffer))
        got, self.buffer = self.buffer[:size], self.buffer[size:]
        if self.left is not None:
            self.left -= size
            self.is_over = self.left == 0 and not self.is_chunked
        return got

    async def whole(self) -> bytes_:
        pieces: List[bytes_] = []
        while True:
            piece = await self.piece()
            if not piece:
                return b"".join(pieces)
            pieces.append(piece)

    @property
    def may_stay(self) -> bool:
        return (self.is_over and not self.buffer and
                self.headers.get("connection", "").lower() != "close" and
                (self.is_chunked or self.left is not None or self.status == 204))


class _Ask(NamedTuple):
    """A request before it is sent."""
    operation: str
    method: str
    target: str
    headers: Dict[str, str]
    body: Optional[bytes_]
    repeatable: bool  # the same again does no harm


# POSTs that come to the same when they are asked for twice. Of a batch, what runs ends when
# its client hangs up.
_REPEATABLE = {"info_plan", "sessions_renew", "files_mkdir", "contexts_open", "batch_run"}
# Errors that pass by themselves; VIAL-HTTP: what stands between says so.
_PASSING = {"VIAL-BUSY", "VIAL-RATE", "VIAL-HTTP"}


def _ask(operation: Operation, names: Sequence[str] = (),
         query: Optional[Mapping[str, Any]] = None, body: Any = None,
         headers: Optional[Dict[str, str]] = None, key: Optional[str] = None) -> _Ask:
    method, path, known = OPERATIONS[operation]
    parts = path.replace("{path}", "{*}").split("{")
    target = parts[0]
    for part, name in zip(parts[1:], names):
        target += urllib.parse.quote(name, safe="/" if part.startswith("*") else "")
        target += part.split("}", 1)[1]
    words = {n: v for n, v in (query or {}).items() if v is not None and v is not False}
    for name in words:
        if name not in known:
            raise TypeError("%s does not take '%s'" % (operation, name))
    if words:
        target += "?" + urllib.parse.urlencode({n: "1" if v is True else v
                                                for n, v in words.items()})
    sent = dict(headers or {})
    if key:
        sent["Idempotency-Key"] = key
    if body is not None and not isinstance(body, (bytes, bytearray, memoryview)):
        sent["Content-Type"] = "application/json"
        body = json.dumps(body).encode()
    return _Ask(operation, method, target, sent, None if body is None else bytes(body),
                method != "POST" or bool(key) or operation in _REPEATABLE)


def _fields(given: Mapping[str, Any], **more: Any) -> Dict[str, Any]:
    """What was given, with what of MORE is there."""
    return {**given, **{n: v for n, v in more.items() if v is not None}}


class _Answer(NamedTuple):
    status: int
    headers: Dict[str, str]
    body: bytes_

    @property
    def json(self) -> Any:
        return json.loads(self.body, object_hook=Record) if self.body else None


def _refusal(status: int, headers: Mapping[str, str], body: bytes_) -> VialError:
    try:
        told = json.loads(body)
    except ValueError:
        told = {}
    told = told if isinstance(told, dict) else {}
    error = told.get("error") or {"code": "VIAL-HTTP", "message": "the answer has status %d and "
                                  "no error of vial's" % status}
    after = headers.get("retry-after", "")
    return _error(status, error, float(after) if after.isdigit() else 0,
                  Result(told) if "verdict" in told else None)


class _Core:
    """Asks, and asks again. Shared by all that belongs to a client."""

    def __init__(self, url: Optional[str], token: Optional[str], retries: int, patience: float,
                 timeout: Optional[float], ca: Optional[str], open_wire: _OpenWire,
                 sleep: Callable[[float], Awaitable[None]]) -> None:
        self.address = _Address.parse(url or _usual_address())
        self.token = token if token is not None else os.environ.get("VIAL_TOKEN", "")
        if self.token and not (self.token.isascii() and self.token.isprintable()):
            raise ValueError("the token is not plain text")
        self.retries, self.patience, self.timeout = retries, patience, timeout
        self.tls = (ssl.create_default_context(cafile=ca)
                    if self.address.scheme == "https" else None)
        self.open_wire, self.sleep = open_wire, sleep
        self.lock, self.idle = threading.Lock(), []  # type: Any, List[_Wire]

    def close(self) -> None:
        with self.lock:
            idle, self.idle = self.idle, []
        for wire in idle:
            wire.close()

    async def wire(self, fresh: bool) -> _Wire:
        while not fresh:
            with self.lock:
                wire = self.idle.pop() if self.idle else None
            if not wire:
                break
            if not wire.is_stale():
                return wire
            wire.close()
        try:
            return await self.open_wire(self.address, self.tls, self.timeout)
        except (OSError, asyncio.TimeoutError) as error:
            raise _LostError(str(error) or type(error).__name__, False) from error

    def keep(self, exchange: _Exchange) -> None:
        with self.lock:
            if exchange.may_stay and len(self.idle) < _IDLE_MOST:
                self.idle.append(exchange.wire)
                return
        exchange.wire.close()

    def head(self, ask: _Ask) -> bytes_:
        headers = {"Host": self.address.host_header, "User-Agent": "vial-python/" + __version__,
                   **ask.headers}
        if self.token:
            headers["Authorization"] = "Bearer " + self.token
        if ask.body is not None or ask.method in ("POST", "PUT"):
            headers["Content-Length"] = str(len(ask.body or b""))
        text = "%s %s%s HTTP/1.1\r\n" % (ask.method, self.address.base, ask.target)
        for name, value in headers.items():
            if not (value.isascii() and value.isprintable()):
                raise ValueError("'%s' is not plain text" % name)
            text += "%s: %s\r\n" % (name, value)
        return (text + "\r\n").encode("ascii")

    async def begin(self, ask: _Ask) -> _Exchange:
        """Until the answer's head is there. What cannot be repeated gets a connection of its
        own, since one that waited may be dying."""
        head = self.head(ask)
        exchange = _Exchange(await self.wire(not ask.repeatable))
        try:
            await exchange.wire.send(head + (ask.body or b""))
            await exchange.head()
        except (OSError, asyncio.TimeoutError, ValueError) as error:
            exchange.wire.close()
            raise _LostError(str(error) or type(error).__name__, True) from error
        except BaseException:
            exchange.wire.close()
            raise
        return exchange

    async def once(self, ask: _Ask) -> _Answer:
        exchange = await self.begin(ask)
        try:
            body = await exchange.whole()
        except (OSError, asyncio.TimeoutError, ValueError) as error:
            exchange.wire.close()
            raise _LostError(str(error) or type(error).__name__, True) from error
        except BaseException:
            exchange.wire.close()
            raise
        self.keep(exchange)
        return _Answer(exchange.status, exchange.headers, body)

    def lost(self, error: _LostError) -> Lost:
        where = (self.address.path if self.address.scheme == "unix"
                 else self.address.host_header)
        return Lost("VIAL-DAEMON", "the daemon at '%s' %s" % (
            where, "hung up" if error.sent else "cannot be reached"), str(error),
            "" if error.sent else "start it: vial serve")

    async def pause(self, tries: int) -> None:
        await self.sleep(min(0.1 * 2 ** tries, 5) * random.uniform(0.5, 1))

    async def wait_for_room(self, error: VialError, until: float) -> bool:
        """True: the daemon may take it now."""
        wait = max(error.retry_after, 0.1) * random.uniform(1, 1.3)
        passes = error.status in (429, 503) and error.code in _PASSING
        if not passes or time.monotonic() + wait > until:
            return False
        await self.sleep(wait)
        return True

    async def ask(self, ask: _Ask) -> _Answer:
        """The answer, once it is a good one; else the error that it tells."""
        lost, until = 0, time.monotonic() + self.patience
        while True:
            try:
                answer = await self.once(ask)
            except _LostError as error:
                if lost >= self.retries or (error.sent and not ask.repeatable):
                    raise self.lost(error) from error
                await self.pause(lost)
                lost += 1
                continue
            if answer.status < 400 or (answer.status == 404 and lost and ask.method == "DELETE"):
                return answer
            refusal = _refusal(*answer)
            # Our own first try goes on, and its answer will come.
            if lost and "Idempotency-Key" in ask.headers and refusal.retry_after and (
                    refusal.code == "VIAL-IDEMPOTENCY"):
                await self.sleep(refusal.retry_after)
            elif not await self.wait_for_room(refusal, until):
                raise refusal

    async def stream(self, ask: _Ask) -> _Exchange:
        """A stream that has begun. Busy daemons are waited for."""
        tries, until = 0, time.monotonic() + self.patience
        while True:
            try:
                exchange = await self.begin(ask)
                if exchange.status < 400:
                    return exchange
                body = await exchange.whole()
            except _LostError as error:
                if tries >= self.retries or (error.sent and not ask.repeatable):
                    raise self.lost(error) from error
                await self.pause(tries)
                tries += 1
                continue
            except (OSError, asyncio.TimeoutError) as error:
                raise self.lost(_LostError(str(error), True)) from error
            self.keep(exchange)
            refusal = _refusal(exchange.status, exchange.headers, body)
            if not await self.wait_for_room(refusal, until):
                raise refusal


class _Lines:
    """The events of one answer."""

    def __init__(self, core: _Core, exchange: _Exchange) -> None:
        self.core, self.exchange, self.rest = core, exchange, b""
        self.ready: List[bytes_] = []

    async def next(self) -> Optional[Event]:
        while not self.ready:
            try:
                piece = await self.exchange.piece()
            except (OSError, asyncio.TimeoutError, ValueError) as error:
                self.close()
                raise _LostError(str(error) or type(error).__name__, True) from error
            except BaseException:
                self.close()
                raise
            if not piece:
                self.core.keep(self.exchange)
                return None
            *lines, self.rest = (self.rest + piece).split(b"\n")
            self.ready = [line for line in lines if line.strip()]
        return Event(json.loads(self.ready.pop(0), object_hook=Record))

    def close(self) -> None:
        self.exchange.wire.close()


# What is streamed: async first, and the same for blocking callers.


class AsyncEvents:
    """Events, as they happen; `async for`. Who stops early calls `aclose`, or uses `async
    with`: a run ends then, a session's program goes on. `result` is there at the end."""

    def __init__(self, core: _Core, begin: Callable[[int, int], _Ask], resumes: bool) -> None:
        self._core, self._begin, self._resumes = core, begin, resumes
        self._lines: Optional[_Lines] = None
        self._offsets, self._over, self._lost = [0, 0], False, 0
        self.result: Optional[Result] = None
        self.exit: Optional[ExecExit] = None
        self.image: Optional[Image] = None

    def _note(self, event: Event) -> Event:
        """Remembers how far it has come."""
        self._lost = 0
        if event.event in ("stdout", "stderr"):
            which = event.event == "stderr"
            begins = self._offsets[which] if event.offset is None else event.offset
            self._offsets[which] = begins + len(event.content)
        elif event.event == "gap":
            self._offsets[event["stream"] == 2] += event["bytes"]
        elif event.event == "result":
            event["result"] = self.result = Result(event["result"])
            denied = _denied(self.result)
            if denied:
                self._over = True
                raise denied
        elif event.event == "exit":
            self.exit = ExecExit(event)
        elif event.event == "image":
            self.image = Image(event["image"])
        elif event.event == "error":
            self._over = True
            raise _error(503 if event.get("retry_after") else 0, event["error"],
                         float(event.get("retry_after") or 0))
        self._over = event.event in ("result", "exit", "image")
        return event

    async def _event(self) -> Event:
        while not self._over:
            try:
                if not self._lines:
                    self._lines = _Lines(self._core, await self._core.stream(
                        self._begin(*self._offsets)))
                event = await self._lines.next()
                if not event:
                    raise _LostError("the stream ended early", True)
                if event.event == "start" and any(self._offsets):
                    continue  # it was told before
                return self._note(event)
            except _LostError as error:
                self._lines = None
                if not self._resumes or self._lost >= self._core.retries:
                    self._over = True
                    raise self._core.lost(error) from error
                await self._core.pause(self._lost)
                self._lost += 1
        await self.aclose()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Hangs up, unless the stream has come to its end."""
        lines, self._lines = self._lines, None
        if lines and not lines.exchange.is_over:
            if self._over:  # nothing but the end is missing
                try:
                    await lines.next()
                except _LostError:
                    pass
            else:
                lines.close()
        self._over = True

    def __aiter__(self) -> AsyncEvents:
        return self

    async def __anext__(self) -> Event:
        return await self._event()

    async def __aenter__(self) -> AsyncEvents:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class Events:
    """AsyncEvents, for whoever blocks: `for`, `with`, `close`."""

    def __init__(self, inner: AsyncEvents) -> None:
        self._inner = inner

    @property
    def result(self) -> Optional[Result]:
        return self._inner.result

    @property
    def exit(self) -> Optional[ExecExit]:
        return self._inner.exit

    @property
    def image(self) -> Optional[Image]:
        return self._inner.image

    def close(self) -> None:
        _now(self._inner.aclose())

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        try:
            return _now(self._inner._event())
        except StopAsyncIteration:
            raise StopIteration from None

    def __enter__(self) -> Events:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncBatch:
    """The runs of a batch, as they end. After a connection was lost, those that did not
    come are asked for again: each comes once."""

    def __init__(self, core: _Core, body: Dict[str, Any]) -> None:
        self._core, self._body = core, body
        self._name = "requests" if "requests" in body else "inputs"
        self._missing = list(range(len(body[self._name])))
        self._asked: List[int] = []
        self._lines: Optional[_Lines] = None
        self._lost = 0

    async def _start(self) -> _Lines:
        self._asked = list(self._missing)
        items = self._body[self._name]
        body = {**self._body, self._name: [items[i] for i in self._asked]}
        return _Lines(self._core, await self._core.stream(
            _ask("batch_run", query={"stream": "ndjson"}, body=body)))

    def _take(self, event: Event) -> Optional[BatchItem]:
        if event.event not in ("result", "error") or "index" not in event:
            return None
        self._lost, index = 0, self._asked[event["index"]]
        self._missing.remove(index)
        if event.event == "result":
            result = Result(event["result"])
            denied = _denied(result)
            return BatchItem(index, None if denied else result, denied)
        return BatchItem(index, None, _error(0, event["error"]))

    async def _item(self) -> BatchItem:
        while self._missing:
            try:
                self._lines = self._lines or await self._start()
                event = await self._lines.next()
                if not event:
                    raise _LostError("the stream ended early", True)
                item = self._take(event)
                if item:
                    return item
            except _LostError as error:
                self._lines = None
                if self._lost >= self._core.retries:
                    raise self._core.lost(error) from error
                await self._core.pause(self._lost)
                self._lost += 1
        await self.aclose()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Hangs up: what has not ended is not run to its end."""
        lines, self._lines = self._lines, None
        self._missing.clear()
        if lines:
            lines.close()

    def __aiter__(self) -> AsyncBatch:
        return self

    async def __anext__(self) -> BatchItem:
        return await self._item()

    async def __aenter__(self) -> AsyncBatch:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class Batch:
    """AsyncBatch, for whoever blocks."""

    def __init__(self, inner: AsyncBatch) -> None:
        self._inner = inner

    def close(self) -> None:
        _now(self._inner.aclose())

    def __iter__(self) -> Iterator[BatchItem]:
        return self

    def __next__(self) -> BatchItem:
        try:
            return _now(self._inner._item())
        except StopAsyncIteration:
            raise StopIteration from None

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# Sessions.


class AsyncProgram:
    """A program that was started in a session, by its number."""

    def __init__(self, core: _Core, session: str, number: int) -> None:
        self._core, self.session, self.number = core, session, number
        self._names = (session, str(number))

    async def poll(self) -> ExecInfo:
        """How it is now."""
        return ExecInfo((await self._core.ask(_ask("execs_get", self._names))).json)

    async def wait(self) -> ExecResult:
        """Its end, and what is kept of its output."""
        return ExecResult((await self._core.ask(_ask("execs_get", self._names,
                                                     {"wait": True}))).json)

    def events(self, stdout: int = 0, stderr: int = 0) -> AsyncEvents:
        """Its output from these offsets on, until its exit; read on where a connection was
        lost."""
        def begin(out: int, err: int) -> _Ask:
            return _ask("execs_attach", self._names, {
                "stdout": max(out, stdout), "stderr": max(err, stderr), "stream": "ndjson"})
        return AsyncEvents(self._core, begin, True)

    async def output(self, of: Literal["stdout", "stderr"] = "stdout", offset: int = 0,
                     follow: bool = False) -> bytes_:
        """The bytes of one stream; with `follow` until the program has ended."""
        return (await self._core.ask(_ask("execs_output", self._names, {
            "of": of, "offset": offset, "follow": follow}))).body

    async def write(self, data: bytes_, close: bool = False) -> int:
        """Hands bytes to its live standard input; how many were taken."""
        answer = await self._core.ask(_ask("execs_stdin", self._names, {"close": close}, data))
        return int(answer.json["taken"])

    async def signal(self, signal: Union[str, int] = "TERM", tree: bool = False) -> None:
        body: SignalBody = {"tree": tree}
        if isinstance(signal, int):
            body["number"] = signal
        else:
            body["signal"] = signal
        await self._core.ask(_ask("execs_signal", self._names, body=body))

    async def resize(self, rows: int, columns: int) -> None:
        body: ResizeBody = {"rows": rows, "columns": columns}
        await self._core.ask(_ask("execs_resize", self._names, body=body))


class Program:
    """AsyncProgram, for whoever blocks."""

    def __init__(self, inner: AsyncProgram) -> None:
        self._inner, self.session, self.number = inner, inner.session, inner.number

    def poll(self) -> ExecInfo:
        return _now(self._inner.poll())

    def wait(self) -> ExecResult:
        return _now(self._inner.wait())

    def events(self, stdout: int = 0, stderr: int = 0) -> Events:
        return Events(self._inner.events(stdout, stderr))

    def output(self, of: Literal["stdout", "stderr"] = "stdout", offset: int = 0,
               follow: bool = False) -> bytes_:
        return _now(self._inner.output(of, offset, follow))

    def write(self, data: bytes_, close: bool = False) -> int:
        return _now(self._inner.write(data, close))

    def signal(self, signal: Union[str, int] = "TERM", tree: bool = False) -> None:
        _now(self._inner.signal(signal, tree))

    def resize(self, rows: int, columns: int) -> None:
        _now(self._inner.resize(rows, columns))


class AsyncContext:
    """An interpreter that remembers, like a notebook's kernel."""

    def __init__(self, core: _Core, session: str, name: str) -> None:
        self._core, self.session, self.name = core, session, name
        self._names = (session, name)

    async def run(self, code: str, timeout: Optional[Duration] = None) -> Cell:
        body: CellBody = {"code": code}
        if timeout is not None:
            body["timeout"] = timeout
        return Cell((await self._core.ask(_ask("contexts_run", self._names, body=body))).json)

    async def interrupt(self) -> None:
        await self._core.ask(_ask("contexts_interrupt", self._names))

    async def restart(self) -> None:
        await self._core.ask(_ask("contexts_restart", self._names))


class Context:
    """AsyncContext, for whoever blocks."""

    def __init__(self, inner: AsyncContext) -> None:
        self._inner, self.session, self.name = inner, inner.session, inner.name

    def run(self, code: str, timeout: Optional[Duration] = None) -> Cell:
        return _now(self._inner.run(code, timeout))

    def interrupt(self) -> None:
        _now(self._inner.interrupt())

    def restart(self) -> None:
        _now(self._inner.restart())


def _exec_body(command: Union[str, Sequence[str]], env: Optional[Dict[str, str]],
               cwd: Optional[str], stdin: Optional[str], stdin_live: bool,
               timeout: Optional[Duration], terminal: Optional[Tuple[int, int]]) -> ExecBody:
    """A text is a line for the shell, a list a program and its arguments."""
    body: ExecBody = {}
    if isinstance(command, str):
        body["shell"] = command
    else:
        body["argv"] = list(command)
    if env is not None:
        body["env"] = env
    if cwd is not None:
        body["cwd"] = cwd
    if stdin is not None:
        body["stdin"] = stdin
    if stdin_live:
        body["stdin_live"] = True
    if timeout is not None:
        body["timeout"] = timeout
    if terminal is not None:
        body["rows"], body["columns"] = terminal
    return body


class AsyncSession:
    """A vessel that stays: its files and programs do, until it is closed."""

    def __init__(self, core: _Core, id: str) -> None:
        self._core, self.id = core, id

    async def _do(self, operation: Operation, *names: str,
                  query: Optional[Mapping[str, Any]] = None, body: Any = None) -> Any:
        return (await self._core.ask(_ask(operation, (self.id, *names), query, body))).json

    async def info(self) -> SessionInfo:
        return SessionInfo(await self._do("sessions_get"))

    async def renew(self, lease: Optional[Duration] = None) -> SessionInfo:
        body: RenewBody = {} if lease is None else {"lease": lease}
        return SessionInfo(await self._do("sessions_renew", body=body))

    async def allow(self, *entries: str) -> SessionInfo:
        """From now on its gate lets out these, of those that it was opened with, and ends other
        connections."""
        return SessionInfo(await self._do("sessions_allow", body={"allow": list(entries)}))

    async def pause(self, **body: Unpack[PauseBody]) -> SessionInfo:
        """Nothing in the session runs, and its clocks stand still, until `resume`; or, with
        `resume="auto"`, until it is used."""
        return SessionInfo(await self._do("sessions_pause", body=body))

    async def resume(self) -> SessionInfo:
        return SessionInfo(await self._do("sessions_resume"))

    async def port(self, port: int) -> Port:
        """Where the server on that port of the session is reached over HTTP, and its token."""
        return Port(await self._do("ports_get", str(port)))

    async def snapshot(self, name: str) -> Snapshot:
        """Saves its files as an image; `snapshot.image` opens sessions of it."""
        return Snapshot(await self._do("sessions_snapshot", body={"name": name}))

    async def fork(self, **fields: Unpack[SessionRequest]) -> AsyncSession:
        """Opens a session with the files of this one, and without its programs."""
        return AsyncSession(self._core, (await self._do("sessions_fork", body=fields))["id"])

    def watch(self, path: Optional[str] = None, *, deep: bool = False,
              attributes: bool = False) -> AsyncEvents:
        """What happens to files, until `aclose`. A stream that breaks is not taken up again:
        what happened meanwhile would be missing."""
        query = {"path": path, "deep": deep, "attributes": attributes,
                 "stream": "ndjson"}
        return AsyncEvents(self._core, lambda *_: _ask(
            "files_watch", [self.id], query=query), False)

    async def close(self) -> None:
        """Ends the session. One that has ended is no error."""
        try:
            await self._do("sessions_stop")
        except NotFound:
            pass

    # Programs.

    async def start(self, command: Union[str, Sequence[str]], *,
                    env: Optional[Dict[str, str]] = None, cwd: Optional[str] = None,
                    stdin: Optional[str] = None, stdin_live: bool = False,
                    timeout: Optional[Duration] = None,
                    terminal: Optional[Tuple[int, int]] = None) -> AsyncProgram:
        """Starts a program, or a line of shell. `terminal` is (rows, columns)."""
        body = _exec_body(command, env, cwd, stdin, stdin_live, timeout, terminal)
        return AsyncProgram(self._core, self.id, (await self._do("execs_start", body=body))["exec"])

    async def exec(self, command: Union[str, Sequence[str]], *,
                   env: Optional[Dict[str, str]] = None, cwd: Optional[str] = None,
                   stdin: Optional[str] = None,
                   timeout: Optional[Duration] = None) -> ExecResult:
        """Runs a program to its end."""
        body = _exec_body(command, env, cwd, stdin, False, timeout, None)
        return ExecResult(await self._do("execs_start", query={"wait": True}, body=body))

    async def programs(self) -> List[ExecInfo]:
        return [ExecInfo(one) for one in await self._do("execs_list")]

    def program(self, number: int) -> AsyncProgram:
        """One that was started before."""
        return AsyncProgram(self._core, self.id, number)

    async def context(self, language: str, name: Optional[str] = None) -> AsyncContext:
        """An interpreter that remembers; one of that name which runs is taken."""
        body: ContextBody = {"language": language}
        if name is not None:
            body["name"] = name
        told = await self._do("contexts_open", body=body)
        return AsyncContext(self._core, self.id, told["context"])

    # Files.

    async def read(self, path: str, offset: int = 0, length: int = 0) -> bytes_:
        ask = _ask("files_get", (self.id, path), {"offset": offset or None,
                                                  "length": length or None})
        return (await self._core.ask(ask)).body

    async def write(self, path: str, data: Union[bytes_, str], mode: Optional[str] = None) -> None:
        """Writes a file, with its parents. `mode` is octal text: "0755"."""
        sent = data.encode() if isinstance(data, str) else data
        await self._do("files_put", path, query={"mode": mode}, body=sent)

    async def remove(self, path: str, deep: bool = False) -> None:
        await self._do("files_remove", path, query={"deep": deep})

    async def list(self, path: Optional[str] = None, deep: bool = False) -> List[Entry]:
        return [Entry(one) for one in await self._do("files_list",
                                                     query={"path": path, "deep": deep})]

    async def stat(self, path: str) -> Entry:
        return Entry(await self._do("files_stat", query={"path": path}))

    async def mkdir(self, path: str) -> None:
        body: MkdirBody = {"path": path}
        await self._do("files_mkdir", body=body)

    async def move(self, source: str, target: str) -> None:
        body: MoveBody = {"from": source, "to": target}
        await self._do("files_move", body=body)

    async def pack(self, path: Optional[str] = None) -> bytes_:
        """A directory as a tar archive."""
        return (await self._core.ask(_ask("files_pack", (self.id,), {"path": path}))).body

    async def unpack(self, archive: bytes_, path: Optional[str] = None) -> None:
        await self._do("files_unpack", query={"path": path}, body=archive)

    # The workspace, if it has one with a layer of its own.

    async def changes(self, names: bool = False, path: Optional[str] = None) -> List[Change]:
        told = await self._do("workspaces_diff", query={"names": names, "path": path})
        return [Change(one) for one in told]

    async def diff(self, path: Optional[str] = None) -> str:
        """The changes as one unified diff."""
        ask = _ask("workspaces_diff", (self.id,), {"format": "text", "path": path})
        return (await self._core.ask(ask)).body.decode("utf-8", "replace")

    async def commit(self, paths: Optional[Sequence[str]] = None,
                     links_out: bool = False) -> Committed:
        body: CommitBody = {"links_out": links_out}
        if paths is not None:
            body["paths"] = [*paths]
        return Committed(await self._do("workspaces_commit", body=body))

    async def discard(self) -> None:
        await self._do("workspaces_discard")

    async def checkpoints(self) -> List[str]:
        return [str(name) for name in await self._do("workspaces_checkpoints")]

    async def checkpoint(self, name: str) -> None:
        await self._do("workspaces_checkpoint", name)

    async def rollback(self, name: str) -> None:
        await self._do("workspaces_rollback", name)

    async def __aenter__(self) -> AsyncSession:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


# `list` is a method of a session.
_Entries = List["Entry"]
_Changes = List["Change"]
_Names = List[str]


class Session:
    """AsyncSession, for whoever blocks."""

    def __init__(self, inner: AsyncSession) -> None:
        self._inner, self.id = inner, inner.id

    def info(self) -> SessionInfo:
        return _now(self._inner.info())

    def renew(self, lease: Optional[Duration] = None) -> SessionInfo:
        return _now(self._inner.renew(lease))

    def allow(self, *entries: str) -> SessionInfo:
        return _now(self._inner.allow(*entries))

    def pause(self, **body: Unpack[PauseBody]) -> SessionInfo:
        return _now(self._inner.pause(**body))

    def resume(self) -> SessionInfo:
        return _now(self._inner.resume())

    def port(self, port: int) -> Port:
        return _now(self._inner.port(port))

    def snapshot(self, name: str) -> Snapshot:
        return _now(self._inner.snapshot(name))

    def fork(self, **fields: Unpack[SessionRequest]) -> Session:
        return Session(_now(self._inner.fork(**fields)))

    def watch(self, path: Optional[str] = None, *, deep: bool = False,
              attributes: bool = False) -> Events:
        return Events(self._inner.watch(path, deep=deep, attributes=attributes))

    def close(self) -> None:
        _now(self._inner.close())

    def start(self, command: Union[str, Sequence[str]], *, env: Optional[Dict[str, str]] = None,
              cwd: Optional[str] = None, stdin: Optional[str] = None, stdin_live: bool = False,
              timeout: Optional[Duration] = None,
              terminal: Optional[Tuple[int, int]] = None) -> Program:
        return Program(_now(self._inner.start(
            command, env=env, cwd=cwd, stdin=stdin, stdin_live=stdin_live, timeout=timeout,
            terminal=terminal)))

    def exec(self, command: Union[str, Sequence[str]], *, env: Optional[Dict[str, str]] = None,
             cwd: Optional[str] = None, stdin: Optional[str] = None,
             timeout: Optional[Duration] = None) -> ExecResult:
        return _now(self._inner.exec(command, env=env, cwd=cwd, stdin=stdin, timeout=timeout))

    def programs(self) -> List[ExecInfo]:
        return _now(self._inner.programs())

    def program(self, number: int) -> Program:
        return Program(self._inner.program(number))

    def context(self, language: str, name: Optional[str] = None) -> Context:
        return Context(_now(self._inner.context(language, name)))

    def read(self, path: str, offset: int = 0, length: int = 0) -> bytes_:
        return _now(self._inner.read(path, offset, length))

    def write(self, path: str, data: Union[bytes_, str], mode: Optional[str] = None) -> None:
        _now(self._inner.write(path, data, mode))

    def remove(self, path: str, deep: bool = False) -> None:
        _now(self._inner.remove(path, deep))

    def list(self, path: Optional[str] = None, deep: bool = False) -> _Entries:
        return _now(self._inner.list(path, deep))

    def stat(self, path: str) -> Entry:
        return _now(self._inner.stat(path))

    def mkdir(self, path: str) -> None:
        _now(self._inner.mkdir(path))

    def move(self, source: str, target: str) -> None:
        _now(self._inner.move(source, target))

    def pack(self, path: Optional[str] = None) -> bytes_:
        return _now(self._inner.pack(path))

    def unpack(self, archive: bytes_, path: Optional[str] = None) -> None:
        _now(self._inner.unpack(archive, path))

    def changes(self, names: bool = False, path: Optional[str] = None) -> _Changes:
        return _now(self._inner.changes(names, path))

    def diff(self, path: Optional[str] = None) -> str:
        return _now(self._inner.diff(path))

    def commit(self, paths: Optional[Sequence[str]] = None, links_out: bool = False) -> Committed:
        return _now(self._inner.commit(paths, links_out))

    def discard(self) -> None:
        _now(self._inner.discard())

    def checkpoints(self) -> _Names:
        return _now(self._inner.checkpoints())

    def checkpoint(self, name: str) -> None:
        _now(self._inner.checkpoint(name))

    def rollback(self, name: str) -> None:
        _now(self._inner.rollback(name))

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# The clients.


class AsyncClient:
    """A daemon, for programs with an event loop.

    url: http://…, https://… or unix:/path; else VIAL_URL, else the usual socket.
    token: a bearer token; else VIAL_TOKEN.
    retries: how often what a connection lost is tried again.
    patience: how many seconds a daemon that is busy is waited for.
    timeout: how many seconds may pass without a byte; None: any number.
    ca: a file with the certificates to trust, for https."""

    def __init__(self, url: Optional[str] = None, token: Optional[str] = None, *,
                 retries: int = 3, patience: float = 60, timeout: Optional[float] = None,
                 ca: Optional[str] = None) -> None:
        self._core = _Core(url, token, retries, patience, timeout, ca, _open_async,
                           asyncio.sleep)

    async def _get(self, operation: Operation, *names: str, **query: Any) -> Any:
        return (await self._core.ask(_ask(operation, names, query))).json

    async def run(self, language: Optional[str] = None, code: Optional[str] = None, /, *,
                  raw: bool = False, key: Optional[str] = None,
                  **fields: Unpack[Request]) -> Result:
        """Runs code, or `command=[…]`, in a vessel of its own. Run once, however often a
        connection is lost; `key` is the Idempotency-Key, else a new one."""
        body = _fields(fields, language=language, code=code)
        key = key or uuid.uuid4().hex
        ask = _ask("run_code", query={"raw": raw}, body=body, key=key,
                   headers={"X-Request-Id": key})
        try:
            return Result((await self._core.ask(ask)).json)
        except (KeyboardInterrupt, asyncio.CancelledError):
            await self._give_up(key)
            raise

    async def _give_up(self, request: str) -> None:
        """A run with a key goes on when its client hangs up; nobody wants this one."""
        try:
            await self._core.once(_ask("runs_cancel", (request,)))
        except (_LostError, VialError):
            pass

    def stream(self, language: Optional[str] = None, code: Optional[str] = None, /,
               **fields: Unpack[Request]) -> AsyncEvents:
        """Runs code and tells what it prints, as it does. It is not tried again: hanging up
        ends the run."""
        body = _fields(fields, language=language, code=code)
        return AsyncEvents(self._core, lambda *_: _ask(
            "run_code", query={"stream": "ndjson"}, body=body), False)

    def batch(self, requests: Optional[Iterable[Request]] = None, *,
              request: Optional[Request] = None, inputs: Optional[Iterable[Request]] = None,
              parallel: Optional[int] = None, keep: bool = False) -> AsyncBatch:
        """Runs many requests, or one `request` on many `inputs`, compiled once. With `keep`
        what was compiled is there for later batches of the same request; inputs may have
        files and arguments of their own then."""
        body: BatchBody = {}
        if (requests is None) == (inputs is None) or (request is None) != (inputs is None):
            raise TypeError("give either requests, or request and inputs")
        if requests is not None:
            body["requests"] = list(requests)
        if request is not None and inputs is not None:
            body["request"], body["inputs"] = request, list(inputs)
        if parallel is not None:
            body["parallel"] = parallel
        if keep:
            body["keep"] = True
        return AsyncBatch(self._core, cast(Dict[str, Any], body))

    async def plan(self, language: Optional[str] = None, code: Optional[str] = None, /,
                   **fields: Unpack[Request]) -> Plan:
        """What would be run, and how."""
        body = _fields(fields, language=language, code=code)
        return Plan((await self._core.ask(_ask("info_plan", body=body))).json)

    async def runs(self, limit: Optional[int] = None, all: bool = False) -> List[Run]:
        return [Run(one) for one in await self._get("runs_list", limit=limit, all=all)]

    async def run_details(self, request: str, caller: Optional[str] = None) -> RunDetails:
        return RunDetails(await self._get("runs_get", request, caller=caller))

    async def cancel(self, request: str, caller: Optional[str] = None) -> None:
        await self._get("runs_cancel", request, caller=caller)

    async def session(self, **fields: Unpack[SessionRequest]) -> AsyncSession:
        """Opens a session; close it, or use `async with`."""
        told = (await self._core.ask(_ask("sessions_start", body=fields))).json
        return AsyncSession(self._core, told["id"])

    async def remove_snapshot(self, image: str) -> None:
        """Of the caller's own: what `Session.snapshot` gave."""
        await self._get("snapshots_remove", image)

    async def volumes(self) -> List[Volume]:
        """Those that the caller may have."""
        return [Volume(one) for one in await self._get("volumes_list")]

    async def volume(self, name: str) -> Volume:
        return Volume(await self._get("volumes_get", name))

    async def create_volume(self, name: str, writers: Optional[str] = None,
                            size: Optional[Size] = None) -> Volume:
        """Makes one: a token's own, whose name begins with the token's and a slash."""
        body = _fields({}, name=name, writers=writers, size=size)
        return Volume((await self._core.ask(_ask("volumes_create", body=body))).json)

    async def remove_volume(self, name: str) -> None:
        """With all that is in it, unless a vessel has it."""
        await self._get("volumes_remove", name)

    def session_of(self, id: str) -> AsyncSession:
        """A session that is open already."""
        return AsyncSession(self._core, id)

    async def sessions(self, all: bool = False) -> List[SessionRow]:
        return [SessionRow(one) for one in await self._get("sessions_list", all=all)]

    async def languages(self) -> List[Language]:
        return [Language(one) for one in await self._get("info_languages")]

    async def images(self) -> List[Image]:
        return [Image(one) for one in await self._get("images_list")]

    def pull(self, name: str, timeout: Optional[Duration] = None) -> AsyncEvents:
        """Pulls an image, and tells how it gets on; `image` is there at the end."""
        body: PullBody = {"name": name}
        if timeout is not None:
            body["timeout"] = timeout
        return AsyncEvents(self._core, lambda *_: _ask(
            "images_pull", query={"stream": "ndjson"}, body=body), False)

    async def prune(self, all: bool = False) -> Pruned:
        body: PruneBody = {"all": all}
        return Pruned((await self._core.ask(_ask("images_prune", body=body))).json)

    async def version(self) -> Version:
        return Version(await self._get("info_version"))

    async def doctor(self) -> Doctor:
        return Doctor(await self._get("info_doctor"))

    async def config(self) -> Config:
        return Config(await self._get("info_config"))

    async def vessels(self) -> List[Vessel]:
        return [Vessel(one) for one in await self._get("info_vessels")]

    async def schema(self, name: str) -> Dict[str, Any]:
        return cast(Dict[str, Any], await self._get("info_schema", name))

    async def openapi(self) -> Dict[str, Any]:
        return cast(Dict[str, Any], await self._get("openapi_get"))

    async def pool(self) -> Pool:
        return Pool(await self._get("page_pool"))

    async def recent(self) -> Recent:
        return Recent(await self._get("page_recent"))

    async def metrics(self) -> str:
        return (await self._core.ask(_ask("info_metrics"))).body.decode()

    async def health(self) -> Health:
        return Health(await self._get("info_health"))

    async def ready(self) -> Ready:
        """Whether it can open vessels now; no exception when it cannot."""
        try:
            answer = await self._core.once(_ask("info_ready"))
        except _LostError as error:
            raise self._core.lost(error) from error
        return Ready(answer.json)

    async def close(self) -> None:
        self._core.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Client:
    """A daemon, for programs that block; threads may share it. AsyncClient says what the
    arguments are."""

    def __init__(self, url: Optional[str] = None, token: Optional[str] = None, *,
                 retries: int = 3, patience: float = 60, timeout: Optional[float] = None,
                 ca: Optional[str] = None) -> None:
        self._inner = AsyncClient(url, token, retries=retries, patience=patience,
                                  timeout=timeout, ca=ca)
        self._inner._core.open_wire = _open_blocking
        self._inner._core.sleep = _sleep_blocking

    def run(self, language: Optional[str] = None, code: Optional[str] = None, /, *,
            raw: bool = False, key: Optional[str] = None, **fields: Unpack[Request]) -> Result:
        """Runs code, or `command=[…]`, in a vessel of its own. Run once, however often a
        connection is lost; `key` is the Idempotency-Key, else a new one."""
        return _now(self._inner.run(language, code, raw=raw, key=key, **fields))

    def stream(self, language: Optional[str] = None, code: Optional[str] = None, /,
               **fields: Unpack[Request]) -> Events:
        """Runs code and tells what it prints, as it does."""
        return Events(self._inner.stream(language, code, **fields))

    def batch(self, requests: Optional[Iterable[Request]] = None, *,
              request: Optional[Request] = None, inputs: Optional[Iterable[Request]] = None,
              parallel: Optional[int] = None, keep: bool = False) -> Batch:
        """Runs many requests, or one `request` on many `inputs`, compiled once; `keep`: as
        the other client has it."""
        return Batch(self._inner.batch(requests, request=request, inputs=inputs,
                                       parallel=parallel, keep=keep))

    def plan(self, language: Optional[str] = None, code: Optional[str] = None, /,
             **fields: Unpack[Request]) -> Plan:
        return _now(self._inner.plan(language, code, **fields))

    def runs(self, limit: Optional[int] = None, all: bool = False) -> List[Run]:
        return _now(self._inner.runs(limit, all))

    def run_details(self, request: str, caller: Optional[str] = None) -> RunDetails:
        return _now(self._inner.run_details(request, caller))

    def cancel(self, request: str, caller: Optional[str] = None) -> None:
        _now(self._inner.cancel(request, caller))

    def session(self, **fields: Unpack[SessionRequest]) -> Session:
        """Opens a session; close it, or use `with`."""
        return Session(_now(self._inner.session(**fields)))

    def remove_snapshot(self, image: str) -> None:
        _now(self._inner.remove_snapshot(image))

    def volumes(self) -> List[Volume]:
        return _now(self._inner.volumes())

    def volume(self, name: str) -> Volume:
        return _now(self._inner.volume(name))

    def create_volume(self, name: str, writers: Optional[str] = None,
                      size: Optional[Size] = None) -> Volume:
        return _now(self._inner.create_volume(name, writers, size))

    def remove_volume(self, name: str) -> None:
        _now(self._inner.remove_volume(name))

    def session_of(self, id: str) -> Session:
        return Session(self._inner.session_of(id))

    def sessions(self, all: bool = False) -> List[SessionRow]:
        return _now(self._inner.sessions(all))

    def languages(self) -> List[Language]:
        return _now(self._inner.languages())

    def images(self) -> List[Image]:
        return _now(self._inner.images())

    def pull(self, name: str, timeout: Optional[Duration] = None) -> Events:
        return Events(self._inner.pull(name, timeout))

    def prune(self, all: bool = False) -> Pruned:
        return _now(self._inner.prune(all))

    def version(self) -> Version:
        return _now(self._inner.version())

    def doctor(self) -> Doctor:
        return _now(self._inner.doctor())

    def config(self) -> Config:
        return _now(self._inner.config())

    def vessels(self) -> List[Vessel]:
        return _now(self._inner.vessels())

    def schema(self, name: str) -> Dict[str, Any]:
        return _now(self._inner.schema(name))

    def openapi(self) -> Dict[str, Any]:
        return _now(self._inner.openapi())

    def pool(self) -> Pool:
        return _now(self._inner.pool())

    def recent(self) -> Recent:
        return _now(self._inner.recent())

    def metrics(self) -> str:
        return _now(self._inner.metrics())

    def health(self) -> Health:
        return _now(self._inner.health())

    def ready(self) -> Ready:
        return _now(self._inner.ready())

    def close(self) -> None:
        self._inner._core.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
