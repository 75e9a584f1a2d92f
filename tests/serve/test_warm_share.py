# SPDX-License-Identifier: Apache-2.0
"""What programs of several callers have in common when interpreters wait for them."""
import http.client
import json

from daemon import Daemon, wait_until
from test_auth import secret
from test_load import tokens  # noqa: F401

MANY = 18  # callers: two more than there can be zygotes
ZYGOTES, ASKED = 16, 6  # POOL_ZYGOTES and POOL_ASKED of src/engine/pool/stock.h

# What a stranger would want to know of the program next door: python's hash seed, where
# libc and the heap lie, the stack canary and the key of mangled pointers.
LOOK = """
import ctypes, json
libc = ctypes.CDLL(None)
libc.getauxval.restype = ctypes.c_ulong
secrets = ctypes.string_at(libc.getauxval(25), 16)  # AT_RANDOM
print(json.dumps({"hash": hash("x"), "libc": ctypes.cast(libc.printf, ctypes.c_void_p).value,
                  "heap": id(ctypes), "canary": secrets[:8].hex(), "guard": secrets[8:].hex()}))
"""


def run(d, caller, code, language="python", **fields):
    c = http.client.HTTPConnection("127.0.0.1", d.port, timeout=60)
    c.request("POST", "/v1/run", json.dumps({"language": language, "code": code, **fields}),
              {"Authorization": "Bearer " + secret(caller)})
    result = json.loads(c.getresponse().read())
    c.close()
    assert result["verdict"] == "ok", result
    return result


def look(d, caller):
    """Only a program that was forked from a zygote shows what such programs share."""
    def warm():
        result = run(d, caller, LOOK)
        return result["start"] == "warm" and json.loads(result["stdout"])
    return wait_until(warm)


def shapes(d):
    return d.ask("GET", "/v1/pool").json["shapes"]


def test_callers_have_no_secret_of_their_interpreters_in_common(tokens):  # noqa: F811
    path = tokens(eve={}, bob={})
    with Daemon(serve={"tokens": path, "warm": ["python"]}, tcp=True) as d:
        eve, bob = look(d, "eve"), look(d, "bob")
        assert not [name for name in eve if eve[name] == bob[name]], (eve, bob)
        # What one caller's own programs share, which SECURITY.md says.
        assert look(d, "eve") == eve and look(d, "bob") == bob
        assert sum(s["claimed"] for s in shapes(d)) == 2


def test_callers_share_an_interpreter_where_the_operator_says_so(tokens):  # noqa: F811
    path = tokens(eve={}, bob={})
    with Daemon(serve={"tokens": path, "warm": ["python"], "warm_share": "all"}, tcp=True) as d:
        assert look(d, "eve") == look(d, "bob")


def test_more_callers_than_zygotes_are_served_without_one(tokens):  # noqa: F811
    names = ["c%d" % i for i in range(MANY)]
    path = tokens(**{name: {} for name in names})
    with Daemon(serve={"tokens": path, "warm": ["python"]}, tcp=True) as d:
        for name in names:
            run(d, name, "print(1)")
        mine = [s for s in shapes(d) if s["hatches"]]
        assert len(mine) == ZYGOTES and sum(s["claimed"] for s in mine) == ZYGOTES - 1
        assert run(d, names[-1], "print(1)")["start"] == "cold"


def test_one_caller_cannot_take_all_kinds_of_vessels(tokens):  # noqa: F811
    path = tokens(eve={}, bob={})
    with Daemon(serve={"tokens": path, "warm": ["python"]}, tcp=True) as d:
        for size in range(8, 8 + 2 * ASKED):
            run(d, "eve", "true", "bash", disk="%dm" % size)
        assert len(shapes(d)) == 1 + ASKED
        assert look(d, "bob")
