"""The timetable of cron plans: order, changes and size."""

from dataclasses import replace
from datetime import timedelta
from zoneinfo import ZoneInfo

from sless.domain.cron import CronPlan
from sless.reconcile.timetable import Timetable
from tests.builders import AT


def plan(name: str, after_sec: float, generation: int = 1) -> CronPlan:
    return CronPlan(
        trigger_id=name, generation=generation, schedule="* * * * *", zone=ZoneInfo("UTC"), pre_warm=timedelta(), grace=timedelta(),
        handled=AT, next_at=at(after_sec), fired_at=None, warm=False,
    )  # fmt: skip


def at(seconds: float):
    return AT + timedelta(seconds=seconds)


def table_of(*plans: CronPlan) -> Timetable:
    table = Timetable()
    for item in plans:
        table.put(item, AT)
    return table


def names(plans: list[CronPlan]) -> list[str]:
    return [item.trigger_id for item in plans]


def test_plans_come_in_order_and_once() -> None:
    table = table_of(plan("b", 20), plan("a", 10), plan("c", 30))
    assert table.next_moment() == at(10)
    assert names(table.take(at(9), 10)) == []
    assert names(table.take(at(20), 10)) == ["a", "b"]
    assert names(table.take(at(20), 10)) == []
    assert table.next_moment() == at(30)


def test_take_is_limited() -> None:
    table = table_of(*(plan(f"t{n}", n + 1) for n in range(5)))
    assert [len(table.take(at(60), 2)) for _ in range(4)] == [2, 2, 1, 0]


def test_a_new_plan_replaces_the_old_one() -> None:
    table = table_of(plan("a", 10), plan("a", 50))
    assert table.take(at(20), 10) == [] and table.next_moment() == at(50)
    table.put(plan("a", 5), AT)
    assert [item.next_at for item in table.take(at(60), 10)] == [at(5)]


def test_dropped_plans_never_come() -> None:
    table = table_of(plan("a", 10), plan("b", 10))
    table.drop(["a", "unknown"])
    assert names(table.take(at(60), 10)) == ["b"] and len(table) == 1
    table.drop(["b"])
    assert table.next_moment() is None


def test_a_plan_without_a_next_time_waits_for_a_change() -> None:
    table = table_of(replace(plan("a", 1), next_at=None))
    assert table.next_moment() is None and len(table) == 1


def test_changes() -> None:
    table = table_of(plan("same", 1, 3), plan("changed", 1, 3), plan("gone", 1))
    assert table.changes({"same": 3, "changed": 4, "new": 1}) == ({"changed", "new"}, {"gone"})


def test_frequent_changes_do_not_fill_memory() -> None:
    table = Timetable()
    for number in range(20_000):
        table.put(plan("a", 1000 + number), AT)
    assert len(table._heap) < 2_000
    assert names(table.take(at(30_000), 10)) == ["a"]
