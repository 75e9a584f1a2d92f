# SPDX-License-Identifier: Apache-2.0
"""Addresses in a sandbox's network: what E2B's clients mean by their lists, and what a gate makes of
them."""
import os
import sys

import pytest

from conftest import HERE, E2b
from test_wire import control, create

sys.path.insert(0, os.path.join(os.path.dirname(HERE), "gate"))

from roads import PORT, opened  # noqa: E402

ALL = "0.0.0.0/0"
NAMES = {"one.test": ["1.1.1.1"], "both.test": ["1.1.1.1", "1.1.1.2"], "theirs.test": ["1.1.1.2"]}
WHERE = ["1.1.1.1", "1.1.1.2", "one.test", "both.test", "theirs.test", "10.77.0.1"]
NO_ROUTE, NO_NAME, RESET = "Network is unreachable", "Name or service not known", "ConnectionResetError"


def with_gate(defaults=None, **policy):
    return E2b(policy={"networks": ["none", "gate"], **policy}, defaults=defaults)


@pytest.fixture
def everything():
    """An operator's names and addresses are all that there are."""
    with with_gate(allow=["*", ALL, "::/0"]) as d:
        yield d


def refusal(e2b, network):
    answer = control(e2b, "POST", "/sandboxes", {"templateID": "base", "network": network})
    return answer.status, answer.json["message"]


def update(e2b, box, body):
    return control(e2b, "PUT", "/sandboxes/%s/network" % box["sandboxID"], body)


def detail(e2b, box):
    return control(e2b, "GET", "/sandboxes/" + box["sandboxID"]).json


def test_e2bs_client_reaches_the_addresses_that_it_means(node):
    if os.geteuid():
        pytest.skip("only root can make networks")
    with opened(NAMES) as (prefix, server):
        d = with_gate({"deny": ["theirs.test"]}, allow=[f"*:{PORT}", f"0.0.0.0/0:{PORT}"],
                      gate_resolvers=[server])
        d.command = [*prefix, *d.command]
        with d:
            told = {t["what"]: t for t in node.run("network.mjs", d, str(PORT), *WHERE, prefix=prefix)}
    reached = {what: t["reached"] for what, t in told.items()}
    usual = ["1.1.1.1", "1.1.1.2", "1.1.1.1", "1.1.1.1", NO_NAME, RESET]
    one = ["1.1.1.1", NO_ROUTE, NO_NAME, NO_NAME, NO_NAME, NO_ROUTE]
    assert reached == {
        "one address": one, "all and a range are denied": one,
        "all but one range": [RESET] * 4 + [NO_NAME, RESET],
        "a part of what is denied": [RESET, "1.1.1.2", RESET, "1.1.1.2", NO_NAME, RESET],
        "all wins": usual, "usual": usual,
        "narrowed": [RESET, "1.1.1.2", RESET, RESET, NO_NAME, RESET],
        "closed": [RESET] * 4 + [NO_NAME, RESET], "usual again": usual}
    assert told["narrowed"]["network"] == {"allowOut": ["1.1.1.2"], "denyOut": [ALL]}


@pytest.mark.parametrize("network, message", [
    ({"denyOut": ["a.example"]}, "invalid denied CIDR a.example"),
    ({"denyOut": ["1.1.1.1:80"]}, "invalid denied CIDR 1.1.1.1:80"),
    ({"denyOut": ["1.1.1.0/33"]}, "invalid denied CIDR 1.1.1.0/33"),
    ({"denyOut": ["::ffff:1.1.1.1"]}, "invalid denied CIDR ::ffff:1.1.1.1"),
    ({"denyOut": [1]}, "invalid denied CIDR "),
    ({"denyOut": ALL}, "'network.denyOut' is not a list of at most 128 texts"),
    ({"allowOut": ["1.1.1.1:80"]}, "'network.allowOut' has '1.1.1.1:80', which is not an address; write "
     "NAME, ADDRESS or ADDRESS/BITS, without ports"),
    ({"allowOut": ["1.1.1"], "denyOut": [ALL]}, "'network.allowOut' has '1.1.1', which is not an address; "
     "write NAME, ADDRESS or ADDRESS/BITS, without ports"),
    ({"allowOut": ["a.example", "1.1.1.1"], "denyOut": ["1.1.1.0/24"]},
     "'network.allowOut' needs '0.0.0.0/0' in 'network.denyOut'"),
    ({"allowOut": ["2606::", "2a06::"], "denyOut": ["2600::/12", "2a00::/12"]},
     "'network.denyOut' without 'network.allowOut' is more than 128 ranges of addresses; deny "
     "'0.0.0.0/0', and allow what is needed, or deny less"),
])
def test_what_a_gate_cannot_say_is_refused(everything, network, message):
    assert refusal(everything, network) == (400, message)


def test_private_addresses_are_the_operators_to_let_in(everything):
    assert refusal(everything, {"allowOut": ["10.0.0.0/8"]}) == (
        403, "allow '10.0.0.0/8' has no address that is public; leave it out, or let it in by policy key "
        "'allow_private' in /etc/vial/vial.yaml")


def test_addresses_that_the_policy_has_not_are_refused():
    with with_gate(allow=["*.example", "8.8.8.0/24"]) as d:
        create(d, network={"allowOut": ["8.8.8.8"], "denyOut": [ALL]})
        status, message = refusal(d, {"allowOut": ["8.8.0.0/16"], "denyOut": [ALL]})
        assert (status, message.partition(";")[0]) == (
            403, "allow '8.8.0.0/16' is not allowed by the policy")


@pytest.mark.parametrize("network", [
    {"denyOut": ["10.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "::1", "fe80::/10"]},
    {"denyOut": ["1.1.1.7/24"], "allowOut": ["1.1.1.9/31"]},  # bits beyond BITS say nothing
    {"denyOut": ["::/0"]}, {"denyOut": [ALL], "allowOut": [ALL]}, {"allowOut": ["1.1.1.1", "2606::/16"]},
])
def test_details_have_the_lists_as_they_were_given(everything, network):
    told = detail(everything, create(everything, network=network))
    assert (told["network"], told["allowInternetAccess"]) == (network, True)


def test_what_lets_in_the_servers_own_machine_cannot_be_denied_by_range():
    with with_gate(allow_private=["127.9.0.0/16"]) as d:
        status, message = refusal(d, {"denyOut": ["127.0.0.0/8"]})
        assert status == 400
        assert message.startswith("'network.denyOut' has addresses of the server's own machine")


@pytest.mark.parametrize("first, then, status", [
    (None, {"denyOut": ["1.1.1.1"]}, 400),
    ({"denyOut": ["1.1.1.0/24", "8.8.8.8"]}, {"denyOut": ["8.8.8.8", "1.1.1.0/24"]}, 204),
    ({"denyOut": ["1.1.1.0/24"]}, {}, 400),
    ({"denyOut": ["1.1.1.0/24"]}, {"denyOut": [ALL]}, 204),
    ({"denyOut": ["1.1.1.0/24"]}, {"denyOut": [ALL], "allowOut": ["8.8.8.8"]}, 204),
    ({"denyOut": ["1.1.1.0/24"]}, {"denyOut": [ALL], "allowOut": ["1.1.1.7"]}, 403),
    ({"denyOut": ["1.1.1.0/24"]}, {"denyOut": [ALL], "allowOut": [ALL]}, 403),
    ({"denyOut": [ALL], "allowOut": ["1.1.1.0/24"]}, {"denyOut": [ALL], "allowOut": ["1.1.1.7"]}, 204),
    ({"denyOut": [ALL], "allowOut": ["1.1.1.0/24"]}, {"denyOut": [ALL], "allowOut": ["1.1.0.0/16"]}, 403),
    ({"denyOut": [ALL]}, {}, 403), ({"denyOut": [ALL]}, {"allow_internet_access": False}, 204),
    (None, {"rules": {}, "allow_internet_access": None}, 204),
    (None, {"rules": {"a": []}}, 400), (None, {"allowPublicTraffic": True}, 400),
    (None, {"allowOut": ["a.example"]}, 400), (None, {"allow_internet_access": 1}, 400),
])
def test_an_open_network_is_narrowed_and_never_widened(everything, first, then, status):
    box = create(everything, **({"network": first} if first else {}))
    before = detail(everything, box)
    assert update(everything, box, then).status == status
    after = detail(everything, box)
    if status != 204:
        assert after == before
    else:
        lists = {key: then[key] for key in ("allowOut", "denyOut") if key in then}
        assert after["network"] == lists


def test_a_change_keeps_what_is_not_of_the_way_out(everything):
    box = create(everything, network={"maskRequestHost": "a:${PORT}", "denyOut": ["1.1.1.1"]})
    assert update(everything, box, {"denyOut": [ALL]}).status == 204
    assert detail(everything, box)["network"] == {"maskRequestHost": "a:${PORT}", "denyOut": [ALL]}


def test_what_has_no_gate_or_is_paused_or_is_not_there_is_not_changed(everything):
    box = create(everything)
    control(everything, "POST", "/sandboxes/%s/pause" % box["sandboxID"])
    assert update(everything, box, {}).status == 409
    assert update(everything, {"sandboxID": "x"}, {}).status == 404
    theirs = create(everything, everything.other_key)
    assert update(everything, theirs, {}).status == 404
    with E2b(policy={}) as d:
        answer = update(d, create(d), {})
        assert (answer.status, answer.json["message"]) == (
            501, "the network of this sandbox cannot be changed: this server's policy has no gate")
