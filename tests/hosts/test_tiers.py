# SPDX-License-Identifier: Apache-2.0
"""The ladder: an ordinary user, one without user namespaces, and inside a container.
Each gets the layers that are really there, named, or a refusal."""
import ast
import ctypes
import json
import os
import shutil
import socket
import subprocess
import tempfile

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
VIAL = os.path.abspath(os.environ.get("VIAL", os.path.join(HERE, "../../build/vial")))
PARTS = ("vial", "vial-init", "runtimes", "presets", "seccomp")
# Not the variables that steer these tests, which vial would refuse.
CLEAN = {"PATH": os.environ["PATH"], "HOME": "/tmp"}
USER = ["setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups", "--"]
# A user namespace in which no further one can be made.
NO_NAMESPACES = USER + ["unshare", "-Ur", "sh", "-c",
                        'echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"', "sh"]
ATTACK = r"""
import os, socket, signal
got = []
for path in ("/root", "/home", "/var/lib", "/etc/shadow", os.environ["CANARY"]):
    try:
        got.append(os.listdir(path) if os.path.isdir(path) else open(path).read())
    except OSError:
        pass
for path in ("/usr/x", "/etc/x", "/var/tmp/x", "/tmp/x-vial", "/dev/shm/x-vial"):
    try:
        open(path, "w").close()
        got.append(path)
    except OSError:
        pass
for family in (socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, socket.AF_VSOCK):
    try:
        socket.socket(family, socket.SOCK_DGRAM)
        got.append(family)
    except OSError:
        pass
for pid in (1, os.getppid(), int(os.environ["SENTINEL"])):
    try:
        os.kill(pid, 0)
        got.append(pid)
    except OSError:
        pass
print(got)
"""
# What Landlock does not judge. Each that works leaves its name.
REACH = r"""
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
place, sentinel = os.environ["PLACE"], int(os.environ["SENTINEL"])
got = []

def attempt(name, act):
    try:
        if act() != -1:
            got.append(name)
    except OSError:
        pass

def dgram_pair():
    socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b"x", place + "/dgram")

def inotify():
    fd = libc.inotify_init1(0)
    return libc.inotify_add_watch(fd, b"/tmp", 0xfff) if fd >= 0 else -1

path = place.encode()
attempt("stream", lambda: socket.socket(socket.AF_UNIX).connect(place + "/stream"))
attempt("dgram", lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(
    b"x", place + "/dgram"))
attempt("dgram pair", dgram_pair)
attempt("chmod", lambda: os.chmod(place, 0o777))
attempt("fchmodat", lambda: libc.fchmodat(-100, path, 0o777, 0))
attempt("chown", lambda: os.chown(place, -1, os.getgid()))
attempt("lchown", lambda: os.lchown(place, -1, os.getgid()))
attempt("utimensat", lambda: os.utime(place))
attempt("utimes", lambda: libc.utimes(path, None))
attempt("setxattr", lambda: os.setxattr(place, "user.x", b"1"))
attempt("inotify", inotify)
attempt("proc", lambda: os.listdir("/proc") and None)
attempt("cmdline", lambda: open("/proc/%d/cmdline" % sentinel).read() and None)
attempt("setpriority", lambda: os.setpriority(os.PRIO_PROCESS, sentinel, 19))
attempt("setpriority user", lambda: os.setpriority(os.PRIO_USER, 0, 19))
attempt("ioprio_set", lambda: libc.syscall(251, 1, sentinel, 3 << 13))
attempt("affinity", lambda: os.sched_setaffinity(sentinel, {0}))
attempt("prlimit", lambda: libc.prlimit(sentinel, 7, (ctypes.c_ulong * 2)(9, 9), None))
print(sorted(got))
"""
# Shared memory is no data: only watching sees it.
SHARED = """
import mmap, time
size = 300 << 20
m = mmap.mmap(-1, size)
for i in range(0, size, 4096):
    m[i] = 1
time.sleep(5)
"""
SIX_BUSY = """
import os
for _ in range(5):
    if os.fork() == 0:
        break
while True:
    pass
"""


# Children that nobody waits for take their time with them.
UNWAITED = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    if os.fork() == 0:
        end = time.process_time() + 0.1
        while time.process_time() < end:
            pass
        os._exit(0)
    time.sleep(0.11)
"""


@pytest.fixture(scope="module")
def staged():
    """A copy of the build that every user can reach."""
    where = tempfile.mkdtemp(dir="/var/tmp")
    for part in PARTS:
        source = os.path.join(os.path.dirname(VIAL), part)
        (shutil.copytree if os.path.isdir(source) else shutil.copy2)(
            source, os.path.join(where, part))
    subprocess.run(["chmod", "-R", "a+rX", where], check=True)
    yield os.path.join(where, "vial")
    shutil.rmtree(where)


def run(prefix, vial, *flags, code="print(6)", language="python"):
    p = subprocess.run(prefix + [vial, "run", "--json", *flags, language, code], cwd="/",
                       capture_output=True, timeout=180, stdin=subprocess.DEVNULL, env=CLEAN)
    assert p.stdout, p.stderr
    return p.returncode, json.loads(p.stdout)


needs_root = pytest.mark.skipif(os.getuid() != 0, reason="changes users, so it needs root")


@needs_root
def test_an_ordinary_user_has_every_namespace(staged):
    status, r = run(USER, staged)
    assert (status, r["stdout"], r["isolation"]["level"]) == (0, "6\n", "namespaces")
    assert {"user", "pid", "mount", "net", "seccomp", "no_new_privs", "caps"} <= set(
        r["isolation"]["layers"])


@needs_root
def test_an_ordinary_user_without_a_cgroup_is_told_so_and_can_refuse(staged):
    _, r = run(USER, staged)
    if r["isolation"]["limits_by"].startswith("cgroup"):
        pytest.skip("this user has a writable cgroup")
    assert r["isolation"]["limits_by"] == "rlimit"
    status, r = run(USER, staged, "--require", "limits=cgroup")
    assert (status, r["verdict"], r["error"]["code"]) == (125, "denied", "VIAL-LIMITS")


@needs_root
def test_without_user_namespaces_the_lower_tier_runs_and_is_named(staged):
    status, r = run(NO_NAMESPACES, staged)
    assert (status, r["stdout"]) == (0, "6\n")
    assert r["isolation"]["level"] == "landlock"
    assert "user" not in r["isolation"]["layers"]
    assert {"seccomp", "landlock", "no_new_privs"} <= set(r["isolation"]["layers"])


@needs_root
def test_without_user_namespaces_a_requirement_of_them_refuses(staged):
    status, r = run(NO_NAMESPACES, staged, "--require", "namespaces")
    assert (status, r["verdict"], r["error"]["code"]) == (125, "denied", "VIAL-ISOLATION")
    assert r["stdout"] == ""


def landlock_abi():
    return ctypes.CDLL(None).syscall(ctypes.c_long(444), None, ctypes.c_size_t(0), 1)


@needs_root
def test_the_lower_tier_keeps_files_network_and_other_processes_away(staged):
    sentinel = subprocess.Popen(USER + ["sleep", "60"])
    canary = tempfile.NamedTemporaryFile(dir="/var/tmp", mode="w")
    canary.write("canary")
    canary.flush()
    os.chmod(canary.name, 0o644)
    try:
        _, r = run(NO_NAMESPACES, staged, "--env", "SENTINEL=%d" % sentinel.pid, "--env",
                   "CANARY=" + canary.name, code=ATTACK)
        assert r["verdict"] == "ok", r
        got = ast.literal_eval(r["stdout"])
        if landlock_abi() < 6:  # no scope for signals yet: SECURITY.md says so
            got = [g for g in got if not isinstance(g, int)]
        assert got == [], r
        assert sentinel.poll() is None
    finally:
        sentinel.kill()
        sentinel.wait()


@pytest.fixture
def neighbour():
    """A directory and a process of the same user, and two sockets for everyone."""
    place = tempfile.mkdtemp(dir="/var/tmp")
    stream = socket.socket(socket.AF_UNIX)
    dgram = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    stream.bind(os.path.join(place, "stream"))
    stream.listen()
    dgram.bind(os.path.join(place, "dgram"))
    for name in ("stream", "dgram"):
        os.chmod(os.path.join(place, name), 0o777)
    os.chmod(place, 0o755)
    os.chown(place, 1000, 1000)
    sentinel = subprocess.Popen(USER + ["sleep", "60"])
    yield {"PLACE": place, "SENTINEL": str(sentinel.pid)}
    sentinel.kill()
    sentinel.wait()
    stream.close()
    dgram.close()
    shutil.rmtree(place)


@needs_root
def test_the_lower_tier_reaches_no_socket_no_metadata_and_no_neighbour(staged, neighbour):
    flags = [x for pair in neighbour.items() for x in ("--env", "=".join(pair))]
    _, r = run(NO_NAMESPACES, staged, *flags, code=REACH)
    assert (r["verdict"], r["stdout"]) == ("ok", "[]\n"), r
    # Without vial all of it works, so that the emptiness above means something.
    python = shutil.which("python3", path="/usr/bin:/bin")
    free = subprocess.run(USER + [python, "-c", REACH], env=neighbour, cwd="/",
                          capture_output=True, text=True, timeout=60)
    for name in ("stream", "dgram", "dgram pair", "chmod", "fchmodat", "utimensat", "utimes",
                 "inotify", "proc", "cmdline", "setpriority", "affinity", "prlimit"):
        assert repr(name) in free.stdout, (name, free.stdout, free.stderr)


# A user namespace that may have one network namespace, and has it.
USED_UP = USER + ["unshare", "-Ur", "sh", "-c",
                  'echo 1 >/proc/sys/user/max_net_namespaces && exec unshare -n "$@"', "sh"]
NO_NETWORKS = USER + ["unshare", "-Ur", "sh", "-c",
                      'echo 0 >/proc/sys/user/max_net_namespaces && exec "$@"', "sh"]


def test_a_number_that_is_used_up_is_no_reason_for_a_lower_tier(staged):
    _, r = run(USED_UP, staged, code="print(1)")
    assert r["verdict"] == "failed" and r["error"]["cause"] == "No space left on device", r
    _, r = run(NO_NETWORKS, staged, code="print(1)")
    assert r["verdict"] == "failed" and "user.max_net_namespaces" in r["error"]["remedy"], r


# Nodes that are mounts of their own, as in some chroots and containers.
MOUNTED_NODES = ["unshare", "-m", "sh", "-c", 'd=$(mktemp -d) && mount -t tmpfs vial $d && '
                 'for n in null zero full random urandom; do touch $d/$n && '
                 'mount --bind /dev/$n $d/$n || exit 1; done; ln -s /proc/self/fd $d/fd; '
                 'mount --move $d /dev && exec "$@"', "sh"]


def test_a_host_whose_device_nodes_are_mounts_runs_programs_too(staged):
    code = "open('/dev/null', 'w').write('x'); print(len(open('/dev/zero', 'rb').read(3)))"
    _, r = run(MOUNTED_NODES, staged, code=code)
    assert r["verdict"] == "ok" and r["stdout"] == "3\n", r


# A /usr that is two overlays already: the kernel refuses a third.
DEEP = ["unshare", "-m", "sh", "-c", 'd=$(mktemp -d) && for i in 1 2; do mount -t overlay '
        'none -o lowerdir=/usr:$d /usr || exit 99; done; rmdir $d; exec "$@"', "sh"]


@needs_root
@pytest.mark.parametrize("who", [[], USER])
def test_a_host_without_overlays_gives_vessels_without_and_says_so(staged, who):
    """Found out by a trial, as doctor does."""
    layer = next(x for x in doctor([*DEEP, *who], staged)["layers"] if x["name"] == "overlay")
    assert not layer["available"] and "'/usr'" in layer["reason"], layer
    _, r = run([*DEEP, *who], staged, code="print(6)")
    assert (r["verdict"], r["stdout"], r["isolation"]["level"]) == ("ok", "6\n", "namespaces")
    assert "overlay" not in r["isolation"]["layers"]
    _, r = run([*DEEP, *who], staged, "--require", "overlay", code="print(6)")
    assert (r["verdict"], r["error"]["code"]) == ("denied", "VIAL-ISOLATION"), r
    assert "overlay" in run(who, staged, code="print(6)")[1]["isolation"]["layers"]


# A file system of its own below /usr, as /usr/local often is: the kernel lets nobody see
# the rest of /usr without it.
MOUNTED_LOCAL = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs vial /usr/local && '
                 'echo there > /usr/local/file && exec "$@"', "sh"]


@needs_root
@pytest.mark.parametrize("who", [[], USER])
def test_a_mount_below_usr_is_shown_and_sealed_as_usr_is(staged, who):
    code = ("print(open('/usr/local/file').read().strip())\n"
            "try: open('/usr/local/new', 'w')\nexcept OSError as e: print(e.errno)")
    _, r = run([*MOUNTED_LOCAL, *who], staged, code=code)
    assert (r["verdict"], r["stdout"]) == ("ok", "there\n30\n"), r


def doctor(prefix, vial):
    told = subprocess.run([*prefix, vial, "doctor", "--json"], cwd="/", env=CLEAN,
                          stdout=subprocess.PIPE, timeout=180).stdout
    return next(d for d in json.loads(told)["drivers"] if d["name"] == "native")


# As in a container: the kernel makes no overlay of a directory that has mounts in it.
MOUNTED_HOSTS = ["unshare", "-m", "sh", "-c",
                 'mount --bind /etc/passwd /etc/passwd && exec "$@"', "sh"]
WHAT_IS_OVERLAID = """
import os
mounts = [line.split() for line in open("/proc/self/mounts")]
overlays = {mount[1] for mount in mounts if mount[2] == "overlay"}
print("/usr" in overlays, any(at.startswith("/etc/") for at in overlays),
      "/dev/null" in overlays, os.path.getsize("/etc/ld.so.cache") > 0)
"""


@needs_root
@pytest.mark.parametrize("who", [[], USER], ids=["root", "user"])
def test_where_etc_can_be_no_overlay_all_else_still_is(staged, who):
    layer = next(x for x in doctor([*MOUNTED_HOSTS, *who], staged)["layers"]
                 if x["name"] == "overlay")
    assert layer["available"] and "'/etc'" in layer["reason"], layer
    nodes = str(not who)  # an ordinary user has none of his own
    _, r = run([*MOUNTED_HOSTS, *who], staged, code=WHAT_IS_OVERLAID)
    assert r["stdout"] == "True False %s True\n" % nodes, r
    assert "overlay" in r["isolation"]["layers"]
    _, r = run(who, staged, code=WHAT_IS_OVERLAID)
    assert r["stdout"] == "True True %s True\n" % nodes, r


@needs_root
def test_root_that_may_mount_nothing_outside_shares_its_nodes(staged):
    """As in a container without CAP_SYS_ADMIN that has the host's ids."""
    bare = ["setpriv", "--bounding-set", "-sys_admin", "--"]
    _, r = run(bare, staged, code=WHAT_IS_OVERLAID)
    assert r["stdout"] == "True True False True\n", r
    assert r["isolation"]["level"] == "namespaces"


# A /proc with something hidden: the kernel mounts no other in a user namespace.
MASKED_PROC = ["unshare", "-m", "sh", "-c",
               'mount --bind /dev/null /proc/kallsyms && exec "$@"', "sh"]


@needs_root
@pytest.mark.parametrize("who", [[], USER], ids=["root", "user"])
def test_where_proc_cannot_be_mounted_open_does_what_doctor_says(staged, who):
    assert doctor([*MASKED_PROC, *who], staged)["level"] == "landlock"
    status, r = run([*MASKED_PROC, *who], staged)
    assert (status, r["stdout"], r["isolation"]["level"]) == (0, "6\n", "landlock"), r
    _, r = run([*MASKED_PROC, *who], staged, "--require", "namespaces")
    assert (r["verdict"], r["error"]["code"]) == ("denied", "VIAL-ISOLATION"), r


# The capabilities of the program, and of one that it starts, each as the kernel says.
CAPS = """
import ctypes, subprocess, sys
header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
assert ctypes.CDLL(None).capget(header, data) == 0
print(list(data))
if len(sys.argv) < 2:
    subprocess.run([sys.executable, sys.argv[0], "once"])
"""


@needs_root
def test_a_root_that_may_not_empty_its_bounds_gives_programs_no_capability(staged):
    """As in a container without CAP_SETPCAP."""
    who = ["setpriv", "--bounding-set", "-setpcap", "--inh-caps", "-setpcap", "--"]
    status, r = run([*MASKED_PROC, *who], staged, code=CAPS)
    assert (status, r["isolation"]["level"]) == (0, "landlock"), r
    assert "caps" in r["isolation"]["layers"] and r["stdout"] == "[0, 0, 0, 0, 0, 0]\n" * 2, r


# What Ubuntu 24.04 shows; and /proc that is partly hidden stands for what AppArmor refuses.
RESTRICTED = ["unshare", "-m", "sh", "-c", """mount -t tmpfs vial /proc/sys/kernel &&
echo 1 >/proc/sys/kernel/apparmor_restrict_unprivileged_userns &&
mount -t tmpfs vial /mnt && mkdir -p /mnt/up /mnt/work &&
mount -t overlay -o lowerdir=/etc,upperdir=/mnt/up,workdir=/mnt/work vial /etc &&
rm -f /etc/apparmor.d/vial && if [ "$0" = profile ]; then
mkdir -p /etc/apparmor.d && touch /etc/apparmor.d/vial; fi && exec "$@" """]


@needs_root
@pytest.mark.parametrize("there,fix", [
    ("profile", "sudo apparmor_parser -r /etc/apparmor.d/vial"),
    ("nothing", "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0")])
def test_where_apparmor_restricts_namespaces_doctor_has_the_command(staged, there, fix):
    found = doctor([*RESTRICTED, there, *USER], staged)
    user = next(x for x in found["layers"] if x["name"] == "user")
    assert not user["available"] and found["level"] == "landlock"
    assert user["reason"] == "kernel.apparmor_restrict_unprivileged_userns is 1"
    assert user["fix"].startswith(fix), user


def kernel_has_overlay_workspaces():
    """Since Linux 6.6."""
    return tuple(int(n) for n in os.uname().release.split(".")[:2]) >= (6, 6)


@needs_root
def test_a_workspace_that_can_be_no_lower_layer_is_no_fault_of_the_host(staged):
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        os.chmod(place, 0o755)
        deep = ["unshare", "-m", "sh", "-c", 'mkdir $0/a $0/w && for i in 1 2; do mount -t '
                'overlay none -o lowerdir=$0/w:$0/a $0/w || exit 99; done; exec "$@"', place]
        _, r = run([*deep, *USER], staged, "--workspace", place + "/w", "--workspace-mode",
                   "overlay")
    if not kernel_has_overlay_workspaces():
        assert r["error"]["code"] == "VIAL-UNSUPPORTED", r
        return
    assert (r["verdict"], r["error"]["code"]) == ("failed", "VIAL-OPEN"), r
    assert "overlay" in r["error"]["message"] and "copy it" in r["error"]["remedy"], r


@needs_root
@pytest.mark.skipif(not shutil.which("gcc"), reason="there is no C compiler")
def test_the_lower_tier_runs_what_it_compiled(staged):
    status, r = run(NO_NAMESPACES, staged, language="c",
                    code='#include <stdio.h>\nint main(void) { puts("6"); }')
    assert (status, r["stdout"], r["isolation"]["level"]) == (0, "6\n", "landlock"), r


@needs_root
def test_the_lower_tier_writes_no_file_larger_than_its_disk(staged):
    _, r = run(NO_NAMESPACES, staged, "--disk", "1m", "--tmp", "1m",
               code="open('x', 'wb').write(b'x' * (3 << 20))")
    assert r["verdict"] != "ok" and "File too large" in r["stderr"], r


def run_without_cgroup(who, vial, *flags, code):
    _, r = run(who, vial, *flags, code=code)
    if r["isolation"]["limits_by"].startswith("cgroup"):
        pytest.skip("this user has a writable cgroup")
    assert r["isolation"]["limits_by"] == "rlimit"
    return r


without_cgroup = pytest.mark.parametrize("who", [USER, NO_NAMESPACES],
                                         ids=["namespaces", "landlock"])


@needs_root
@without_cgroup
def test_without_a_cgroup_memory_is_watched(staged, who):
    r = run_without_cgroup(who, staged, "--memory", "64m", code=SHARED)
    assert (r["verdict"], r["limits_hit"]) == ("oom", ["memory"]), r
    assert r["usage"]["memory_peak_bytes"] > 64 << 20


# Memory of the kernel's that no process has mapped: tables for pages that were only read,
# messages, semaphores, segments that nobody is attached to. Each would be some 400 MiB.
HIDDEN = {
    "page tables": """
m = mmap.mmap(-1, 200 << 30, prot=mmap.PROT_READ,
              flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for at in range(0, len(m), 2 << 20): m[at]
""",
    "messages": """
text = ctypes.create_string_buffer(b"\\1" + bytes(8199))
for i in range(26000):
    queue = libc.msgget(0, 0o600)
    for _ in range(2): assert libc.msgsnd(queue, text, 8192, 0o4000) == 0
""",
    "empty messages": """
text = ctypes.create_string_buffer(b"\\1" + bytes(7))
for i in range(100):
    queue = libc.msgget(0, 0o600)
    for _ in range(16384): assert libc.msgsnd(queue, text, 0, 0o4000) == 0
""",
    "semaphores": """
for i in range(100): assert libc.semget(0, 32000, 0o600) >= 0
""",
    "segments": """
libc.shmat.restype = ctypes.c_void_p
for i in range(50):
    at = libc.shmat(libc.shmget(0, 8 << 20, 0o600), None, 0)
    assert at not in (None, 2 ** 64 - 1)
    ctypes.memset(at, 1, 8 << 20)
    libc.shmdt(ctypes.c_void_p(at))
""",
}


@needs_root
@pytest.mark.parametrize("what", HIDDEN)
def test_without_a_cgroup_memory_that_nobody_has_mapped_is_watched(staged, what):
    code = "import ctypes, mmap\nlibc = ctypes.CDLL(None)\n" + HIDDEN[what]
    code += "\nimport time; time.sleep(100); print('BREACH')" # it is looked for now and then
    r = run_without_cgroup(USER, staged, "--memory", "64m", "--timeout", "150", code=code)
    assert (r["verdict"], r["limits_hit"], r["stdout"]) == ("oom", ["memory"], ""), r


@needs_root
@without_cgroup
def test_without_a_cgroup_cpu_time_of_all_processes_is_watched(staged, who):
    r = run_without_cgroup(who, staged, "--cpu-time", "1", "--timeout", "150", code=SIX_BUSY)
    assert (r["verdict"], r["limits_hit"]) == ("cpu_timeout", ["cpu"]), r
    assert 900 < r["usage"]["cpu_user_ms"] + r["usage"]["cpu_system_ms"] < 10000


@needs_root
@without_cgroup
def test_without_a_cgroup_cpu_time_of_the_dead_is_remembered(staged, who):
    r = run_without_cgroup(who, staged, "--cpu-time", "1", "--timeout", "150", code=UNWAITED)
    assert (r["verdict"], r["limits_hit"]) == ("cpu_timeout", ["cpu"]), r


@needs_root
@without_cgroup
def test_without_a_cgroup_usage_is_told(staged, who):
    r = run_without_cgroup(who, staged, code="sum(range(3000000))")
    assert r["verdict"] == "ok"
    assert r["usage"]["cpu_user_ms"] > 0 and r["usage"]["memory_peak_bytes"] > 1 << 20


@needs_root
@pytest.mark.skipif(not shutil.which("bwrap"), reason="bubblewrap is not installed")
@pytest.mark.parametrize("who", [USER, []], ids=["user", "root without capabilities"])
def test_inside_an_unprivileged_container_it_runs_with_what_is_there(staged, who):
    box = who + ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc",
                 "--tmpfs", "/tmp", "--unshare-all", "--die-with-parent", "--cap-drop", "ALL"]
    status, r = run(box, staged)
    assert (status, r["stdout"]) == (0, "6\n")
    assert r["isolation"]["level"] in ("namespaces", "landlock")
    assert {"seccomp", "no_new_privs"} <= set(r["isolation"]["layers"])
