# SPDX-License-Identifier: Apache-2.0
"""Bare roots of Debian releases, made by mmdebstrap and kept below a directory, and
programs that run in a copy of one."""
import hashlib
import os
import shutil
import subprocess

# Entered for good: who is merely in a chroot may make no user namespaces.
ENTER = """
cd "$1" && shift && mount --make-rprivate / && mount --bind . . && cd "$PWD" &&
mount --rbind /dev dev && mount -t proc proc proc && mount --rbind /sys sys &&
mount -t tmpfs -o mode=755 tmpfs mnt && mkdir mnt/old &&
for share in $SHARES; do mkdir -p "mnt/$share" && mount --bind "$share" "mnt/$share"; done
pivot_root . mnt/old && cd / && umount -l /mnt/old && exec "$@"
"""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Root:
    def __init__(self, path, shares=()):
        self.path = path
        self.shares = shares

    def command(self, *args, user=None):
        """A command's beginning; SHARES of the host lie below /mnt."""
        who = ["setpriv", "--reuid", user, "--regid", user, "--clear-groups"] if user else []
        return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "env",
                "SHARES=" + " ".join(self.shares), "sh", "-c", ENTER, "sh", self.path, *who,
                "env", "-i", "PATH=" + PATH, "HOME=/root" if not user else "HOME=/tmp",
                "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive", *args]

    def run(self, *args, user=None, status=0):
        done = subprocess.run(self.command(*args, user=user), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=1800, check=False)
        assert done.returncode == status, "%s: %s\n%s" % (args, done.returncode, done.stdout)
        return done.stdout

    def sh(self, script, **how):
        return self.run("sh", "-euc", script, **how)

    def file(self, name):
        return os.path.join(self.path, name.lstrip("/"))

    def names(self):
        """Every file and directory in it."""
        out = subprocess.run(["find", ".", "-xdev", "(", "-type", "d", "-printf", "%p/\n", ")",
                              "-o", "-print"], cwd=self.path, capture_output=True, text=True,
                             check=True)
        return set(out.stdout.splitlines())


def kept(directory, suite, name, packages, *options):
    """The path of a root with PACKAGES, which is made when there is none yet."""
    path = os.path.join(directory, "%s-%s" % (suite, name))
    stamp, want = path + ".stamp", hashlib.sha256(" ".join([*packages, *options]).encode()).hexdigest()
    if os.path.exists(stamp) and open(stamp, encoding="ascii").read() == want:
        return path
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(directory, exist_ok=True)
    include = ["--include=" + ",".join(packages)] if packages else []
    with open(path + ".log", "wb") as log:
        subprocess.run(["mmdebstrap", "--variant=minbase", *options, *include, suite, path],
                       stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=True)
    with open(stamp, "w", encoding="ascii") as file:
        file.write(want)
    return path
