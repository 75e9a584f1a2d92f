#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The keeper has no parser of JSON, YAML or HTTP in it, no thread, and starts no program
but the guest, its gate, vial-image and, for volumes with a size, mkfs.ext4: what the linked
program holds says so."""
import glob
import os
import re
import subprocess
import sys

FOREIGN = re.compile(r"^_*(json_|jansson|yaml_|MHD_|curl_|http_|gnutls_)|^seccomp_(init|rule)")
THREADS = re.compile(r"^_*pthread_create$|^thrd_create$")
PROGRAMS = re.compile(r"^_*(system|popen|execvpe?|execlp?|posix_spawnp?)$")


def symbols(program):
    out = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1] for line in out.splitlines()}


def calls(build):
    """What the keeper's own objects, linked or not, want of others. Some of it glibc brings
    into every static program that forks: 2.41 has popen there."""
    objects = glob.glob(os.path.join(build, "vial-keeper.p/*.o"))
    out = subprocess.run(["nm", "-u", os.path.join(build, "libkeeper-parts.a"), *objects],
                         capture_output=True, text=True, check=True).stdout
    return {line.split()[-1] for line in out.splitlines() if line.strip().startswith("U ")}


def check(_root, build):
    program = os.path.join(build, "vial-keeper")
    if not os.path.exists(program):
        return ["%s does not exist" % program]
    there = symbols(program)
    if not there & {"keeper_serve", "warden_run"}:
        return ["vial-keeper has no symbols to look at"]
    found = ["vial-keeper holds %s" % name for name in sorted(there)
             if FOREIGN.search(name) or THREADS.search(name)]
    called = calls(build)
    if "fork" not in called and "vfork" not in called and "syscall" not in called:
        found.append("vial-keeper has no calls to look at")
    found += ["vial-keeper calls %s" % name for name in sorted(called) if PROGRAMS.search(name)]
    needed = subprocess.run(["readelf", "-d", program], capture_output=True, text=True,
                            check=True).stdout
    found += ["vial-keeper needs %s" % line.split("[")[1].rstrip("]")
              for line in needed.splitlines() if "(NEEDED)" in line]
    return found


if __name__ == "__main__":
    complaints = check(None, sys.argv[1])
    print("\n".join(complaints) or "ok")
    sys.exit(bool(complaints))
