"""A client for the REST interface (contract §3), used by the command line and the demo. It imports no server code.

- `Client` talks to one server as one caller; every failure is a `ClientError` with the server's message, code and request ID.
- Only idempotent requests are retried, and only when the connection was refused, so nothing was sent.
- Nothing here prints or reads the environment: `profiles.resolve` takes a mapping, `deploy` takes a `Report`.
- `transport` is the only module here that imports `requests`.
"""

from sless.client.client import Client, connect
from sless.client.deployment import DeployRequest, DeployResult, Report, deploy
from sless.client.errors import ClientError, Unreachable
from sless.client.packing import PackingError, pack_folder
from sless.client.profiles import Profile, ProfileError
from sless.client.transport import CallAnswer

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
