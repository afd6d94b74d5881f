"""Allowed state transitions of versions and calls. The store applies them as compare-and-set, so each happens at most once."""

from sless.domain.model import CallStatus, VersionState

VERSION_MOVES: dict[VersionState, frozenset[VersionState]] = {
    VersionState.QUEUED: frozenset({VersionState.BUILDING, VersionState.CANCELLED}),
    VersionState.BUILDING: frozenset({VersionState.READY, VersionState.FAILED, VersionState.CANCELLED}),
    VersionState.READY: frozenset(),
    VersionState.FAILED: frozenset(),
    VersionState.CANCELLED: frozenset(),
}

_CALL_ENDS = frozenset({CallStatus.SUCCEEDED, CallStatus.FAILED, CallStatus.TIMEOUT, CallStatus.CANCELLED, CallStatus.DEAD})

CALL_MOVES: dict[CallStatus, frozenset[CallStatus]] = {
    CallStatus.QUEUED: frozenset({CallStatus.RUNNING, CallStatus.MISSED, CallStatus.SKIPPED}) | _CALL_ENDS,
    # A failed attempt that will be retried returns to queued.
    CallStatus.RUNNING: frozenset({CallStatus.QUEUED}) | _CALL_ENDS,
    CallStatus.SUCCEEDED: frozenset(),
    CallStatus.FAILED: frozenset(),
    CallStatus.TIMEOUT: frozenset(),
    CallStatus.CANCELLED: frozenset(),
    CallStatus.MISSED: frozenset(),
    CallStatus.SKIPPED: frozenset(),
    CallStatus.DEAD: frozenset(),
}

OPEN_VERSION_STATES = frozenset(state for state, targets in VERSION_MOVES.items() if targets)
OPEN_CALL_STATUSES = frozenset(status for status, targets in CALL_MOVES.items() if targets)
ENDED_VERSION_STATES = frozenset(VersionState) - OPEN_VERSION_STATES
ENDED_CALL_STATUSES = frozenset(CallStatus) - OPEN_CALL_STATUSES

RERUNNABLE_CALL_STATUSES = frozenset(
    {CallStatus.FAILED, CallStatus.TIMEOUT, CallStatus.DEAD, CallStatus.CANCELLED, CallStatus.MISSED, CallStatus.SKIPPED}
)
"""Final statuses from which a user may retry a call. Only a retry leaves a final status."""

ERROR_STATUSES = frozenset({CallStatus.FAILED, CallStatus.TIMEOUT, CallStatus.DEAD})
"""Final statuses that count as errors in `call_stats`."""


def version_sources_of(target: VersionState) -> frozenset[VersionState]:
    """States from which a version may change to `target`."""
    return frozenset(state for state, targets in VERSION_MOVES.items() if target in targets)


def call_sources_of(target: CallStatus) -> frozenset[CallStatus]:
    """Statuses from which a run may change to `target`."""
    return frozenset(status for status, targets in CALL_MOVES.items() if target in targets)
