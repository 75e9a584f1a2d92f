# SPDX-License-Identifier: Apache-2.0
"""A store of images made by hand, of directories that are its layers: what runs need of it,
and nothing of pulls."""
import hashlib
import subprocess
from pathlib import Path


def escape(text):
    return "".join(c if "!" <= c <= "~" and c != "%" else f"%{ord(c):02X}" for c in text)


def put(store, name, layers, env=(), cwd=None, uid=0, gid=0, cmd=(), entrypoint=()):
    """LAYERS are directories, lowest first. They are moved in. Returns the digest."""
    store = Path(store)
    for part in ("names", "images", "layers"):
        (store / part).mkdir(parents=True, exist_ok=True)
    store.chmod(0o700)
    hexes = []
    for layer in layers:
        hexes.append(hashlib.sha256(f"{name} {layer} {len(hexes)}".encode()).hexdigest())
        home = store / "layers" / hexes[-1]
        home.mkdir()
        subprocess.run(["mv", str(layer), str(home / "fs")], check=True)
    digest = hashlib.sha256(" ".join([name, *hexes]).encode()).hexdigest()
    lines = ["vial-image 1", f"digest sha256:{digest}", f"id sha256:{digest}",
             "platform linux/amd64", "user_xattr 1", "owners_kept 1", "size 1", "created 1"]
    lines += [f"env {escape(e)}" for e in env]
    lines += [f"entrypoint {escape(e)}" for e in entrypoint]
    lines += [f"cmd {escape(c)}" for c in cmd]
    lines += [f"cwd {escape(cwd)}"] if cwd else []
    lines += [f"uid {uid}", f"gid {gid}"]
    lines += [f"layer {h}" for h in hexes]
    home = store / "images" / digest
    home.mkdir(exist_ok=True)
    (home / "record").write_text("\n".join(lines) + "\n")
    (store / "names" / (name.replace("/", "%2F") + ":latest")).write_text(f"sha256:{digest}")
    return f"sha256:{digest}"
