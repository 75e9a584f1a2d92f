# SPDX-License-Identifier: Apache-2.0
"""For the tests of every lane."""

import os
import signal

from _pytest.runner import runtestprotocol


def pytest_configure():
    """`nohup make test`, or a job in the background, starts us with signals ignored, and
    what we start would inherit that. A handler that does nothing ignores them just as
    well, but ends at exec: the programs under test get the default."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


def pytest_runtest_protocol(item, nextitem):
    """With TEST_SECOND_TRY a test that fails is run once more. Who passes then carries
    what failed first as the property `unsteady`: tools/test names it, and bears few."""
    if not os.environ.get("TEST_SECOND_TRY"):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    failed = [report for report in reports if report.failed]
    if failed:
        item._initrequest()
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        for report in reports:
            report.user_properties.append(("unsteady", failed[0].longreprtext[-2000:]))
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
