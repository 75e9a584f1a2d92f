# SPDX-License-Identifier: Apache-2.0
"""`vial verify`, which attacks a vessel on the user's own host."""
import os

# Never "process": nothing would stand between the probes and this host.
DRIVER = "docker" if os.environ.get("VIAL_E2E_DRIVERS") == "docker" else "native"


def test_verify_finds_that_every_wall_holds(vial):
    done = vial("verify", "--driver", DRIVER, "--json")
    assert [p for p in done.json["probes"] if not p["held"]] == []
    assert done.json["held"] is True and len(done.json["probes"]) > 10
    assert done.status == 0
