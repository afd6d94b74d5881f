"""Pending writes when the server stops."""

import threading

from sless.backend.kubernetes.writer import THREADS, Writer


def test_pending_writes_are_made_before_close_returns() -> None:
    """A removed run disappears from the observed state at once, so its Job must be gone before the next server starts."""
    made, begun, go_on = Writer(lambda: None, 2.0), threading.Semaphore(0), threading.Event()

    def slow() -> None:
        begun.release()
        go_on.wait(10)

    for number in range(THREADS):
        made.put(f"slow:{number}", slow)
    for _ in range(THREADS):
        assert begun.acquire(timeout=10)
    written: list[int] = []
    for number in range(20):
        made.put(f"run:{number}", lambda number=number: written.append(number))
    closing = threading.Thread(target=made.close)
    closing.start()
    closing.join(0.1)
    go_on.set()
    closing.join(10)
    assert sorted(written) == list(range(20))
    made.put("run:late", lambda: written.append(-1))
    assert -1 not in written


def test_close_has_a_timeout() -> None:
    made, go_on, written = Writer(lambda: None, 0.0), threading.Event(), []
    for number in range(THREADS):
        made.put(f"slow:{number}", lambda: go_on.wait(10) and None)
    made.put("run:1", lambda: written.append(1))
    closing = threading.Thread(target=made.close)
    closing.start()
    go_on.wait(0.05)
    go_on.set()
    closing.join(10)
    assert written == []
