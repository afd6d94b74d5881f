"""One call with its attempts and callback; cancel and retry; the keys that sign callbacks."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from sless import clock
from sless.domain.callback import KEY_OVERLAP, Callback, CallbackKey, signing_keys_of
from sless.domain.lifecycle import ENDED_CALL_STATUSES
from sless.domain.model import Invocation, Kind, LogLine, Run
from sless.domain.runs import Attempt
from sless.errors import Code, NotFound, SlessError
from sless.tokens import Caller
from sless.usecases.parts import UseCaseParts

_LINES_ARRIVE_SEC = 10.0
"""Time after the end of a call by which its log lines have arrived in the store without a request for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InvocationView:
    """`run` is None for synchronous calls and for runs that were cleaned up."""

    call: Invocation
    lines: list[LogLine]
    run: Run | None
    attempts: list[Attempt]
    callback: Callback | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackKeyView:
    """Until `previous_until`, callbacks are also signed with the previous key; None if there is none or its time is over."""

    key: CallbackKey
    previous_until: datetime | None


class Invocations:
    def __init__(self, parts: UseCaseParts, freshen_logs: Callable[[str, float], None]) -> None:
        """`freshen_logs` fetches the log lines of a workload, unless it has within this number of seconds."""
        self._parts = parts
        self._freshen_logs = freshen_logs
        self._store = parts.store

    def get(self, namespace: str, kind: Kind, name: str, id_or_request_id: str) -> InvocationView:
        return self._view(self._call(namespace, kind, name, id_or_request_id))

    def get_in(self, namespace: str, id_or_request_id: str) -> InvocationView:
        """Finds a call of any workload of the namespace, even a deleted one as long as history is kept. Raises NotFound."""
        call = self._store.history.find_in(namespace, id_or_request_id)
        if call is None:
            raise NotFound("invocation", id_or_request_id)
        return self._view(call)

    def _view(self, call: Invocation) -> InvocationView:
        # Fetch the lines, which arrive separately from the record, so that the view of a call includes them.
        ended_sec = (clock.now() - call.finished_at).total_seconds() if call.finished_at else 0.0
        if ended_sec < _LINES_ARRIVE_SEC:
            self._freshen_logs(call.workload_id, max(0.0, ended_sec))
        run = self._store.runs.find(call.id)
        return InvocationView(
            call=call,
            lines=self._store.history.lines_of(call.workload_id, call.id),
            run=run,
            attempts=self._store.runs.attempts_of(call.id) if run else [],
            callback=self._store.callbacks.find(call.id) if run and run.callback_url else None,
        )

    def cancel(self, namespace: str, kind: Kind, name: str, id_or_request_id: str) -> InvocationView:
        """Cancels a queued call and stops a running one. Raises CONFLICT if it has ended."""
        call = self._call(namespace, kind, name, id_or_request_id)
        if not self._store.runs.cancel(call.id):
            run = self._store.runs.find(call.id)
            status = run.status if run else call.status
            raise SlessError(Code.CONFLICT, f'invocation "{call.id}" cannot be cancelled: it is {status}')
        self._parts.wake("runs", "callbacks")
        return self.get(namespace, kind, name, call.id)

    def retry(self, namespace: str, kind: Kind, name: str, id_or_request_id: str) -> Run:
        """Queues the call again. Raises CONFLICT if it is queued, running or succeeded, or was not asynchronous."""
        call = self._call(namespace, kind, name, id_or_request_id)
        run = self._store.runs.find(call.id)
        if run is None:
            known = (
                "its request is no longer stored"
                if call.attempts > 1
                else "its request was not stored: only those of asynchronous calls are"
            )
            raise SlessError(Code.CONFLICT, f'invocation "{call.id}" cannot be run again: {known}')
        if not self._store.runs.rerun(run.id):
            now = self._store.runs.get(run.id)
            how = "it succeeded" if now.status in ENDED_CALL_STATUSES else f"it is {now.status}"
            raise SlessError(Code.CONFLICT, f'invocation "{call.id}" cannot be run again: {how}')
        self._parts.wake("runs")
        return self._store.runs.get(run.id)

    def callback_key(self, caller: Caller, namespace: str) -> CallbackKeyView:
        self._parts.ensure_tenant(caller, namespace)
        return _view_of(self._store.callbacks.keys(namespace))

    def rotate_callback_key(self, caller: Caller, namespace: str) -> CallbackKeyView:
        self._parts.ensure_tenant(caller, namespace)
        self._store.callbacks.keys(namespace)  # creates the first key, so that a rotation always replaces one
        return _view_of(self._store.callbacks.rotate_key(namespace))

    def _call(self, namespace: str, kind: Kind, name: str, id_or_request_id: str) -> Invocation:
        workload = self._store.workloads.get(namespace, kind, name)
        found = self._store.history.find_invocation(workload.id, id_or_request_id)
        if found is None:
            raise NotFound("invocation", id_or_request_id)
        return found


def _view_of(keys: list[CallbackKey]) -> CallbackKeyView:
    two = len(signing_keys_of(keys, clock.now())) > 1
    return CallbackKeyView(key=keys[0], previous_until=keys[0].created_at + KEY_OVERLAP if two else None)
