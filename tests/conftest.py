# SPDX-License-Identifier: Apache-2.0
"""For the tests of every lane."""

import signal


def pytest_configure():
    """`nohup make test`, or a job in the background, starts us with signals ignored, and
    what we start would inherit that. A handler that does nothing ignores them just as
    well, but ends at exec: the programs under test get the default."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
