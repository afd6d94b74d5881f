"""The REST client: contract §3 as Python calls. Used by the command line and the demo; knows nothing of the server's inside.

- `Client` speaks to one server as one caller; every failure is a `ClientError` that carries the server's own sentence, code and request id.
- Only idempotent requests are repeated, and only when the connection was refused: then nothing was sent.
- Nothing here reads the environment or prints: `settings_of` takes a mapping, `deploy` takes a `Report`.
- The only import of `requests` in the house is in `transport`.
"""

from sless.client.answers import CallAnswer
from sless.client.client import Client, connect
from sless.client.deployment import DeployRequest, DeployResult, Report, deploy
from sless.client.errors import ClientError, Unreachable
from sless.client.packing import PackingError, pack_folder
from sless.client.profiles import Profile, ProfileError

__all__ = [
    "CallAnswer",
    "Client",
    "ClientError",
    "DeployRequest",
    "DeployResult",
    "PackingError",
    "Profile",
    "ProfileError",
    "Report",
    "Unreachable",
    "connect",
    "deploy",
    "pack_folder",
]
