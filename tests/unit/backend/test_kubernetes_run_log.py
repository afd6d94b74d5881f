"""Which lines of a run's whole log are read."""

from sless.backend.kubernetes.run_log import MARK, newest_of


def test_the_newest_lines_of_a_long_log_are_read_not_counting_the_outcome() -> None:
    lines = [b"%d" % number + b"x" * 99 for number in range(100)] + [MARK + b"y" * 10_000]
    assert [line[:2] for line in newest_of(lines, 250)] == [b"98", b"99"]
    assert newest_of(lines, 2**20) == lines[:-1]
