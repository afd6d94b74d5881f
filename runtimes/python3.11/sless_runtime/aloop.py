"""Coroutines and async iterators: one event loop in its own thread; the connection's thread waits and sends. A call that runs on the main
thread (jobs, and instances with one call at a time) runs the main thread's own loop instead.

Each call runs in a single task, its stream included, because a task group or time-out must be entered and left in the same task.
The task sends (kind, value) pairs to the thread through a queue; each chunk waits until the previous one has been sent.
"""

import threading
from _queue import SimpleQueue

from .answers import answer_of
from .calls import client_left
from .own import standard

asyncio = standard("asyncio")
BLOCKED_SEC = 0.1
WATCH_AFTER_SEC = 0.05
"""Most calls end sooner, so the kernel is not asked whether the client has left."""


class Abandoned(BaseException):
    """The client has left or the deadline has passed. The caller must still finish `run`."""

    abandoned_call = True

    def __init__(self, run):
        super().__init__("abandoned")
        self.run = run


class LoopThread:
    """Starts with the first coroutine. An exception in a user's own task ends that task only."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self._run, name="event-loop", daemon=True).start()

    def is_blocked(self):
        """Whether the loop runs nothing for BLOCKED_SEC: a coroutine computes or waits without `await`."""
        ran = threading.Event()
        self.loop.call_soon_threadsafe(ran.set)
        return not ran.wait(BLOCKED_SEC)

    def _run(self):
        asyncio.set_event_loop(self.loop)
        while True:
            try:
                self.loop.run_forever()
            except BaseException as error:  # sys.exit in a task that the user's code started
                print(f"a task of the function ended with {error!r}; the runtime continues")


_lock = threading.Lock()
_threads = []


def the_loop():
    with _lock:
        if not _threads:
            _threads.append(LoopThread())
        return _threads[0].loop


def is_blocked():
    """Whether coroutines of further calls would wait for one that blocks the event loop."""
    return bool(_threads) and _threads[0].is_blocked()


def main_loop():
    """The loop that `asyncio.get_event_loop()` returns in the main thread; a new one if the user's code closed it."""
    try:
        loop = asyncio.get_event_loop_policy().get_event_loop()
        if not loop.is_closed():
            return loop
    except RuntimeError:
        pass
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    return loop


class AsyncRun:
    """One call that runs in the event loop."""

    def __init__(self, result, call, descriptor):
        self._inline = threading.current_thread() is threading.main_thread()
        self.loop = main_loop() if self._inline else the_loop()
        self.task = None
        self._call = call
        self._result = result
        self._descriptor = descriptor
        self._watching = False
        self._timers = []
        self._sent = None
        self._messages = SimpleQueue()
        self.loop.call_soon_threadsafe(self._start)

    # called in the connection's thread

    def receive(self):
        """Return the next (kind, value). Raises the handler's exception, or Abandoned."""
        if self._inline:
            self._run_until(lambda: not self._messages.empty())
        kind, value = self._messages.get()
        if kind == "failed":
            raise value
        if kind == "abandoned":
            if self._inline:
                self._finish_inline()
            raise Abandoned(self)
        return kind, value

    def _run_until(self, finished):
        """Run the main thread's loop. What a user's own task raises ends that task only."""
        while not finished():
            try:
                self.loop.run_forever()
            except BaseException as error:  # sys.exit in a task that the user's code started
                print(f"a task of the function ended with {error!r}; the runtime continues")

    def _finish_inline(self):
        if not self.task.done():
            self.task.add_done_callback(lambda _task: self.loop.stop())
            self._run_until(self.task.done)

    def __iter__(self):
        """Iterate over the chunks of an async stream. Not a generator: closing one that was never started would run nothing."""
        return self

    def __next__(self):
        if self._sent is not None:
            self.loop.call_soon_threadsafe(self._acknowledge)
        kind, value = self.receive()
        if kind == "end":
            raise StopIteration
        return value

    def close(self):
        if self._inline:
            self._cancel()
            self._finish_inline()
        else:
            self.loop.call_soon_threadsafe(self._cancel)

    def when_done(self, callback):
        """Call `callback` once the task has ended; a task may ignore its cancellation."""
        if self._inline:
            callback()
        else:
            self.loop.call_soon_threadsafe(lambda: self.task.add_done_callback(lambda _task: callback()))

    # called in the event loop

    def _post(self, kind, value):
        self._messages.put((kind, value))
        if self._inline:
            self.loop.stop()

    def _start(self):
        self.task = self.loop.create_task(self._main())
        if self._descriptor is None:
            return  # a job has no client, and its time-out is enforced from outside
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
            self._post("answer", answer)
            await self._pump(stream)
            self._settle("end", None)
        except BaseException as error:  # a handler may raise anything; the connection's thread reports it
            self._settle("failed", error)

    async def _pump(self, stream):
        iterator = stream.__aiter__()
        try:
            async for chunk in iterator:
                self._sent = self.loop.create_future()
                self._post("chunk", chunk)
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
        """Send the last message, after which the thread may close the socket."""
        for timer in self._timers:
            timer.cancel()
        self._unwatch()
        self._post(kind, value)

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
        self.loop.add_reader(self._descriptor, self._check_client)

    def _unwatch(self):
        if self._watching:
            self._watching = False
            self.loop.remove_reader(self._descriptor)

    def _check_client(self):
        if client_left(self._descriptor):
            self._abandon()
        else:
            self._unwatch()  # a pipelined request hides the end of the stream


def run_async(result, call, descriptor):
    """The answer from an awaitable, or from a result that contains an async stream."""
    return AsyncRun(result, call, descriptor).receive()[1]
