"""Starts the process that writes history, with its settings."""

import json

from sless import ids
from sless.app.database import database_url_of
from sless.children import command_of
from sless.config import Settings, passed_on
from sless.proxy.history_child import link_to_child
from sless.proxy.recorder import MakeLink

_PASSED_ON = ("HOME", "LANG", "LC_*", "LD_LIBRARY_PATH", "PG*", "SSL_*", "TMPDIR", "TZ")
"""Variables read by Python, SQLite and PostgreSQL's library."""


def history_link(settings: Settings, holder: str) -> MakeLink:
    order = {"database_url": database_url_of(settings), "holder": holder, "session": ids.new_id(), "log_level": settings.log_level}
    return link_to_child(command_of("sless.store.history_process"), json.dumps(order).encode(), passed_on(_PASSED_ON))
