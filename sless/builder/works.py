"""The builds of one builder."""

import threading
from collections.abc import Callable

from sless.builder.work import Work
from sless.domain.ports import BuildSpec, BuildStatus

_JOIN_SEC = 10


class Works:
    """Running and ended builds by id, each with a thread that runs `build_one`. Thread-safe."""

    def __init__(self, build_one: Callable[[Work], None], timeout_sec: int) -> None:
        self._build_one = build_one
        self._timeout_sec = timeout_sec
        self._works: dict[str, Work] = {}
        self._threads: set[threading.Thread] = set()
        self._lock = threading.Lock()

    def start(self, build: BuildSpec, changed: Callable[[], None]) -> None:
        """Does nothing if the build is known."""
        with self._lock:
            if build.id in self._works:
                return
            work = self._works[build.id] = Work(build, changed, self._timeout_sec)
        self.begin(lambda: self._build_one(work), f"build-{build.id}")

    def poll(self, build_id: str) -> BuildStatus | None:
        """None if the build is unknown."""
        with self._lock:
            work = self._works.get(build_id)
        return work.poll() if work is not None else None

    def cancel(self, build_id: str) -> None:
        """Forgets the build, and ends it if it runs."""
        with self._lock:
            work = self._works.pop(build_id, None)
        if work is not None:
            work.cancel()

    def begin(self, task: Callable[[], None], name: str) -> None:
        """Runs a task in a thread that `join` waits for."""
        thread = threading.Thread(target=task, name=name, daemon=True)
        with self._lock:
            self._threads = {known for known in self._threads if known.is_alive()} | {thread}
            thread.start()

    def cancel_all(self) -> None:
        with self._lock:
            works = list(self._works.values())
        for work in works:
            work.cancel()

    def join(self) -> None:
        """Waits for each thread, for at most ten seconds."""
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(timeout=_JOIN_SEC)
