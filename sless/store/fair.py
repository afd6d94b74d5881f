"""Queues within one table, each with its own head: what keeps a flood in one of them from hiding the others.

The index (status, queue, not_before) makes each step a seek: from one queue's key to the next, then to the oldest rows of that queue. So
the cost follows the number of queues and what is taken of each, not their length.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import Column, Select, Table, func, literal, select


def heads_of(table: Table, queue: "Column[Any]", status: str, now: datetime, most: int) -> Select[Any]:
    """Primary keys of the `most` oldest due rows of each queue; `table` has `status` and `not_before`."""
    (key,) = table.primary_key.columns
    first = select(func.min(queue).label("queue")).where(table.c.status == status).cte("queues", recursive=True)
    behind = select(func.min(queue)).where(table.c.status == status, queue > first.c.queue).scalar_subquery()
    queues = first.union_all(select(behind).where(first.c.queue.is_not(None)))
    head = table.alias("head")
    of_queue = (
        select(head.c[key.name])
        .where(head.c.status == status, head.c[queue.name] == queues.c.queue, head.c.not_before <= now)
        .order_by(head.c.not_before)
        .limit(literal(most))
        .correlate(queues)
    )
    return select(key).join(queues, key.in_(of_queue))
