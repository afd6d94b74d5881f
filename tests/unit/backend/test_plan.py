"""The rules of instance groups as a table: (desired, instances, now) → actions."""

from dataclasses import replace

import pytest

from sless.backend.plan import (
    RESTARTS_PER_WINDOW,
    DesiredInstances,
    Drain,
    InstanceView,
    Kill,
    MarkReady,
    Restarts,
    Rules,
    Start,
    State,
    Terminate,
    back_off_sec_of,
)
from sless.domain.durations import Durations
from sless.domain.model import Kind
from sless.domain.ports import Revision

NOW = 1000.0
OLD = Revision(
    workload_id="w", namespace="ns", name="f", kind=Kind.FUNCTION, version=1, runtime="python3.11", entrypoint="handler.handle",
    code_key="k1", artifact="", memory_mb=128, timeout_sec=30,
)  # fmt: skip
NEW = replace(OLD, version=2, code_key="k2")


def desired(replicas: int = 1, revision: Revision = NEW, not_before: float = 0.0) -> DesiredInstances:
    return DesiredInstances(revision=revision, replicas=replicas, not_before=not_before)


def one(name: str, state: State = State.READY, revision: Revision = NEW, age: float = 10.0, **fields) -> InstanceView:
    return InstanceView(id=name, revision=revision, state=state, since=NOW - age, **fields)


def starting(name: str, **fields) -> InstanceView:
    return one(name, State.STARTING, **fields)


def old(name: str, **fields) -> InstanceView:
    return one(name, revision=OLD, **fields)


UNNEEDED = "instance was no longer needed"
OUT_OF_MEMORY = Kill(id="a", reason="out of memory: used 140 of 128 MB", crash=True)

TABLE = {
    # start
    "nothing yet": (desired(2), [], [Start(count=2)]),
    "one is starting": (desired(2), [starting("a")], [Start(count=1)]),
    "all are there": (desired(2), [one("a"), starting("b")], []),
    "in back-off": (desired(1, not_before=NOW + 1), [], []),
    "back-off is over": (desired(1, not_before=NOW), [], [Start(count=1)]),
    "draining ones do not count": (desired(1), [one("a", State.DRAINING, age=0)], [Start(count=1)]),
    "stopping ones do not count": (desired(1), [one("a", State.STOPPING, age=0)], [Start(count=1)]),
    "none desired": (desired(0), [], []),
    # ready
    "answers": (desired(1), [starting("a", healthy=True)], [MarkReady(id="a")]),
    "too slow": (
        desired(1, not_before=NOW + 1), [starting("a", age=60)], [Kill(id="a", reason="function did not start within 60 s", crash=True)],
    ),
    # scale down: instances that are not ready first, then the oldest
    "scale down": (desired(1), [one("a", age=5), one("b", age=50)], [Drain(id="b")]),
    "scale down a starting one": (desired(1), [one("a", age=50), starting("b", age=1)], [Kill(id="b", reason=UNNEEDED)]),
    "scale to zero": (desired(0), [one("a"), starting("b", age=1)], [Kill(id="b", reason=UNNEEDED), Drain(id="a")]),
    "scale to zero with an old one": (desired(0), [old("a")], [Drain(id="a")]),
    # roll out
    "old stays while the new starts": (desired(1), [old("a"), starting("b")], []),
    "old stays while the new is in back-off": (desired(1, not_before=NOW + 9), [old("a")], []),
    "old leaves when the new is ready": (desired(1), [old("a"), one("b")], [Drain(id="a")]),
    "old leaves once the new answers": (desired(1), [old("a"), starting("b", healthy=True)], [MarkReady(id="b"), Drain(id="a")]),
    "one of two is ready": (desired(2), [old("a", age=9), old("b", age=99), one("c"), starting("d")], [Drain(id="b")]),
    "an old one that never became ready": (desired(1), [one("a", State.STARTING, OLD), starting("b")], [Kill(id="a", reason=UNNEEDED)]),
    "two revisions ago": (desired(1), [old("a"), one("b", revision=replace(OLD, version=9)), one("c")], [Drain(id="a"), Drain(id="b")]),
    # removal
    "removed": (None, [one("a"), starting("b")], [Drain(id="a"), Kill(id="b", reason=UNNEEDED)]),
    "removed and gone": (None, [], []),
    # draining
    "drains still": (desired(0), [one("a", State.DRAINING, age=1.4, active=0)], []),
    "drained": (desired(0), [one("a", State.DRAINING, age=1.5, active=0)], [Terminate(id="a")]),
    "not asked yet": (desired(0), [one("a", State.DRAINING, age=1.5, active=None)], []),
    "calls run in it": (desired(0), [one("a", State.DRAINING, age=20, active=2)], []),
    "calls have used up their time": (desired(0), [one("a", State.DRAINING, age=31.5, active=2)], [Terminate(id="a")]),
    "no time limit, fewer are needed": (desired(0), [one("a", State.DRAINING, replace(NEW, timeout_sec=0), age=3600, active=2)], []),
    "an hour at most": (
        desired(0), [one("a", State.DRAINING, replace(NEW, timeout_sec=0), age=3601.5, active=2)], [Terminate(id="a")],
    ),
    "no time limit, removed": (None, [one("a", State.DRAINING, replace(NEW, timeout_sec=0), age=61.5, active=2)], [Terminate(id="a")]),
    "already stopping": (desired(0), [one("a", State.STOPPING, age=11.9)], []),
    "does not end": (desired(0), [one("a", State.STOPPING, age=12)], [Kill(id="a", reason="instance did not stop after SIGTERM")]),
    "hangs and ignores SIGTERM": (
        desired(0),
        [one("a", State.STOPPING, age=2, overdue_since=NOW - 9)],
        [Kill(id="a", reason="instance did not stop after SIGTERM")],
    ),
    # memory
    "over memory": (desired(1), [one("a", used_mb=140)], [OUT_OF_MEMORY, Start(count=1)]),
    "over memory while draining": (desired(0), [one("a", State.DRAINING, used_mb=140)], [OUT_OF_MEMORY]),
    # unresponsive
    "overdue for a moment": (desired(1), [one("a", overdue_since=NOW - 1.9)], []),
    "overdue: replacement first": (desired(1), [one("a", overdue_since=NOW - 2)], [Start(count=1)]),
    "overdue: replacement starts": (desired(1), [one("a", overdue_since=NOW - 9), starting("b")], []),
    "overdue: replacement is ready": (desired(1), [one("a", overdue_since=NOW - 9), one("b")], [Drain(id="a")]),
    "silent for a moment": (desired(1), [one("a", unresponsive_since=NOW - 4.9)], []),
    "silent: replacement first": (desired(1), [one("a", unresponsive_since=NOW - 5)], [Start(count=1)]),
    "silent: replacement is ready": (
        desired(1),
        [one("a", unresponsive_since=NOW - 9), one("b")],
        [Kill(id="a", reason="instance stopped answering and was replaced")],
    ),
    "the unresponsive one of three leaves first": (
        desired(3), [one("a", age=99), one("b", age=5, overdue_since=NOW - 9), one("c"), starting("d", healthy=True)],
        [MarkReady(id="d"), Drain(id="b")],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("wanted", "instances", "actions"), TABLE.values(), ids=TABLE.keys())
def test_decide(wanted, instances, actions):
    assert Rules(now=NOW).decide(wanted, instances) == actions


def test_durations_are_configurable():
    short = Rules(now=NOW, durations=Durations().scaled(0.1))
    assert short.decide(desired(0), [one("a", State.STOPPING, age=1.2)]) == [Kill(id="a", reason="instance did not stop after SIGTERM")]


def test_failed_starts_back_off_up_to_five_minutes():
    assert [back_off_sec_of(failures, 0.0, 300) for failures in range(1, 11)] == [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    assert back_off_sec_of(8, 0.999, 300) == pytest.approx(192, abs=1)
    assert back_off_sec_of(2_000, 0.0, 300) == 300
    restarts = Restarts(durations=Durations())
    assert [restarts.next_start_at(NOW, 0.0, had_served=False) - NOW for _ in range(3)] == [2, 4, 8]
    restarts.next_start_at(NOW, 0.0, had_served=True)
    assert restarts.next_start_at(NOW, 0.0, had_served=False) == NOW + 2


def test_an_instance_that_served_is_replaced_at_once_up_to_a_limit():
    restarts = Restarts(durations=Durations())
    starts = [restarts.next_start_at(NOW + second, 0.0, had_served=True) for second in range(RESTARTS_PER_WINDOW)]
    assert starts == [NOW + second for second in range(RESTARTS_PER_WINDOW)]
    assert restarts.next_start_at(NOW + 30, 0.0, had_served=True) == NOW + 60
    assert restarts.next_start_at(NOW + 61, 0.0, had_served=True) == NOW + 61


def test_a_roll_out_never_has_too_few_ready_instances():
    """Simulate a roll-out of three instances that become ready one by one."""
    instances = [old("a", age=3), old("b", age=2), old("c", age=1), starting("x"), starting("y"), starting("z")]
    for name in ("y", "z", "x"):
        instances = [replace(one, healthy=True) if one.id == name else one for one in instances]
        for action in Rules(now=NOW).decide(desired(3), instances):
            match action:
                case MarkReady(id=target):
                    instances = [replace(one, state=State.READY) if one.id == target else one for one in instances]
                case Drain(id=target):
                    instances = [replace(one, state=State.DRAINING, since=NOW) if one.id == target else one for one in instances]
        assert sum(one.state is State.READY for one in instances) == 3
    assert {one.id for one in instances if one.state is State.READY} == {"x", "y", "z"}
