# SPDX-License-Identifier: Apache-2.0
"""A program that can be killed at exactly one of its system calls: ptrace, by ctypes, so
that it needs nothing but python (the test machine has no strace)."""
import ctypes
import os
import platform
import signal
import struct

DETACH, SYSCALL, SEIZE, INTERRUPT, CALL_INFO = 17, 24, 0x4206, 0x4207, 0x420e
SYSGOOD, OF_CLONES, EXITKILL = 1, 8, 1 << 20
ENTRY = 1  # what CALL_INFO calls the stop before a call
STOPPED_BY_CALL = signal.SIGTRAP | 0x80
WALL = 0x40000000
MKDIRAT = {"x86_64": 258}.get(platform.machine(), 34)
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def ptrace(request, pid, addr=0, data=0):
    return LIBC.ptrace(request, pid, addr, data)


def call_info(tid):
    """Whether TID enters a system call, which, and the arguments of that."""
    room = ctypes.create_string_buffer(128)
    ptrace(CALL_INFO, tid, len(room), ctypes.addressof(room))
    return room.raw[0] == ENTRY, *struct.unpack_from("Q", room.raw, 24), struct.unpack_from(
        "6Q", room.raw, 32)


def text_at(pid, address):
    try:
        with open("/proc/%d/mem" % pid, "rb", buffering=0) as memory:
            memory.seek(address)
            return memory.read(256).split(b"\0")[0]
    except (OSError, OverflowError, ValueError):
        return b""


class Stepper:
    """COMMAND, stopped at each system call of each of its threads; not those of other
    processes, even if they live in its memory."""

    def __init__(self, command, **env):
        held, go = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.read(held, 1)
            null = os.open("/dev/null", os.O_RDWR)
            for fd in range(3):
                os.dup2(null, fd)
            os.execve(command[0], command, {"PATH": os.environ["PATH"], **env})
        ptrace(SEIZE, self.pid, 0, SYSGOOD | OF_CLONES | EXITKILL)
        ptrace(INTERRUPT, self.pid)  # so that it can be told to step
        os.write(go, b"x")
        os.close(held)
        os.close(go)

    def is_ours(self, tid):
        return os.path.exists("/proc/%d/task/%d" % (self.pid, tid))

    def calls(self):
        """Yields (enters, number, arguments) at each stop; ends when nothing of it is
        left with us, neither a thread nor a process that is to be let go."""
        while True:
            try:
                tid, status = os.waitpid(-1, WALL)
            except ChildProcessError:
                return
            if not os.WIFSTOPPED(status):
                continue
            if not self.is_ours(tid):
                ptrace(DETACH, tid)
                continue
            what, pass_on = os.WSTOPSIG(status), 0
            if what == STOPPED_BY_CALL:
                yield call_info(tid)
            elif status >> 16 == 0:
                pass_on = what
            ptrace(SYSCALL, tid, 0, pass_on)

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        for _ in self.calls():
            pass
