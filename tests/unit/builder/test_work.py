"""Limits of the build log."""

from sless.builder.work import MAX_LINE_CHARS, MAX_LOG_CHARS, MAX_LOG_LINES, Work
from sless.domain.model import Kind
from sless.domain.ports import BuildSpec

SPEC = BuildSpec(
    id="b1", workload_id="w1", namespace="ns", name="f", kind=Kind.FUNCTION, version=1, runtime="python3.11", entrypoint="handler.handle",
    code_key="k", build_env={}, env={}, memory_mb=128,
)  # fmt: skip
END = f"[the build log exceeds {MAX_LOG_LINES} lines or 4 MB: the rest is dropped]"


def logged(lines: list[str]) -> list[str]:
    work = Work(SPEC, lambda: None, 60)
    work.log(*lines)
    return list(work.poll().lines)


def test_log_is_limited_in_lines():
    assert logged(["x"] * MAX_LOG_LINES) == ["x"] * MAX_LOG_LINES
    assert logged(["x"] * (MAX_LOG_LINES + 5))[-2:] == ["x", END]


def test_a_line_is_cut():
    assert logged(["y" * MAX_LINE_CHARS, "z" * 100_000]) == ["y" * MAX_LINE_CHARS, "z" * MAX_LINE_CHARS + " …[cut]"]


def test_log_is_limited_in_characters():
    lines = logged(["y" * MAX_LINE_CHARS] * 2_000)
    assert lines[-1] == END and lines.count(END) == 1
    assert MAX_LOG_CHARS - 2 * MAX_LINE_CHARS < sum(map(len, lines)) <= MAX_LOG_CHARS + len(END)
