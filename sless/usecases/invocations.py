"""What was accepted for later: one call with its attempts and callback, cancelled, run again; and the key its callbacks are signed with."""

from dataclasses import dataclass
from datetime import datetime

from sless import clock
from sless.domain.attempt import Attempt
from sless.domain.callback import KEY_OVERLAP, Callback, CallbackKey, signing_keys_of
from sless.domain.lifecycle import ENDED_CALL_STATUSES
from sless.domain.model import Invocation, Kind, LogLine, Run
from sless.errors import Code, NotFound, SlessError
from sless.tokens import Caller
from sless.usecases.parts import UseCaseParts


@dataclass(frozen=True, slots=True, kw_only=True)
class InvocationView:
    """`run` is None for a synchronous call, and when it was cleaned up."""

    call: Invocation
    lines: list[LogLine]
    run: Run | None
    attempts: list[Attempt]
    callback: Callback | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackKeyView:
    """`previous_until`: until then the key before signs, too; None when there is none or its time is over."""

    key: CallbackKey
    previous_until: datetime | None


class Invocations:
    def __init__(self, parts: UseCaseParts) -> None:
        self._parts = parts
        self._store = parts.store

    def get(self, namespace: str, kind: Kind, name: str, id_or_request_id: str) -> InvocationView:
        call = self._call(namespace, kind, name, id_or_request_id)
        run = self._store.runs.find(call.id)
        return InvocationView(
            call=call,
            lines=self._store.history.lines_of(call.workload_id, call.id),
            run=run,
            attempts=self._store.runs.attempts_of(call.id) if run else [],
            callback=self._store.callbacks.find(call.id) if run and run.callback_url else None,
        )

    def cancel(self, namespace: str, kind: Kind, name: str, id_or_request_id: str) -> InvocationView:
        """What waits never begins; what runs is stopped. Raises CONFLICT when it has ended."""
        call = self._call(namespace, kind, name, id_or_request_id)
        if not self._store.runs.cancel(call.id):
            run = self._store.runs.find(call.id)
            status = run.status if run else call.status
            raise SlessError(Code.CONFLICT, f'invocation "{call.id}" cannot be cancelled: it is {status}')
        self._parts.wake("runs", "callbacks")
        return self.get(namespace, kind, name, call.id)

    def retry(self, namespace: str, kind: Kind, name: str, id_or_request_id: str) -> Run:
        """Another round of attempts. Raises CONFLICT when it waits, runs or succeeded, or was no asynchronous call."""
        call = self._call(namespace, kind, name, id_or_request_id)
        run = self._store.runs.find(call.id)
        if run is None:
            known = "its request is not kept any more" if call.attempts > 1 else "its request was not kept: only asynchronous calls are"
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
        self._store.callbacks.keys(namespace)  # the first one is made before it is replaced, so that a rotation always is one
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
