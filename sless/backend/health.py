"""Health checks of an instance over its Unix socket (runtimes/README.md, "Server mode")."""

import http.client
import json
import socket
from dataclasses import dataclass
from pathlib import Path

TIMEOUT_SEC = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    active: int
    overdue: int


def listens(path: Path) -> bool:
    """Whether a server listens there. Never blocks: a full backlog counts as listening."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as probe:
        try:
            probe.connect(str(path))
        except BlockingIOError:
            return True
        except OSError:
            return False
        return True


def find_instance_health(path: Path, timeout_sec: float = TIMEOUT_SEC) -> Health | None:
    """The health of an instance; None without a valid answer in time."""
    connection = _UnixConnection(path, timeout_sec)
    try:
        connection.request("GET", "/_sless/health", headers={"X-Sless-Control": "1", "Connection": "close"})
        answer = connection.getresponse()
        body = json.loads(answer.read(64 * 1024))
        if answer.status != 200:
            return None
        return Health(active=int(body["active"]), overdue=int(body["overdue"]))
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return None
    finally:
        connection.close()


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout_sec: float) -> None:
        super().__init__("instance", timeout=timeout_sec)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))
