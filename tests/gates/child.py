#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Between clone and exec there are system calls only: what the native driver's child
calls from libc is this list."""
import os
import subprocess
import sys

ALLOWED = {
    "syscall", "__errno_location", "_exit",
    # what compilers put in by themselves
    "memcpy", "memset", "memmove", "memcmp", "__stack_chk_fail", "_GLOBAL_OFFSET_TABLE_",
    "__stack_chk_guard",  # arm64
}
SANITIZERS = ("__asan_", "__ubsan_", "__sanitizer_", "__gcov_")


def objects(build):
    for where, _dirs, names in os.walk(build):
        for name in names:
            if name.endswith("driver_native_child.c.o"):
                yield os.path.join(where, name)


def check(_root, build):
    paths = list(objects(build))
    if not paths:
        return ["no object of src/driver/native/child.c in %s" % build]
    found = []
    for path in paths:
        out = subprocess.run(["nm", "--undefined-only", path], capture_output=True, text=True,
                             check=True).stdout
        used = {line.split()[-1] for line in out.splitlines()}
        used = {name for name in used if not name.startswith(SANITIZERS)}
        found += ["src/driver/native/child.c calls %s" % name
                  for name in sorted(used - ALLOWED)]
    return found


if __name__ == "__main__":
    complaints = check(None, sys.argv[1])
    print("\n".join(complaints) or "ok")
    sys.exit(bool(complaints))
