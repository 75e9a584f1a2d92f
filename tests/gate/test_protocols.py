# SPDX-License-Identifier: Apache-2.0
"""Protocols and clients that know nothing of a gate: git over ssh, Go with a resolver of its own,
Java, HTTP/2, WebSocket, a name that has only an IPv6 address."""

import http.server
import socket
import threading

import pytest

import clients
from clients import CHAT, HTTP2, SSH
from conftest import told
from servers import Handler
from test_tools import shell


def test_git_clones_over_ssh(world, ssh_server):
    script = clients.key_of(ssh_server) + clients.git_over_ssh(world)
    r = shell(world, script, "--allow", f"raw.test:{SSH}")
    assert (r.exit_code, r.stdout) == (0, "cloned\n"), r.stderr
    assert ("raw.test", SSH, "ok") in told(r)  # it asks for its own host's name, too
    r = shell(world, script, "--allow", "raw.test")
    assert r.exit_code != 0 and "Connection refused" in r.stderr


def test_a_static_go_program_resolves_by_itself(world, go_program):
    script = "/opt/fetch"
    mount = ("--mount", f"{go_program}:/opt/fetch")
    r = shell(world, script, *mount, "--allow", "web.test")
    assert r.exit_code == 0 and r.stdout.endswith("\r\n\r\nhello from web.test\n"), r.stderr
    assert told(r) == [("web.test", 80, "ok")]
    r = shell(world, script, *mount, "--allow", "other.test")
    assert r.exit_code == 1 and "no such host" in r.stderr


def test_java_works_by_name(world):
    script = clients.JAVA_RUN
    r = shell(world, script, "--memory", "2g", "--allow", "web.test")
    assert (r.exit_code, r.stdout) == (0, "hello from web.test\n"), r.stderr
    r = shell(world, script, "--memory", "2g", "--allow", "other.test")
    assert r.exit_code != 0 and "UnknownHostException: web.test" in r.stderr


def test_http2_passes(world, http2_server):
    r = shell(world, clients.HTTP2_RUN, "--allow", f"raw.test:{HTTP2}")
    assert (r.exit_code, r.stdout) == (0, "hello by 2.0\n"), r.stderr


def test_a_websocket_passes_and_must_say_its_name(world, chat_server):
    r = world.python(clients.chat("raw.test"), "--allow", f"raw.test:{CHAT}")
    assert r.stdout.splitlines() == ["HTTP/1.1 101 Switching Protocols True", "one", "two"], r.stderr
    r = world.python(clients.chat("other.test"), "--allow", f"raw.test:{CHAT}")
    assert r.stdout == "ConnectionResetError\n"
    assert told(r) == [("raw.test", CHAT, "other_name")]


class Six(http.server.HTTPServer):
    address_family = socket.AF_INET6


def test_a_name_with_only_an_ipv6_address_is_reached(world):
    try:
        server = Six(("::1", 0), lambda *a: Handler(*a, directory=str(world.files)))
    except OSError:
        pytest.skip("this host has no IPv6")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port = server.server_address[1]
    world.names.names["six.test/6"] = ["::1"]
    url = f"http://six.test:{port}/hello"
    r = shell(world, f"curl -sS {url}", "--allow", f"six.test:{port}",
              policy={"allow_private": ["::1/128"]})
    assert r.stdout == f"hello from six.test:{port}\n", r.stderr
    assert told(r) == [("six.test", port, "ok")]
    server.shutdown()
