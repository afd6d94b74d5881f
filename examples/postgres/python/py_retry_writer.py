import time

from pg_bulk_insert import insert
from values import fields_of, number_of, text_of

MOST = 200
MOST_ATTEMPTS = 4


class Temporary(Exception):
    """The error of a database that is restarting."""


def retry_write(event):
    """Writes all rows or none, and retries after a failure. `simulate_error`: the first attempt fails."""
    fields = fields_of(event)
    n = number_of(fields.get("n"), 5, most=MOST)
    prefix = text_of(fields.get("prefix"), "retry")
    for attempt in range(1, MOST_ATTEMPTS + 1):
        try:
            if attempt == 1 and fields.get("simulate_error") is True:
                raise Temporary
            return {"ok": True, "inserted": insert(n, prefix)["inserted"], "attempts": attempt}
        except Temporary:
            time.sleep(0.05 * 2**attempt)
    return {"ok": False, "inserted": 0, "attempts": MOST_ATTEMPTS}
