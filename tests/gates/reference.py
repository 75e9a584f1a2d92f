# SPDX-License-Identifier: Apache-2.0
"""docs/reference/http.md is what tools/gen-http makes of the built daemon."""
import os
import subprocess

import source


def check(root, build):
    wanted = subprocess.run([os.path.join(root, "tools/gen-http"), build, "-"], text=True,
                            capture_output=True, check=True).stdout
    path = "docs/reference/http.md"
    if os.path.exists(os.path.join(root, path)) and source.read(root, path) == wanted:
        return []
    return [path + " is not up to date: run tools/gen-http " + os.path.relpath(build, root)]
