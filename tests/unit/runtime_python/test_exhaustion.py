"""When the runtime ends a process in which all calls fail."""

import errno

import pytest
from sless_runtime.exhaustion import FAILED_CALLS, FAILING_SEC, Exhaustion
from sless_runtime.failures import failure_answer


def wrapped(inner, *, cause=False):
    """A client's exception: raised from the inner one, or while it is handled."""
    outer = ConnectionError("cannot connect")
    outer.__cause__, outer.__context__ = (inner, None) if cause else (None, inner)
    return outer


ANSWERS = {
    "no descriptor": failure_answer(OSError(errno.EMFILE, "Too many open files"), "r"),
    "no thread": failure_answer(RuntimeError("can't start new thread"), "r"),
    "no process": failure_answer(BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"), "r"),
}
ANSWERS |= {
    "a client's error": failure_answer(wrapped(wrapped(OSError(errno.EMFILE, "Too many open files"))), "r"),
    "an error with a cause": failure_answer(wrapped(RuntimeError("can't start new thread"), cause=True), "r"),
}
OTHER = failure_answer(FileNotFoundError(errno.ENOENT, "No such file"), "r")


class Stage:
    def __init__(self):
        self.now = 100.0
        self.ended = 0
        self.exhaustion = Exhaustion(self.end, lambda: self.now)

    def end(self):
        self.ended += 1

    def fail(self, answer, times=1):
        for _ in range(times):
            self.exhaustion.note(answer)
            self.now += FAILING_SEC / 5


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_a_process_in_which_no_call_succeeds_ends_once(answer):
    stage = Stage()
    stage.fail(answer, FAILED_CALLS - 1)
    assert stage.ended == 0
    stage.fail(answer, 5)
    assert stage.ended == 1


def test_a_burst_does_not_end_it():
    stage = Stage()
    for _ in range(3 * FAILED_CALLS):
        stage.exhaustion.note(ANSWERS["no descriptor"])
    assert stage.ended == 0


def test_other_failures_do_not_end_it():
    stage = Stage()
    for _ in range(3):
        stage.fail(ANSWERS["no process"], FAILED_CALLS - 1)
        stage.fail(OTHER)
    stage.fail(OTHER, 3 * FAILED_CALLS)
    assert stage.ended == 0


def test_a_socket_that_is_not_ready_does_not_count():
    stage = Stage()
    stage.fail(failure_answer(wrapped(BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")), "r"), 3 * FAILED_CALLS)
    assert stage.ended == 0


def test_circular_causes_end():
    one, other = ValueError("one"), ValueError("other")
    one.__context__, other.__context__ = other, one
    assert not failure_answer(one, "r").exhausted
