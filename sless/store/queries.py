"""Parts of queries that several stores share."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from sqlalchemy import Column, ColumnElement, Integer, Select, Table, and_, bindparam, func, or_, select, true

from sless.domain.operators import TimePlace

_IDS_PER_QUERY = 500


def in_batches(ids: Iterable[str]) -> Iterator[list[str]]:
    """Sorted and without duplicates, in lists short enough for one `IN (…)`: both databases limit the number of parameters."""
    ordered = sorted(set(ids))
    for start in range(0, len(ordered), _IDS_PER_QUERY):
        yield ordered[start : start + _IDS_PER_QUERY]


def is_after(place: TimePlace | None, at: ColumnElement[datetime], key: ColumnElement[str]) -> ColumnElement[bool]:
    """Whether a row comes after this place in a list that is sorted by `at`, newest first, then by `key`."""
    if place is None:
        return true()
    return or_(at < place.at, and_(at == place.at, key > place.key))


def heads_of(table: Table, queue: "Column[Any]", status: str) -> Select[Any]:
    """Primary keys of the oldest due rows of each queue, so that a flood in one queue cannot hide the others. `table` has `status` and
    `not_before`. Parameters: `now`, and `most`, the number of rows per queue. Build it once: SQLAlchemy takes milliseconds for it.

    The index (status, queue, not_before) makes each step a seek: from one queue's key to the next, then to the oldest rows of that queue.
    The cost depends on the number of queues and of rows taken from each, not on their length.
    """
    (key,) = table.primary_key.columns
    first = select(func.min(queue).label("queue")).where(table.c.status == status).cte("queues", recursive=True)
    behind = select(func.min(queue)).where(table.c.status == status, queue > first.c.queue).scalar_subquery()
    queues = first.union_all(select(behind).where(first.c.queue.is_not(None)))
    head = table.alias("head")
    of_queue = (
        select(head.c[key.name])
        .where(head.c.status == status, head.c[queue.name] == queues.c.queue, head.c.not_before <= bindparam("now"))
        .order_by(head.c.not_before)
        .limit(bindparam("most", type_=Integer))
        .correlate(queues)
    )
    return select(key).join(queues, key.in_(of_queue))
