"""The cron loop on both databases with a fake clock: one firing per instant, whatever happens in between."""

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest

from sless.domain.model import CallStatus, Kind, Trigger, TriggerType, Workload
from sless.errors import Code, SlessError
from sless.reconcile.cron import CronLoop
from sless.store import Store
from tests.builders import NAMESPACE, make_workload_spec
from tests.contract.rest_harness import FakeWaker
from tests.contract.store_steps import at_once, build

SPEC = {
    "schedule": "* * * * *", "timezone": "UTC", "event_json": "{}", "pre_warm_seconds": 0, "overlap": "allow",
    "misfire_grace_seconds": 60,
}  # fmt: skip


@dataclass
class Scene:
    """A function, and cron loops on its database whose clock only moves by `at`: seconds after the minute in which the scene began."""

    store: Store
    workload: Workload
    start: datetime
    now: datetime
    waker: FakeWaker = field(default_factory=FakeWaker)
    loops: list[CronLoop] = field(default_factory=list)

    def loop(self, store: Store | None = None) -> CronLoop:
        made = CronLoop(store=store or self.store, waker=self.waker, now=lambda: self.now)
        self.loops.append(made)
        return made

    def at(self, seconds: float, *loops: CronLoop) -> list[str]:
        """Ticks the loops at this time; returns instant and status of each firing in history, oldest first."""
        self.now = self.start + timedelta(seconds=seconds)
        for loop in loops or self.loops[-1:]:
            loop.tick()
        return self.shown()

    def shown(self) -> list[str]:
        runs = [self.store.runs.get(call.id) for call in self.store.history.list_invocations(self.workload.id, limit=1000)]
        runs.sort(key=lambda run: run.due_at)
        return [f"{(run.due_at - self.start).total_seconds():.0f} {run.status}" for run in runs]

    def insert(self, name: str = "t", **spec: object) -> Trigger:
        return self.store.triggers.insert(NAMESPACE, name=name, type=TriggerType.CRON, function_ref="hello", spec=SPEC | spec)

    def change(self, trigger: Trigger, *, enabled: bool = True, **spec: object) -> Trigger:
        return self.store.triggers.update(
            trigger.id, function_ref=trigger.function_ref, enabled=enabled, spec=trigger.spec | spec, secrets={}
        )  # fmt: skip

    def is_warm(self, trigger: Trigger) -> bool:
        found = self.store.triggers.find_by_id(trigger.id)
        return found is not None and found.warm


@pytest.fixture
def scene(store: Store, workload: Workload) -> Iterator[Scene]:
    build(store, workload)
    found = store.workloads.get_by_id(workload.id)
    start = found.created_at.replace(second=0, microsecond=0) + timedelta(minutes=2)
    made = Scene(store, found, start, start)
    yield made
    for loop in made.loops:
        loop.stop()


@pytest.fixture
def trigger(scene: Scene) -> Trigger:
    """Fires every minute from the start of the scene, so first at 60."""
    made = scene.insert()
    scene.at(30, scene.loop())  # handles the instants between the real time and the scene's
    for run in scene.store.runs.list_due(scene.now + timedelta(days=1), 100):
        scene.store.runs.finish(run.id, status=CallStatus.SUCCEEDED)
    return made


def since(shown: list[str], seconds: float) -> list[str]:
    return [text for text in shown if float(text.split()[0]) > seconds]


def test_each_instant_fires_once(scene: Scene, trigger: Trigger) -> None:
    assert since(scene.at(59.9), 0) == []
    assert since(scene.at(60), 0) == ["60 queued"]
    assert since(scene.at(60.5), 0) == ["60 queued"]
    assert since(scene.at(61), 0) == ["60 queued"]
    assert since(scene.at(120.2), 0) == ["60 queued", "120 queued"]
    assert scene.waker.topics.count("runs") >= 2
    assert scene.store.triggers.find_by_id(trigger.id).last_schedule_time == scene.start + timedelta(seconds=120)


def test_a_restarted_server_continues_where_it_stopped(scene: Scene, trigger: Trigger) -> None:
    scene.at(60)
    scene.loop()
    assert since(scene.at(61), 0) == ["60 queued"]
    scene.loop()
    assert since(scene.at(120), 0) == ["60 queued", "120 queued"]


def test_replicas_that_all_believe_they_lead_fire_once(scene: Scene, make_store: Callable[..., Store], trigger: Trigger) -> None:
    others = [scene.loop(make_store()) for _ in range(3)]
    for name in "abcd":
        scene.insert(name)
    for seconds in (90, 120, 121, 180):
        scene.now = scene.start + timedelta(seconds=seconds)
        at_once([loop.tick for loop in others])
    found = since(scene.shown(), 110)
    assert sorted(found) == sorted(["120 queued"] * 5 + ["180 queued"] * 5)


def test_a_pause_within_the_grace_fires_once(scene: Scene, trigger: Trigger) -> None:
    scene.change(trigger, misfire_grace_seconds=600)
    scene.at(60)
    assert since(scene.at(60 + 305), 60) == ["360 queued"]


def test_an_instant_beyond_the_grace_is_missed(scene: Scene, trigger: Trigger) -> None:
    scene.change(trigger, schedule="*/10 * * * *")
    scene.at(31)
    due = next(seconds for seconds in range(60, 700, 60) if (scene.start + timedelta(seconds=seconds)).minute % 10 == 0)
    assert since(scene.at(due + 61), 0) == [f"{due} missed"]
    call = scene.store.history.list_invocations(scene.workload.id, status=CallStatus.MISSED)[0]
    assert "over misfire_grace_seconds (60)" in (call.error or "") and call.finished_at is not None
    assert scene.store.triggers.find_by_id(trigger.id).last_status == "missed"
    assert since(scene.at(due + 62), 0) == [f"{due} missed"]


def test_a_change_takes_effect_at_the_next_tick(scene: Scene, trigger: Trigger) -> None:
    scene.change(trigger, enabled=False)
    assert since(scene.at(60), 0) == []
    scene.change(trigger, enabled=True)
    scene.at(61)
    assert since(scene.at(120), 60) == ["120 queued"]
    scene.change(trigger, schedule="0 0 1 1 *")
    assert since(scene.at(180), 120) == []
    scene.store.triggers.remove(trigger.id)
    assert since(scene.at(240), 120) == []


def test_an_event_changed_between_reading_and_firing_loses_no_instant(scene: Scene, trigger: Trigger) -> None:
    """The claim notices that the trigger has changed; the next tick fires it with the new event."""
    loop = scene.loops[-1]
    scene.at(59)
    loop._refresh()
    scene.change(trigger, event_json='{"new": 1}')
    scene.now = scene.start + timedelta(seconds=60)
    loop._attend()
    assert since(scene.shown(), 0) == []
    assert since(scene.at(60.5), 0) == ["60 queued"]
    newest = scene.store.history.list_invocations(scene.workload.id, limit=1)[0]
    assert scene.store.runs.get(newest.id).event == '{"new": 1}'


def test_overlap_is_checked_when_the_trigger_is_due(scene: Scene, trigger: Trigger) -> None:
    scene.change(trigger, overlap="forbid")
    scene.at(60)
    assert since(scene.at(120), 60) == ["120 skipped"]
    for run in scene.store.runs.list_due(scene.now + timedelta(days=1), 100):
        scene.store.runs.finish(run.id, status=CallStatus.SUCCEEDED)
    assert since(scene.at(180), 120) == ["180 queued"]


def test_a_trigger_without_its_target_fires_once_the_target_exists(scene: Scene) -> None:
    made = scene.store.triggers.insert(NAMESPACE, name="t", type=TriggerType.CRON, function_ref="later", spec=SPEC)
    scene.loop()
    scene.at(60)
    assert scene.store.triggers.find_by_id(made.id).last_schedule_time is None
    later = scene.store.workloads.insert(NAMESPACE, Kind.SERVICE, "later", make_workload_spec())
    build(scene.store, later)
    scene.at(120)
    assert len(scene.store.history.list_invocations(later.id, status=CallStatus.QUEUED)) == 1


def test_a_database_failure_only_delays_a_firing(scene: Scene, trigger: Trigger) -> None:
    loop = scene.loops[-1]

    def fail(_: object) -> None:
        raise SlessError(Code.UNAVAILABLE, "the database does not answer")

    claim = loop.store.firings.claim
    loop.store.firings.claim = fail  # type: ignore[method-assign, assignment]
    with pytest.raises(SlessError):
        scene.at(60)
    loop.store.firings.claim = claim  # type: ignore[method-assign]
    assert since(scene.at(63), 0) == ["60 queued"]


def test_warm_before_and_after_a_firing(scene: Scene) -> None:
    """Due at 600: warm from five minutes before until one minute after."""
    minute = (scene.start + timedelta(seconds=600)).minute
    made = scene.insert(schedule=f"{minute} * * * *", pre_warm_seconds=300)
    scene.loop()
    seen = []
    for seconds in (0, 299, 300, 301, 599, 600, 659, 660):
        scene.at(seconds)
        seen.append(scene.is_warm(made))
    assert seen == [False, False, True, True, True, True, True, False]
    assert scene.waker.topics.count("instances") == 2 == scene.waker.topics.count("routes")


def test_disabled_triggers_are_not_warm_and_a_restarted_server_clears_stale_ones(scene: Scene) -> None:
    made = scene.insert(pre_warm_seconds=300)
    scene.loop()
    scene.at(0)
    assert scene.is_warm(made)
    scene.change(made, enabled=False)
    assert not scene.is_warm(made)
    changed = scene.change(made, enabled=True, schedule="0 0 1 1 *")
    scene.store.firings.set_warm([made.id], True)  # as a killed server leaves it
    scene.loop()
    scene.at(65)
    assert changed.enabled and not scene.is_warm(made)


def test_a_trigger_that_cannot_be_read_does_not_stop_others(scene: Scene, trigger: Trigger, caplog: pytest.LogCaptureFixture) -> None:
    scene.insert("odd", timezone="Mars/Olympus")
    with caplog.at_level(logging.WARNING):
        assert since(scene.at(60), 0) == ["60 queued"]
    assert "odd cannot fire" in caplog.text


def test_the_alarm_wakes_the_loop_at_the_instant(scene: Scene, trigger: Trigger) -> None:
    woken = threading.Event()
    scene.waker.wake = lambda topic: woken.set() if topic == "cron" else None  # type: ignore[method-assign, assignment]
    scene.at(59.9)
    assert woken.wait(5)
