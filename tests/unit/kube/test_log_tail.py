"""Following a pod's log in pieces."""

from typing import Any

from sless.kube.log_tail import LIMIT_BYTES, LogTail


class Log:
    """An API that rounds `since_time` down to whole seconds, as the kubelet does."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.asked: list[str | None] = []
        self.sent = 0

    def pod_logs(
        self, namespace: str, pod: str, *, container: str, since_time: str | None, timestamps: bool, limit_bytes: int | None
    ) -> str:
        assert (namespace, pod, container, timestamps) == ("n", "p", "c", True)
        self.asked.append(since_time)
        chosen = [line for line in self.lines if since_time is None or line[:19] >= since_time[:19]]
        self.sent += len(chosen)
        return "".join(chosen)[:limit_bytes]


def at(second: int, fraction: int, text: str, end: str = "\n") -> str:
    return f"2026-01-31T09:26:{second:02}.{fraction:09}Z {text}{end}"


def tail_of(log: Any) -> LogTail:
    return LogTail(kube=log, namespace="n", pod="p", container="c")


def test_each_line_is_read_once_and_old_lines_are_not_requested() -> None:
    log = Log()
    tail = tail_of(log)
    assert tail.read() == []
    log.lines += [at(1, 5, "a"), at(1, 5, "b"), at(2, 0, "")]
    assert tail.read() == [b"a", b"b", b""]
    log.lines += [at(2, 0, "c d"), at(2, 7, "e")]
    assert tail.read() == [b"c d", b"e"]
    assert tail.read() == []
    log.lines += [at(number, 0, "x") for number in range(10, 40)]
    assert len(tail.read()) == 30
    log.sent = 0
    assert tail.read() == [] and log.sent == 1
    assert log.asked[0] is None and log.asked[-1] == at(39, 0, "", "")[:30]


def test_an_incomplete_line_waits_for_its_end() -> None:
    log = Log()
    tail = tail_of(log)
    log.lines = [at(1, 0, "a"), at(1, 1, "par", "")]
    assert tail.read() == [b"a"]
    log.lines[-1] = at(1, 1, "partial", "")
    assert tail.read(ended=True) == [b"partial"]


def test_each_second_of_a_flood_is_read_up_to_a_limit() -> None:
    log = Log()
    tail = tail_of(log)
    log.lines = [at(second, number, f"{second} {number} " + "x" * 100_000) for second in (1, 2, 3) for number in range(100)]
    log.lines.append(at(4, 0, "the end"))
    heard: list[bytes] = []
    for _ in range(8):
        fresh = tail.read()
        assert sum(map(len, fresh)) <= LIMIT_BYTES
        heard += [line[:7].strip(b" x") for line in fresh]
    assert heard[0] == b"1 0" and heard[-1] == b"the end" and len(heard) == len(set(heard))
    assert 20 < sum(line.startswith(b"2 ") for line in heard) < 50
    last = tail_of(log).read(ended=True)
    assert len(last) == 301, "at the end everything that the node keeps"
