"""The composition root: the only package that chooses implementations.

`assembly` creates and connects the parts of one worker process, `adapters` fit them to each other's protocols, `database` finds, migrates
and claims the database and replaces its keys, `encryption` finds and creates them, `backup` writes and restores backups, `gc` deletes
unreferenced data, `earlier` reads objects of the earlier operator, `lifecycle` creates an application after the server is ready and ends
the parts one by one.
"""

from sless.app.assembly import Assembly, MakeBackend
from sless.app.database import claim, database_url_of, migrate
from sless.asgi import Application
from sless.config import Settings
from sless.domain.durations import Durations

__all__ = ["build", "claim", "database_url_of", "migrate"]


def build(settings: Settings, make_backend: MakeBackend | None = None, durations: Durations | None = None) -> Application:
    """The ASGI application of one worker process, created after the fork. Nothing runs before its lifespan starts."""
    return Assembly(settings, make_backend, durations or Durations()).application()
