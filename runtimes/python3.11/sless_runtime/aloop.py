"""Coroutines and async iterators: one event loop in its own thread; the thread of the connection waits and sends.

Everything of one call runs in one task, also its stream, because task groups and time-outs may not be entered in one task and left in
another.
The task and the thread talk through a queue of (kind, value); each chunk waits until the one before has been sent.
"""

import asyncio
import threading
from _queue import SimpleQueue
from _socket import MSG_DONTWAIT, MSG_PEEK
from _socket import socket as raw_socket

from .answers import answer_of

WATCH_AFTER_SEC = 0.05
"""Most calls have ended before it is worth asking the kernel whether the client is still there."""


class Abandoned(BaseException):
    """Nobody waits for the answer any more: the client has gone or the deadline has passed. `run` still has to be finished."""

    abandoned_call = True

    def __init__(self, run):
        super().__init__("abandoned")
        self.run = run


class LoopThread:
    """Starts with the first coroutine. What a user's own task raises ends that task and nothing else."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self._run, name="event-loop", daemon=True).start()

    def _run(self):
        asyncio.set_event_loop(self.loop)
        while True:
            try:
                self.loop.run_forever()
            except BaseException as error:  # sys.exit in a task of the user's own
                print(f"a task of the function ended with {error!r}; the runtime goes on")


_lock = threading.Lock()
_threads = []


def the_loop():
    with _lock:
        if not _threads:
            from .main import tune_logging

            tune_logging()
            _threads.append(LoopThread())
        return _threads[0].loop


class AsyncRun:
    """One call in the event loop."""

    def __init__(self, result, call, descriptor):
        self.loop = the_loop()
        self.task = None
        self._call = call
        self._result = result
        self._descriptor = descriptor
        self._watching = False
        self._timers = []
        self._sent = None
        self._messages = SimpleQueue()
        self.loop.call_soon_threadsafe(self._start)

    # in the thread of the connection

    def receive(self):
        """The next (kind, value); raises what the handler raised, or Abandoned."""
        kind, value = self._messages.get()
        if kind == "failed":
            raise value
        if kind == "abandoned":
            raise Abandoned(self)
        return kind, value

    def __iter__(self):
        """Chunks of an async stream; the run itself is the iterator, since a generator that never started would close without a trace."""
        return self

    def __next__(self):
        if self._sent is not None:
            self.loop.call_soon_threadsafe(self._acknowledge)
        kind, value = self.receive()
        if kind == "end":
            raise StopIteration
        return value

    def close(self):
        self.loop.call_soon_threadsafe(self._cancel)

    def when_done(self, callback):
        """Calls `callback` as soon as the task has really ended: it may refuse to be cancelled."""
        self.loop.call_soon_threadsafe(lambda: self.task.add_done_callback(lambda _task: callback()))

    # in the loop

    def _start(self):
        self.task = self.loop.create_task(self._main())
        if self._descriptor is None:
            return  # a job: nobody to leave, and its time is watched from outside
        self._timers.append(self.loop.call_later(WATCH_AFTER_SEC, self._watch))
        if self._call.deadline is not None:
            self._timers.append(self.loop.call_later(self._call.remaining_ms() / 1000, self._expire))

    async def _main(self):
        try:
            result = self._result
            if hasattr(type(result), "__await__"):
                result = await result
            answer = answer_of(result)
            if answer.stream is None or not hasattr(type(answer.stream), "__aiter__"):
                self._settle("answer", answer)
                return
            stream, answer.stream = answer.stream, self
            self._messages.put(("answer", answer))
            await self._pump(stream)
            self._settle("end", None)
        except BaseException as error:  # a handler may raise anything; the thread reports it
            self._settle("failed", error)

    async def _pump(self, stream):
        iterator = stream.__aiter__()
        try:
            async for chunk in iterator:
                self._sent = self.loop.create_future()
                self._messages.put(("chunk", chunk))
                await self._sent
        finally:
            if hasattr(iterator, "aclose"):
                await iterator.aclose()

    def _acknowledge(self):
        if self._sent is not None and not self._sent.done():
            self._sent.set_result(None)

    def _cancel(self):
        if self.task is not None and not self.task.done():
            self.task.cancel()

    def _settle(self, kind, value):
        """The last message, after which the thread may close the socket."""
        for timer in self._timers:
            timer.cancel()
        self._unwatch()
        self._messages.put((kind, value))

    def _abandon(self):
        self._settle("abandoned", None)
        self._cancel()

    def _expire(self):
        deadline = self._call.deadline
        if deadline is None or not self._call.is_overdue():
            wait_sec = 0.05 if deadline is None else self._call.remaining_ms() / 1000 + 0.001
            self._timers.append(self.loop.call_later(wait_sec, self._expire))
        else:
            self._abandon()

    def _watch(self):
        self._watching = True
        self.loop.add_reader(self._descriptor, self._look)

    def _unwatch(self):
        if self._watching:
            self._watching = False
            self.loop.remove_reader(self._descriptor)

    def _look(self):
        if client_left(self._descriptor):
            self._abandon()
        else:
            self._unwatch()  # a pipelined request hides the end of the stream behind it


def client_left(descriptor):
    """Whether the other end has closed; False when it has sent something more."""
    sock = raw_socket(fileno=descriptor)
    try:
        return sock.recv(1, MSG_PEEK | MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        sock.detach()


def run_async(result, call, descriptor):
    """The answer of an awaitable or of a result with an async stream."""
    return AsyncRun(result, call, descriptor).receive()[1]
