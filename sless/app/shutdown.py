"""Shutdown in steps, each of which runs even if an earlier one failed."""

import logging
from collections.abc import Callable

_log = logging.getLogger(__name__)


def run_steps(*steps: Callable[[], object]) -> None:
    for step in steps:
        try:
            step()
        except Exception:
            _log.exception("shutdown: %s failed; the next steps follow", getattr(step, "__qualname__", step))
