# SPDX-License-Identifier: Apache-2.0
# Runs in a vessel: a zip on standard input becomes a list of [name, mode, base64] on
# standard output. The daemon reads strangers' archives nowhere else.
import base64
import json
import stat
import sys
import zipfile
from io import BytesIO

MOST_BYTES = 10 << 20
MOST_FILES = 1000


def end(why):
    print(why, file=sys.stderr)
    sys.exit(1)


def unpack(archive):
    left, seen, out = MOST_BYTES, set(), []
    for entry in archive.infolist():
        mode = entry.external_attr >> 16
        if entry.is_dir():
            continue
        if mode and stat.S_IFMT(mode) not in (0, stat.S_IFREG):
            end("'%s' is no plain file" % entry.filename)
        if entry.filename in seen:
            continue
        if len(out) == MOST_FILES:
            end("more than %d files" % MOST_FILES)
        with archive.open(entry) as file:
            data = file.read(left + 1)
        left -= len(data)
        if left < 0:
            end("more than %d bytes" % MOST_BYTES)
        seen.add(entry.filename)
        out.append([entry.filename, 0o755 if mode & 0o111 else 0o644, base64.b64encode(data).decode("ascii")])
    return out


try:
    json.dump(unpack(zipfile.ZipFile(BytesIO(sys.stdin.buffer.read()))), sys.stdout)
except MemoryError:
    end('too large')
except Exception as error:  # zlib, lzma and others have errors of their own
    end("%s: %s" % (type(error).__name__, error))
