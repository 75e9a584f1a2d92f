# SPDX-License-Identifier: Apache-2.0
"""E2B's own packages, unmodified, against the daemon."""
import json
import os
import signal

from conftest import E2b

# Public methods that reach the wire. What a walk says of a method may be that it is refused.
METHODS = set("""
Sandbox.create Sandbox.connect sandbox.connect Sandbox.list paginator.nextItems Sandbox.kill
sandbox.kill Sandbox.getInfo sandbox.getInfo Sandbox.setTimeout sandbox.setTimeout
Sandbox.getMetrics sandbox.getMetrics sandbox.isRunning Sandbox.pause sandbox.pause
Sandbox.createSnapshot sandbox.createSnapshot Sandbox.updateNetwork sandbox.updateNetwork
sandbox.getHost sandbox.uploadUrl sandbox.downloadUrl
files.read files.write files.writeFiles files.list files.exists files.getInfo files.makeDir
files.rename files.remove files.watchDir watchHandle.stop
commands.run commands.list commands.connect commands.sendStdin commands.closeStdin commands.kill
handle.wait handle.disconnect handle.kill
pty.create pty.connect pty.sendInput pty.resize pty.kill
git.init git.remoteAdd git.remoteGet git.status git.branches git.createBranch git.checkoutBranch
git.deleteBranch git.add git.commit git.reset git.restore git.setConfig git.getConfig
git.configureUser
runCode createCodeContext listCodeContexts restartCodeContext removeCodeContext
Template.exists Template.aliasExists Template.build Template.getTags Template.assignTags
Template.removeTags
""".split())


# Of what the packages have: what sends nothing, is theirs alone, or is shown where templates are
# built.
ELSEWHERE = set("""
Sandbox.createSandbox Sandbox.forkSandbox Sandbox.connectSandbox sandbox.resolveApiOpts sandbox.fileUrl
Template.toJSON Template.toDockerfile Template.buildInBackground Template.getBuildStatus
Secret.fill Secret.iamToken
git.runGit git.runShell git.getRemoteUrl git.resolveRemoteName git.withRemoteCredentials
git.hasUpstream
interpreter.getJupyterRequestUrl interpreter.handleRequestError
""".split())


def test_every_method_that_we_know_of_works_or_is_refused_by_name(node, e2b):
    told = node.run("walk.mjs", e2b)
    assert [row for row in told if row["error"]] == []
    walked = {method for row in told for method in row["methods"]}
    assert METHODS - walked == set()
    walked |= {"interpreter." + method for method in walked if "." not in method}
    assert set(told[-1]["all"]) - walked - ELSEWHERE == set()


def test_a_pool_of_sandboxes_is_opened_used_and_closed(node, e2b):
    made = node.run("pool.mjs", e2b, "50")
    assert made == [{"opened": 50, "different": 50, "sum": sum(range(50)), "left": 0}]


def test_an_agent_analyses_a_table_and_draws_it(node, e2b):
    told, = node.run("analyst.mjs", e2b)
    assert told["errors"] == []
    assert told["columns"] == {"city": ["A", "B", "C"], "people": [1, 5, 3]}
    assert told["largest"] == "B"
    assert told["pictures"] == 1
    assert told["saved"] == "city,people\nB,5\n"


def test_an_agent_clones_mends_tests_and_serves_an_application(node, e2b):
    told, = node.run("coder.mjs", e2b)
    assert told["broken"] == 1
    assert told["mended"] == 0
    assert told["log"] == "greet who is there\nfirst\n"
    assert told["page"] == {"status": 200, "body": "hello world"}


def test_a_client_may_speak_protobuf(node, e2b):
    told, = node.run("proto.mjs", e2b)
    assert told == {
        "ran": {"pid": True, "stdout": "é\n\n", "stderr": "/tmp\n",
                "end": [3, True, "exit status 3", "exit status 3"]},
        "echo": [0, 255, 10], "listed": [[True, "a cat", "cat"]], "killed": -1,
        "entries": [["/home/user/d", 2, "", 0o755, "user", {}, True],
                    ["/home/user/d/g", 1, "3", 0o644, "user", {"of": "f"}, True]],
        "events": [["new", 1]],
        "missing": ["NotFound", "path '/home/user/none' does not exist"],
        "none": ["InvalidArgument", "cwd '/none' does not exist"]}


ENDS = {
    "cut": "SandboxError: ",
    "cut, and it lives": "true",
    "full disk": "NotEnoughSpaceError: ",
    "full disk, and it lives": "here\n",
    "wrong token": "AuthenticationError: ",
    "wrong token: a command": "AuthenticationError: ",
    "wrong token: a file": "AuthenticationError: ",
    "wrong token: a name": "AuthenticationError: ",
    "cell, full disk": "OSError: ",
    "cell, wrong token": "Error: 401",
    "cell, paused": "TimeoutError: ",
    "cell, killed": "TimeoutError: The sandbox was killed while the request was in progress",
    "paused: a command": "SandboxNotFoundError: ",
    "paused: a file": "TimeoutError: ",
    "gone": "SandboxNotFoundError: ",
    "gone: its lease": "SandboxNotFoundError: ",
}


def test_each_end_is_the_error_that_the_sdk_has_for_it(node):
    with E2b(defaults={"disk": "2m"}) as e2b:
        told = {row["way"]: row["error"] for row in node.run("ends.mjs", e2b)}
    assert {way: error for way, error in told.items() if not error.startswith(ENDS[way])} == {}
    assert set(told) == set(ENDS)


def test_a_front_that_is_killed_fails_what_waits_and_what_comes(node, e2b):
    with node.start("ends.mjs", e2b, "front") as program:
        assert json.loads(program.stdout.readline())["way"] == "ready"
        os.kill(e2b.process.pid, signal.SIGKILL)
        told = [json.loads(line) for line in program.stdout]
    assert [row["way"] for row in told] == ["command", "file", "cell"]
    assert told[0]["error"].startswith("SandboxError: ")
    assert "fetch failed" in told[1]["error"]
    assert told[2]["error"].startswith("TypeError: ")
