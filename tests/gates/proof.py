#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The gates themselves: each must refuse a tree that breaks its rule, and only that."""
import os
import shutil
import sys
import tempfile

import dead
import headers
import layers
import named
import requirements
import shape
import spdx

SPDX = "/* SPDX-License-Identifier: Apache-2.0 */\n"
GOOD = SPDX + """
#include "base/x.h"

static const int fixed = 1;
static const char *const names[] = { "a", "}" };
struct thing {
    int member;
};
enum { ONE };
typedef int thing_fn(int);
static int (*const table[])(void) = { 0 };

int x_add(int a, /* { */
          int b)
{
    static const int c = 1;

    return a + b + c; // goto; x.h, base/x.c, src/model/*.c, <sys/mount.h>, main.py
}
"""
LONG = "int x_long(void)\n{\n" + "    x();\n" * 69 + "}\n"
BAD = [
    (layers, "src/base/x.c", SPDX + '#include "model/y.h"\n'),
    (layers, "src/base/x.c", SPDX + '#include "y.h"\n'),
    (layers, "src/model/y.c", SPDX + '  #  include "engine/z.h"\n'),
    (layers, "src/cellar/z.c", SPDX),
    (layers, "include/vial/vial.h", SPDX + '#include "base/x.h"\n'),
    (shape, "src/base/x.c", LONG),
    (shape, "src/base/x.c", "int x_jump(void)\n{\n    goto out;\n}\n"),
    (shape, "src/base/x.c", "int counter;\n"),
    (shape, "src/base/x.c", "static struct thing things[4] = { { 0 } };\n"),
    (shape, "src/base/x.c", "static const char *name = \"x\";\n"),
    (shape, "src/base/x.c", "static _Thread_local int last;\n"),
    (shape, "src/base/x.c", "static int (*hook)(void);\n"),
    (shape, "src/base/x.c", "int x_count(void)\n{\n    static int n;\n\n    return ++n;\n}\n"),
    (headers, "include/vial/vial.h", SPDX + "\n\nVIAL_API int vial_x(void);\n"),
    (dead, "src/base/x.h", SPDX + "int x_add(int a,\n          int b);\n"),
    (named, "ARCHITECTURE.md", "`base/x.c` and `x.h` are there, `base/gone.c` is not"),
    (named, "src/base/x.c", SPDX + "/* gone.h says more */\n"),
    (named, "src/base/x.c", SPDX + "/* see model/x.c */\n"),
    (named, "src/base/x.c", SPDX + "// in y_*.c\n"),
    (named, "src/model/x.c", SPDX),
    (spdx, "src/base/x.c", "\n" + SPDX),
    (spdx, "tests/x.py", "import os\n"),
    (spdx, "tools/x", "#!/usr/bin/python3\n# nothing\n"),
]

# Whose the ids are: the test's that they stand before or in, else the file's.
CLAIMS = '''"""covers: A-01"""

@pytest.fixture
def thing():
    pass


# covers: A-02, A-03
@pytest.mark.parametrize("x", [1,
                               2])
def test_one(thing):
    """covers: A-04"""


def test_two():
    pass


# covers: A-05
def test_three():
    pass
'''
CLAIMED = [(None, ["A-01"]), ("test_one", ["A-02", "A-03", "A-04"]), ("test_two", []),
           ("test_three", ["A-05"])]
SKIPS = "# why\nkernel < 6.6: old\nalways\n"


def put(root, path, text):
    path = os.path.join(root, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def tree(root):
    put(root, "src/LAYERS", "# law\nbase:\nmodel: base\ncli: base\n")
    put(root, "src/base/x.c", GOOD)
    put(root, "src/base/x.h", SPDX)
    put(root, "src/model/y.c", SPDX + '#include "base/x.h"\n#include "vial/vial.h"\n')
    put(root, "src/cli/main.c", SPDX + "static int stopped;\n")
    put(root, "include/vial/vial.h", SPDX)
    put(root, "tools/x", "#!/bin/sh\n")


def check_tools(root):
    """What a wrong answer of which would let a row or a skip pass unseen."""
    found = []
    claimed = list(requirements.tool(root).tests_in_python(CLAIMS))
    if claimed != CLAIMED:
        found.append("tools/requirements reads the claims as %s" % claimed)
    for release, want in [("6.5.13-1", ["old", "always"]), ("6.6.0", ["always"]),
                          ("6.12-rc1", ["always"]), ("10.0", ["always"])]:
        skips = requirements.load(root, "tools/test").expected_skips(SKIPS, release)
        if [s.pattern for s in skips] != want:
            found.append("tools/test expects other skips than %s on %s" % (want, release))
    return found


def check(root, _build=None):
    found = check_tools(root)
    for gate, path, text in [(None, "src/base/x.c", GOOD)] + BAD:
        root = tempfile.mkdtemp(prefix="vial-gates-")
        tree(root)
        put(root, path, text)
        for other in (layers, dead, shape, headers, named, spdx):
            complaints = other.check(root)
            if other is gate and not complaints:
                found.append("%s lets pass: %s" % (other.__name__, text[-40:].strip()))
            if gate is None and complaints:
                found.append("%s refuses a good tree: %s" % (other.__name__, complaints))
        shutil.rmtree(root)
    return found


if __name__ == "__main__":
    complaints = check(os.path.abspath(os.path.join(os.path.dirname(__file__), "../..")))
    print("\n".join(complaints) or "ok")
    sys.exit(bool(complaints))
