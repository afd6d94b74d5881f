"""The rule of scaling: cases, and simulations that show that it does not oscillate."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest

from sless.domain.demand import Load, total_of
from sless.domain.instance_bounds import InstanceBounds
from sless.reconcile.scaling import Claim, Observation, Scale, fitted

NEVER = math.inf


def seen(
    waiting: int = 0, running: int = 0, *, ready: int = 0, least: int = 0, most: int = 20, concurrency: int = 50, **more: object
) -> Observation:
    load = Load(waiting=waiting, in_flight=running, idle_sec=float(str(more.pop("idle", 0.0 if waiting + running else NEVER))))
    bounds = InstanceBounds(least=least, most=most)
    return Observation(load=load, bounds=bounds, concurrency=concurrency, idle_sec=300, ready=ready, needed=bool(more.get("needed")))


@pytest.mark.parametrize(
    ("before", "now", "desired"),
    [
        # From zero: as many as the waiting calls fill.
        (0, seen(), 0),
        (0, seen(1), 1),
        (0, seen(50), 1),
        (0, seen(51), 2),
        (0, seen(200), 4),
        (0, seen(1000), 20),
        (0, seen(200, concurrency=1), 20),
        (0, seen(1, most=1), 1),
        # While instances start, only more calls add more.
        (4, seen(200), 4),
        (4, seen(150, 50, ready=1), 4),
        (4, seen(160, 50, ready=1), 5),
        # All ready: above 70 % of their concurrency, or with waiting calls, in one step.
        (1, seen(0, 35, ready=1), 1),
        (1, seen(0, 36, ready=1), 2),
        (2, seen(0, 70, ready=2), 2),
        (2, seen(0, 71, ready=2), 3),
        (1, seen(150, 50, ready=1), 6),
        (1, seen(150, 50, ready=1, most=5), 5),
        (1, seen(0, 1, ready=1, concurrency=1), 1),
        (1, seen(1, 1, ready=1, concurrency=1), 2),
        (2, seen(0, 2, ready=2, concurrency=2), 2),
        # The minimum, the maximum, and one instance that is needed without calls.
        (0, seen(least=2), 2),
        (3, seen(0, 9, ready=3, least=2, most=2), 2),
        (0, seen(needed=True), 1),
        (0, seen(needed=True, least=3), 3),
        (0, seen(needed=True, most=0), 0),
    ],
)
def test_one_step(before: int, now: Observation, desired: int) -> None:
    scale = Scale.resume(before, now=-1.0, stable_sec=0.5)
    assert scale.step(now, 0.0) == desired


def test_scales_down_after_the_stable_window_to_the_highest_need_in_it() -> None:
    scale = Scale(stable_sec=60)
    assert scale.step(seen(0, 100, ready=3), 1.0) == 3
    assert scale.step(seen(0, 60, ready=3), 30.0) == 3
    assert scale.step(seen(0, 10, ready=3), 60.9) == 3
    assert scale.step(seen(0, 10, ready=3), 61.0) == 2
    assert scale.step(seen(0, 10, ready=2), 89.9) == 2
    assert scale.step(seen(0, 10, ready=2), 90.0) == 1


def test_the_last_instance_ends_after_the_idle_time() -> None:
    scale = Scale(stable_sec=60)
    assert scale.step(seen(1), 0.0) == 1
    assert scale.step(seen(ready=1), 299.0) == 1
    assert scale.step(seen(ready=1), 300.0) == 0
    assert scale.rests(seen())


def test_short_calls_between_two_samples_keep_it() -> None:
    scale = Scale(stable_sec=60)
    assert scale.step(seen(1), 0.0) == 1
    assert scale.step(seen(ready=1, idle=10.0), 299.0) == 1
    assert scale.step(seen(ready=1, idle=290.0), 588.0) == 1
    assert scale.step(seen(ready=1), 597.0) == 1
    assert scale.step(seen(ready=1), 598.0) == 0


def test_an_idle_time_below_the_stable_window_counts() -> None:
    scale = Scale(stable_sec=60)
    quick = replace(seen(0, 70, ready=2), idle_sec=5)
    assert scale.step(quick, 0.0) == 2
    assert scale.step(replace(seen(ready=2), idle_sec=5), 5.0) == 0


def test_an_instance_that_proved_the_version_stays_until_idle() -> None:
    scale = Scale(stable_sec=60)
    assert scale.step(seen(needed=True), 100.0) == 1
    assert scale.step(seen(ready=1), 399.0) == 1
    assert scale.step(seen(ready=1), 400.0) == 0


def test_a_new_leader_keeps_existing_instances_for_a_window() -> None:
    scale = Scale.resume(4, now=0.0, stable_sec=60)
    assert scale.step(seen(ready=4), 59.0) == 4
    assert scale.step(seen(ready=4), 60.0) == 1
    assert scale.step(seen(ready=1), 300.0) == 0
    assert Scale.resume(0, now=0.0, stable_sec=60).step(seen(), 1.0) == 0


def test_loads_of_replicas_add_up() -> None:
    found = total_of([{"a": Load(waiting=1, idle_sec=5)}, {"a": Load(in_flight=2, idle_sec=0), "b": Load(idle_sec=9)}])
    assert found == {"a": Load(waiting=1, in_flight=2, idle_sec=0), "b": Load(idle_sec=9)}


# --- memory of one machine ---


def claim(name: str, number: int, current: int, kept: int = 0, called_at: float = 0.0, memory_mb: int = 100) -> Claim:
    return Claim(workload_id=name, memory_mb=memory_mb, number=number, current=current, kept=kept, called_at=called_at)


@pytest.mark.parametrize(
    ("limit_mb", "claims", "changed"),
    [
        (300, [claim("a", 1, 1), claim("b", 1, 1), claim("c", 1, 0, 1)], {}),
        # The workload called longest ago gives up its instance.
        (200, [claim("a", 1, 1, called_at=5), claim("b", 1, 1, called_at=4), claim("c", 1, 0, 1, called_at=9)], {"b": 0}),
        # As many as necessary, but not the minimum and none that calls need.
        (300, [claim("a", 1, 1, called_at=5), claim("b", 1, 1, called_at=4), claim("c", 2, 0, 2, 9, 150)], {"a": 0, "b": 0}),
        (200, [claim("a", 1, 1, 1, 5), claim("b", 1, 1, 1, 4), claim("c", 1, 0, 1, 9)], {"c": 0}),
        (300, [claim("a", 3, 3, 1, 5), claim("c", 2, 0, 2, 9)], {"a": 1}),
        # First instances come before further ones, earlier calls before later ones.
        (300, [claim("a", 4, 1, 4, 1), claim("b", 1, 0, 1, 2)], {"a": 2}),
        (200, [claim("a", 1, 1, 1, 1), claim("b", 1, 0, 1, 2), claim("c", 1, 0, 1, 3)], {"c": 0}),
        # Needed instances stay, even over the limit.
        (100, [claim("a", 2, 2, 2), claim("b", 1, 1, 1)], {}),
    ],
)
def test_memory(limit_mb: int, claims: list[Claim], changed: dict[str, int]) -> None:
    assert fitted(claims, limit_mb) == changed


# --- simulations ---


@dataclass
class World:
    """Instances that need `start_sec` to become ready and take `concurrency` calls of `call_sec` each; calls wait in one queue, and leave
    it after `patience_sec`. Time advances in ticks of 0.25 s."""

    start_sec: float = 2.0
    call_sec: float = 0.5
    concurrency: int = 10
    most: int = 50
    patience_sec: float = 30.0
    scale: Scale = field(default_factory=lambda: Scale(stable_sec=60))
    ready_at: list[float] = field(default_factory=list)
    queue: list[float] = field(default_factory=list)
    running: list[float] = field(default_factory=list)
    demands: list[int] = field(default_factory=list)
    left: int = 0
    waited: list[float] = field(default_factory=list)

    def run(self, rate: Callable[[float], float], seconds: int) -> "World":
        due = 0.0
        for tick in range(seconds * 4):
            now = tick / 4
            due += rate(now) / 4
            self.queue += [now] * int(due)
            due -= int(due)
            self._serve(now)
            ready = sum(moment <= now for moment in self.ready_at)
            load = Load(waiting=len(self.queue), in_flight=len(self.running), idle_sec=0.0 if self.queue or self.running else NEVER)
            bounds = InstanceBounds(least=0, most=self.most)
            desired = self.scale.step(Observation(load=load, bounds=bounds, concurrency=self.concurrency, idle_sec=300, ready=ready), now)
            self.ready_at = sorted(self.ready_at)[:desired] + [now + self.start_sec] * (desired - len(self.ready_at))
            self.demands.append(desired)
        return self

    def _serve(self, now: float) -> None:
        self.running = [end for end in self.running if end > now]
        patient = [came for came in self.queue if now - came < self.patience_sec]
        self.left += len(self.queue) - len(patient)
        free = sum(moment <= now for moment in self.ready_at) * self.concurrency - len(self.running)
        served, self.queue = patient[: max(0, free)], patient[max(0, free) :]
        self.waited += [now - came for came in served]
        self.running += [now + self.call_sec] * len(served)

    def turns(self) -> int:
        """How often the desired number changed from falling to rising."""
        moves = [after - before for before, after in pairwise(self.demands) if after != before]
        return sum(before < 0 < after for before, after in pairwise(moves))


def test_a_burst_scales_up_in_one_step_and_down_once() -> None:
    world = World().run(lambda now: 800.0 if now < 0.25 else 0.0, 120)
    assert world.demands[0] == 20 and world.turns() == 0
    assert max(world.demands) == 29  # when they run, they use more than 70 %
    assert max(world.waited) <= world.start_sec + 0.25
    assert world.demands[-1] == 1


def test_a_sawtooth_keeps_its_instances() -> None:
    world = World().run(lambda now: 200.0 if now % 30 < 10 else 5.0, 600)
    assert world.turns() == 0 and world.demands[-1] > 10
    assert len([wait for wait in world.waited if wait > 0.5]) < 0.05 * len(world.waited)


def test_a_slow_sawtooth_follows_it_once_a_period() -> None:
    world = World().run(lambda now: 200.0 if now % 300 < 100 else 5.0, 1500)
    assert world.turns() == 4


def test_a_steady_load_settles() -> None:
    world = World().run(lambda now: 137.0, 600)
    assert world.turns() == 0 and len(set(world.demands[-1600:])) == 1
    used = 137 * world.call_sec / (world.demands[-1] * world.concurrency)
    assert 0.5 < used <= 0.75


def test_a_slow_start_does_not_add_instances() -> None:
    world = World(start_sec=25.0, call_sec=0.05).run(lambda now: 4.0, 200)
    assert max(world.demands) <= 12 and world.left == 0
    patient = World(start_sec=40.0, patience_sec=1000).run(lambda now: 40.0 if now < 0.25 else 0.0, 45)
    assert set(patient.demands[:160]) == {1}


def test_a_function_slower_than_its_clients_stays_within_their_calls() -> None:
    """Clients leave after 3 s and return, calls take 10 s: 20 clients never need more than 20 slots."""
    world = World(call_sec=10.0, patience_sec=3.0, concurrency=10, most=50).run(lambda now: 2.0, 900)
    assert max(world.demands) <= 5 and world.turns() <= 1


def test_growth_by_steps_never_overshoots() -> None:
    world = World(most=1000).run(lambda now: min(400.0, now), 900)
    assert world.turns() == 0
    assert max(world.demands) <= 1.5 * 400 * world.call_sec / (0.7 * world.concurrency)
