"""Runs the handler: event in, answer out. Used by server and job mode."""

from .answers import BadResult, answer_of
from .aws import AWS_EVENTS
from .context import Context
from .encode import InvalidJson, NotSerializable
from .events import event_of
from .failures import failure_answer, refusal


class Executor:
    """Calls `handler`. The event loop is imported with the first coroutine."""

    def __init__(self, handler, settings):
        self._function = handler.function
        self._arguments = handler.arguments
        self._settings = settings
        self._aws_event_of = AWS_EVENTS.get(settings.event_format)

    def execute_request(self, request, call, descriptor):
        """Answer an HTTP request. `descriptor` is the client's socket: a coroutine is cancelled when it closes."""
        try:
            if self._aws_event_of and call.trigger == "http":
                event = self._aws_event_of(request, call, self._settings)
            else:
                event = event_of(request)
        except InvalidJson as wrong:
            return refusal(400, "invalid_json", f"the request body is not valid JSON: {wrong}", call.request_id)
        return self.execute(event, call, request=request, descriptor=descriptor)

    def execute(self, event, call, *, request=None, descriptor=None):
        """Answer one event. Raises only `aloop.Abandoned`, which ends the call without an answer."""
        try:
            if self._arguments == 2:
                from_handler = self._function(event, Context(self._settings, call, request))
            else:
                from_handler = self._function(event) if self._arguments else self._function()
            if is_async(from_handler):
                from .aloop import run_async

                return run_async(from_handler, call, descriptor)
            answer = answer_of(from_handler)
            if answer.stream is not None and hasattr(type(answer.stream), "__aiter__"):
                from .aloop import run_async

                return run_async(from_handler, call, descriptor)
            return answer
        except (BadResult, NotSerializable) as wrong:
            return failure_answer(wrong, call.request_id)
        except BaseException as error:  # a handler may raise anything, including SystemExit
            if is_abandoned(error):
                raise
            return failure_answer(error, call.request_id)


def is_async(result):
    return hasattr(type(result), "__await__")


def is_abandoned(error):
    return getattr(error, "abandoned_call", False)
