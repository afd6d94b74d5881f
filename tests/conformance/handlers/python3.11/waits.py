"""Slow calls. `gate` is a file: the handler continues when it exists."""

import asyncio
import contextvars
import multiprocessing
import os
import signal
import time
from typing import ClassVar

print("imported")


def wait_gate(gate):
    while not is_open(gate):
        time.sleep(0.005)


def is_open(gate):
    return os.path.exists(gate)


async def gate_opens(gate):
    while not is_open(gate):  # noqa: ASYNC110 - the gate is in another process
        await asyncio.sleep(0.005)


async def pause(event, context):
    """Waits for the gate without blocking; logs its cancellation."""
    print("started", event.get("name", ""))
    try:
        await gate_opens(event["gate"])
    except asyncio.CancelledError:
        print("cancelled")
        raise
    print("finished", event.get("name", ""))
    return {"name": event.get("name")}


async def hold_loop(event):
    """Waits for the gate, blocking the event loop."""
    if event.get("gate"):
        wait_gate(event["gate"])
    return {"name": event.get("name")}


def block(event):
    """Waits for the gate, blocking its thread."""
    print("started", event.get("name", ""))
    if event.get("gate"):
        wait_gate(event["gate"])
    print("finished", event.get("name", ""))
    return {"name": event.get("name")}


def gated(event):
    """A stream that waits for the gate after its first chunk."""
    try:
        yield "first"
        wait_gate(event["gate"])
        for _ in range(event.get("count", 1)):
            yield "second" * event.get("times", 1)
    finally:
        print("closed")


async def gated_async(event):
    try:
        for _ in range(event.get("early", 1)):
            yield "first"
        await gate_opens(event["gate"])
        yield "second"
    finally:
        print("closed")


async def stubborn(event):
    """Refuses to be cancelled until the gate opens."""
    while True:
        try:
            await gate_opens(event["gate"])
            break
        except asyncio.CancelledError:
            print("no")
    print("gave up")
    return "late"


def eat(event):
    """Takes more and more memory, if asked to."""
    kept = []
    while event.get("much"):
        kept.append(b"x" * (1 << 20))
        time.sleep(0.002)
    return {"kept": len(kept)}


def die(event):
    """Kills the process."""
    os._exit(event["code"])


def size(event, context):
    return {"size": len(context.http.body), "sum": sum(context.http.body[:1000])}


def mirror(event, context):
    return context.http.body


def sse(event):
    """An event stream that waits for the gate after its first event."""
    return {"statusCode": 200, "headers": {"Content-Type": "text/event-stream"}, "body": two_events(event["gate"])}


def two_events(gate):
    yield "data: first\n\n"
    wait_gate(gate)
    yield "data: second\n\n"


def after_exit_in_a_task(event):
    async def leave():
        raise SystemExit(9)

    async def start():
        asyncio.get_running_loop().create_task(leave())
        await asyncio.sleep(0.01)
        return "still here"

    return start()


def crash(event):
    import faulthandler

    faulthandler._sigsegv()


def square(number):
    print("square", number)
    return number * number


async def square_later(number):
    await asyncio.sleep(0)
    return await asyncio.to_thread(square, number)


async def squares():
    return list(await asyncio.gather(*(square_later(n) for n in range(3))))


def own_concurrency(event):
    """Processes or an event loop that the handler starts itself."""
    if event["kind"] == "own_loop":
        return asyncio.run(squares())
    with multiprocessing.Pool(2) as pool:
        return pool.map(square, range(3))


def leave_child_behind(event):
    if os.fork() == 0:
        wait_gate(event["gate"])
        os._exit(0)
    return "ok"


def ticks(event):
    for number in range(4):
        time.sleep(0.5)
        yield f"{number} "


async def ticks_async(event):
    for number in range(4):
        await asyncio.sleep(0.5)
        yield f"{number} "


def end_child(event):
    """How a terminated forked child ends: minus the number of the signal."""
    pid = os.fork()
    if pid == 0:
        wait_gate("/never")
    os.kill(pid, signal.SIGTERM)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def signal_in_child(event):
    """A forked child with signal handlers of its own."""
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGUSR1, lambda _number, _frame: None)
        os.kill(os.getpid(), signal.SIGUSR1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class Closable:
    """An iterator that must be closed and is referenced elsewhere."""

    kept: ClassVar = []

    def __init__(self):
        self.kept.append(self)

    def __iter__(self):
        return self

    def __next__(self):
        return "x" * 100_000

    def close(self):
        print("closed")


def endless(event):
    return Closable()


remembered = contextvars.ContextVar("remembered", default="nothing")


def remember(event):
    """What an earlier call left in a context variable."""
    before = remembered.get()
    remembered.set("something")
    return before
