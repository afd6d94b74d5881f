"""p99 of one tenant's calls while another attacks, against p99 just before."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.bench.effort import Effort
from tests.bench.neighbours import ATTACKS, measure, prepare
from tests.bench.table import Row, at_most
from tests.services.product import running_product


def neighbours(effort: Effort) -> Iterator[Row]:
    seconds = 0.2 if effort.moment else float(effort.seconds)
    with tempfile.TemporaryDirectory(prefix="sless-neighbours-") as folder, running_product(Path(folder)) as product:
        attacker, victim = product.tenant("attacker"), product.tenant("victim")
        probe = prepare(attacker, victim)
        for name in effort.some(ATTACKS):  # all: tests/integration/test_neighbours.py
            quiet, busy = measure(probe, attacker, name, seconds)
            detail = (
                f"quiet p50 {quiet.percentile_ms(0.5):.2f} ms, p99 {quiet.percentile_ms(0.99):.1f} ms; "
                f"attacked p50 {busy.percentile_ms(0.5):.2f} ms, p99 {busy.percentile_ms(0.99):.1f} ms; failed {busy.failed}"
            )
            times = busy.percentile_ms(0.99) / quiet.percentile_ms(0.99)
            yield at_most(f"p99 of a neighbour / quiet: {name}", times, 3, unit="×", detail=detail)
