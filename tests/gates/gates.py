#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""gates.py BUILD_DIR: what must be true of the tree and of what was built. One line per
gate, "ok NAME" or "not ok NAME: why"; status 1 when one is not."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import child  # noqa: E402
import dead  # noqa: E402
import errors  # noqa: E402
import exported  # noqa: E402
import guest  # noqa: E402
import headers  # noqa: E402
import keeper  # noqa: E402
import layers  # noqa: E402
import named  # noqa: E402
import proof  # noqa: E402
import reference  # noqa: E402
import requirements  # noqa: E402
import shape  # noqa: E402
import spdx  # noqa: E402
import threads  # noqa: E402

GATES = [layers, dead, shape, exported, spdx, errors, reference, guest, child, keeper, proof,
         headers, named, requirements, threads]


def judge(gate, root, build):
    try:
        return gate.check(root, build)
    except Exception as error:  # a gate that cannot look has not held
        return ["%s: %s" % (type(error).__name__, error)]


def main():
    root = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
    build = os.path.abspath(sys.argv[1])
    bad = 0
    for gate in GATES:
        complaints = judge(gate, root, build)
        if complaints:
            bad += 1
            print("not ok %s: %s" % (gate.__name__, "; ".join(complaints)))
        else:
            print("ok %s" % gate.__name__)
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
