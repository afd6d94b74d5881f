"""Streamed results."""

import asyncio
import tempfile


def stream(event):
    return STREAMS[event["kind"]]()


def text():
    yield "one "
    yield "two "
    yield "three"


async def later():
    yield "one "
    await asyncio.sleep(0.01)
    yield "two"


def fails_at_once():
    raise RuntimeError("before the first")
    yield


def fails_later():
    yield "first"
    raise RuntimeError("after the first")


def logs():
    print("log a")
    yield "a"
    print("log b")
    yield "b"


def file():
    opened = tempfile.TemporaryFile()  # noqa: SIM115 - the runtime closes it
    opened.write(b"f" * 200_000)
    opened.seek(0)
    return opened


def generate(event):
    for i in range(event["n"]):
        yield f"{i},"


async def generate_async(event):
    for i in range(event["n"]):
        await asyncio.sleep(0)
        yield f"{i},"


STREAMS = {
    "text": text,
    "binary": lambda: iter([b"\x00\xff"] * 3),
    "async": later,
    "status": lambda: {"statusCode": 207, "headers": {"Content-Type": "text/csv", "X-S": "1"}, "body": iter(["a", "b"])},
    "empty": lambda: iter([]),
    "large": lambda: (b"z" * 65536 for _ in range(48)),
    "fails_at_once": fails_at_once,
    "fails_later": fails_later,
    "wrong_chunk": lambda: iter([{"a": 1}]),
    "logs": logs,
    "file": file,
}
