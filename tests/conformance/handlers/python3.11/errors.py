"""Every way to fail, by name."""

import asyncio
import errno
import os
import sys


class BadText(Exception):
    def __str__(self):
        raise ValueError("no text")


def fail(event):
    return FAILURES[event["kind"]]()


def raise_plain():
    raise RuntimeError("went wrong: 7")


async def raise_async():
    await asyncio.sleep(0)
    raise RuntimeError("went wrong later")


def raise_empty():
    raise ValueError


def raise_unicode():
    raise ValueError("schiefgegangen: ü 🎉")


def raise_long():
    raise ValueError("x" * 5000)


def division():
    return 1 / 0


def exit_text():
    sys.exit("goodbye")


def interrupt():
    raise KeyboardInterrupt


def deep():
    return deep()


def group():
    raise ExceptionGroup("two of them", [ValueError(1), TypeError(2)])


def bad_str():
    raise BadText


async def exit_async():
    sys.exit(4)


kept = []


def descriptors():
    while True:
        kept.append(os.open("/dev/null", os.O_RDONLY))


def wrapped_exhaustion():
    try:
        descriptors()
    except OSError as error:
        raise LookupError("the service cannot be reached") from error


def exhausted_stream():
    yield descriptors()


def no_process():
    raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")


def no_thread():
    raise RuntimeError("can't start new thread")


FAILURES = {
    "descriptors": descriptors,
    "wrapped_exhaustion": wrapped_exhaustion,
    "exhausted_stream": exhausted_stream,
    "no_process": no_process,
    "no_thread": no_thread,
    "none": lambda: "fine",
    "raise": raise_plain,
    "raise_async": raise_async,
    "raise_empty": raise_empty,
    "raise_unicode": raise_unicode,
    "raise_long": raise_long,
    "exit": lambda: sys.exit(3),
    "exit_zero": lambda: sys.exit(),
    "division": division,
    "exit_text": exit_text,
    "interrupt": interrupt,
    "deep": deep,
    "group": group,
    "bad_str": bad_str,
    "exit_async": exit_async,
    "too_large": lambda: bytearray(1 << 60),
}
