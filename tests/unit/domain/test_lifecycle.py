"""Transitions of versions and calls."""

import pytest

from sless.domain import lifecycle
from sless.domain.model import CallStatus, VersionState


@pytest.mark.parametrize("source", list(VersionState))
@pytest.mark.parametrize("target", list(VersionState))
def test_versions(source, target):
    allowed = {"queued → building", "queued → cancelled", "building → ready", "building → failed", "building → cancelled"}
    assert (source in lifecycle.version_sources_of(target)) == (f"{source} → {target}" in allowed)


def test_calls():
    ends = {"succeeded", "failed", "timeout", "cancelled", "dead"}
    allowed = {f"{source} → {end}" for source in ("queued", "running") for end in ends}
    allowed |= {"queued → running", "running → queued", "queued → missed", "queued → skipped"}
    found = {f"{source} → {target}" for target in CallStatus for source in lifecycle.call_sources_of(target)}
    assert found == allowed


def test_final_states_have_no_transitions():
    assert {VersionState.QUEUED, VersionState.BUILDING} == lifecycle.OPEN_VERSION_STATES
    assert {CallStatus.QUEUED, CallStatus.RUNNING} == lifecycle.OPEN_CALL_STATUSES
    assert set(VersionState) == lifecycle.ENDED_VERSION_STATES | lifecycle.OPEN_VERSION_STATES
    assert lifecycle.ENDED_CALL_STATUSES.isdisjoint(lifecycle.OPEN_CALL_STATUSES)


def test_every_state_has_a_row():
    assert set(lifecycle.VERSION_MOVES) == set(VersionState)
    assert set(lifecycle.CALL_MOVES) == set(CallStatus)
