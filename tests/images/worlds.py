# SPDX-License-Identifier: Apache-2.0
"""Images for runs: a small Debian that mmdebstrap makes once for the build, and stores of it
for root and for an ordinary user."""
import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import hand_store  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
VIAL = os.path.abspath(os.environ.get("VIAL", ROOT / "build" / "vial"))
CACHE = ROOT / "build" / "images"
PATIENCE = 180
UID = 1000
FIRST = "200000"  # of that user's range of ids
RANGED = ROOT / "tests/images/with_range"
BECOME = ["setpriv", "--reuid", str(UID), "--regid", str(UID), "--clear-groups", "--"]
SUITE = "bookworm"


def wait_for(condition):
    """Waits until CONDITION() is true, and gives what it gave."""
    end = time.monotonic() + PATIENCE
    while not (true := condition()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return true


def family(pid):
    """PID and all that descend from it."""
    found = [pid]
    for one in found:
        with contextlib.suppress(OSError):
            text = Path("/proc/%d/task/%d/children" % (one, one)).read_text()
            found += [int(child) for child in text.split()]
    return found


def alive(pids):
    """Those of them that still run."""
    left = []
    for pid in pids:
        with contextlib.suppress(OSError):
            state = Path("/proc/%d/stat" % pid).read_text().rpartition(")")[2].split()[0]
            left += [pid] if state not in "ZX" else []
    return left


def debian():
    """A tar of it. Made under another name first, so that half of one is never used."""
    made = CACHE / f"{SUITE}.tar"
    if not made.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        half = CACHE / f"half-{os.getpid()}.tar"
        subprocess.run(["mmdebstrap", "--variant=minbase", "--include=python3,sudo",
                        "--dpkgopt=path-exclude=/usr/share/doc/*",
                        "--dpkgopt=path-exclude=/usr/share/man/*",
                        SUITE, str(half)], check=True, capture_output=True)
        half.rename(made)
    return made


def apt(tree, *args):
    """The host's apt-get for TREE, of which it reads and keeps everything."""
    subprocess.run(["apt-get", "-q", "-o", f"Dir={tree}", "-o", "Debug::NoLocking=1", "-o",
                    f"Dir::State::status={tree}/var/lib/dpkg/status", "-o",
                    "APT::Sandbox::User=root", "-o", "Acquire::Languages=none", *args],
                   check=True, capture_output=True)


def stanza(package):
    """What an index says of the file PACKAGE."""
    said = subprocess.run(["dpkg-deb", "-f", str(package)], check=True, capture_output=True,
                          text=True).stdout
    data = package.read_bytes()
    return (f"{said}Filename: ./{package.name}\nSize: {len(data)}\n"
            f"SHA256: {hashlib.sha256(data).hexdigest()}\n\n")


def mirror(*packages):
    """A directory with all that the image lacks of PACKAGES, for apt. Made under another name
    first."""
    made = CACHE / "mirror"
    if not made.exists():
        half, tree = (CACHE / f"half-{what}-{os.getpid()}" for what in ("mirror", "tree"))
        half.mkdir()
        tree.mkdir()
        subprocess.run(["tar", "-C", tree, "-xpf", debian(), "./etc/apt", "./var/lib/apt",
                        "./var/lib/dpkg", "./var/cache/apt"], check=True)
        apt(tree, "update")
        apt(tree, "install", "-y", "--no-install-recommends", "--download-only", *packages)
        for package in sorted((tree / "var/cache/apt/archives").glob("*.deb")):
            shutil.move(package, half / package.name.replace("%3a", "_"))
        (half / "Packages").write_text("".join(map(stanza, sorted(half.glob("*.deb")))))
        shutil.rmtree(tree)
        half.rename(made)
    return made


class World:
    """A store with images in it, and the command run by its owner."""

    def __init__(self, home, uid, ids=None):
        """IDS: user 1000's range of ids begins there; "none": he has none (with_range)."""
        self.home = home
        self.ids = ids
        self.newuidmap = ""
        self.uid = uid
        self.store = home / "store"
        home.mkdir(mode=0o755)
        (home / "work").mkdir()
        if uid:
            for path in (home, home / "work"):
                os.chown(path, uid, uid)

    def _become(self):
        if self.uid:
            os.setgroups([])
            os.setresgid(self.uid, self.uid, self.uid)
            os.setresuid(self.uid, self.uid, self.uid)

    def do(self, *command, **more):
        more.setdefault("stdin", subprocess.DEVNULL)
        if self.ids:
            command = [RANGED, *BECOME, *command]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE,
                              check=False, preexec_fn=None if self.ids else self._become,
                              cwd=self.home / "work", env=self.env(), **more)

    def env(self):
        kept = {k: v for k, v in os.environ.items() if not k.startswith("VIAL_")}
        ranged = {"RANGE": self.ids, "NEWUIDMAP": self.newuidmap} if self.ids else {}
        return {**kept, **ranged, "HOME": str(self.home), "VIAL_IMAGES": str(self.store),
                "VIAL_VOLUME_STORE": str(self.home / "volumes")}

    def vial(self, *args):
        return self.do(VIAL, *args)

    def run(self, *args):
        """vial run --json …; the result, whatever came of it."""
        done = self.vial("run", "--json", *args)
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    def sh(self, script, *args, image="debian"):
        return self.run("--image", image, "--timeout", "2m", "--memory", "1g", *args, "sh",
                        script)

    def debian(self):
        tree = self.home / "tree"
        made = self.do("sh", "-c", f"mkdir {tree} && tar -C {tree} --numeric-owner "
                                   f"--exclude=./dev -xpf {debian()} && "
                                   f"echo here > {tree}/etc/marked")
        assert made.returncode == 0, made.stderr
        return self.put("debian", [tree], env=["PATH=/usr/sbin:/usr/bin:/sbin:/bin"])

    def put(self, name, layers, **config):
        digest = hand_store.put(self.store, name, layers, **config)
        if self.uid:
            for path in (self.store, *self.store.glob("*"), *self.store.glob("*/*"),
                         *self.store.glob("*/*/record")):
                os.chown(path, self.uid, self.uid)
        return digest

    def stand_on_debian(self, name):
        """NAME's layers lie on Debian's, so that it has programs."""
        def record(image):
            digest = (self.store / "names" / f"{image}:latest").read_text()
            return self.store / "images" / digest.split(":")[1] / "record"
        base = record("debian").read_text().split("layer ")[1].strip()
        text = record(name).read_text()
        record(name).write_text(text.replace("layer ", f"layer {base}\nlayer ", 1))

    def bring(self, name, tree):
        """Imports a tar, which can be verified later: `put` and `debian` make no sums."""
        done = self.vial("image", "import", name, "--from", str(tree))
        assert done.returncode == 0, done.stderr

    def names(self):
        return {n.replace("%2F", "/") for n in os.listdir(self.store / "names")}

    def at_work(self):
        """The programs that write to the store."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError, IndexError):
                args = Path("/proc/%s/cmdline" % pid).read_bytes().split(b"\0")
                if args[0] == b"vial-image" and str(self.store).encode() in args[1]:
                    found.append(int(pid))
        return found

    def check_whole(self):
        """Once nobody is at work: every name is an image that is as it came; what is no image's goes,
        and nothing is left."""
        wait_for(lambda: not self.at_work())
        for name in sorted(self.names()):
            done = self.vial("image", "verify", name)
            assert done.returncode == 0, done.stdout + done.stderr
        done = self.vial("image", "prune", "--json")
        assert done.returncode == 0, done.stderr
        assert os.listdir(self.store / "tmp") == []

    def remove(self):
        shutil.rmtree(self.home)

    def machine(self):
        """An image that a template made of a Debian, which was imported, step by step."""
        self.bring("base", debian())
        (self.home / "work/Dockerfile").write_text(
            "FROM base\nRUN echo made > /etc/machine; rm /etc/issue; mkdir /srv/work\n"
            "WORKDIR /srv/work\nENV MACHINE=yes\n")
        done = self.vial("template", "build", "-t", "machine", "--memory", "1g", ".")
        assert done.returncode == 0, done.stderr


@contextlib.contextmanager
def imported(home):
    """Root's, whose store has an image, `debian`, for as long as it is used."""
    made = World(home, 0)
    made.bring("debian", debian())
    yield made
    made.remove()


if __name__ == "__main__":  # DIR UID [RANGE]: a world there, with its images; its store is printed
    world = World(Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
    world.machine()
    if not world.ids:
        world.debian()
    print(world.store)
