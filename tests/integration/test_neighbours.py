"""One tenant attacks, another is served. `make bench ARGS=neighbours` gives the figures; here each attack lasts a moment."""

import os
from collections.abc import Callable

from tests.bench.neighbours import ATTACKS, measure, prepare
from tests.services.product import Product

SECONDS = 5.0 if "TEST_SOAK_MESSAGES" in os.environ else 0.2
LONGEST_MS = 15_000.0
"""Far above the expected figures: without limits, attacks end the server or make others wait for minutes."""


def test_a_tenant_is_served_while_another_attacks(start_product: Callable[..., Product]) -> None:
    product = start_product()
    attacker, victim = product.tenant("attacker"), product.tenant("victim")
    probe = prepare(attacker, victim)
    for name in ATTACKS:
        quiet, busy = measure(probe, attacker, name, SECONDS)
        assert not quiet.failed and not busy.failed, name
        assert busy.percentile_ms(0.99) < LONGEST_MS, name
