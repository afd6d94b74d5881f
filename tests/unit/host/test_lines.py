import json

from sless.clock import parse_rfc3339
from sless.host.lines import OUTSIDE_SEQ, LineReader


def runtime_line(seq: int, text: str, **fields) -> bytes:
    item = {"seq": seq, "time": "2026-01-31T09:26:53.589Z", "stream": "stdout", "id": "inv1", "text": text}
    return json.dumps({**item, **fields}).encode()


def read(*raw: tuple[str, bytes], invocation_id: str = ""):
    lines = []
    reader = LineReader("inst", "work", lines.extend, invocation_id=invocation_id)
    for stream, line in raw:
        reader.take(stream, [line])
    return lines, reader


def test_a_runtimes_line_is_taken_over():
    (line,), _ = read(("stdout", runtime_line(12, "hello")))
    assert (line.source_id, line.seq, line.workload_id, line.invocation_id) == ("inst", 12, "work", "inv1")
    assert (line.at, line.stream, line.text) == (parse_rfc3339("2026-01-31T09:26:53.589Z"), "stdout", "hello")


def test_anything_else_is_a_stderr_line_with_its_own_numbers():
    lines, _ = read(("stderr", b"Fatal Python error\r"), ("stdout", b'{"oops'), ("stdout", b'{"seq": 1}'), invocation_id="run1")
    assert [(line.seq - OUTSIDE_SEQ, line.stream, line.text, line.invocation_id) for line in lines] == [
        (1, "stderr", "Fatal Python error", "run1"),
        (2, "stderr", '{"oops', "run1"),
        (3, "stderr", '{"seq": 1}', "run1"),
    ]


def test_a_forged_line_on_stderr_is_text():
    (line,), _ = read(("stderr", runtime_line(1, "forged")))
    assert line.stream == "stderr" and line.text.startswith('{"seq"')


def test_blank_lines_and_the_outcome_are_no_log_and_bytes_are_repaired():
    lines, _ = read(("stderr", b""), ("stderr", b"  "), ("stdout", b'{"sless_outcome": {}}'), ("stderr", b"a\0\xffb"))
    assert [line.text for line in lines] == ["a\ufffdb"]


def test_the_tail_is_short():
    _, reader = read(*(("stdout", runtime_line(n, f"{n}" * 3000)) for n in range(1, 31)))
    assert len(reader.tail()) == 20
    assert reader.tail()[-1] == ("30" * 3000)[:2000]
