# SPDX-License-Identifier: Apache-2.0
"""E2B's own packages, unmodified, against the daemon."""

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
Template.exists Template.aliasExists Template.build Template.getTags
""".split())


def test_every_method_that_we_know_of_works_or_is_refused_by_name(node, e2b):
    told = node.run("walk.mjs", e2b)
    assert [row for row in told if row["error"]] == []
    walked = {method for row in told for method in row["methods"]}
    assert METHODS - walked == set()


def test_a_pool_of_sandboxes_is_opened_used_and_closed(node, e2b):
    made = node.run("pool.mjs", e2b, "20")
    assert made == [{"opened": 20, "different": 20, "sum": sum(range(20)), "left": 0}]


def test_an_agent_analyses_a_table_and_draws_it(node, e2b):
    told, = node.run("analyst.mjs", e2b)
    assert told["errors"] == []
    assert told["columns"] == {"city": ["A", "B", "C"], "people": [1, 5, 3]}
    assert told["largest"] == "B"
    assert told["pictures"] == 1
    assert told["saved"] == "city,people\nB,5\n"
