"""Probes and lifecycle hooks, executed against the container."""

import asyncio
from typing import Any

from tests.kube.processes import Container

Object = dict[str, Any]


async def find_failure(probe: Object, container: Container, address: str) -> str | None:
    """None on success, else the reason."""
    try:
        return await asyncio.wait_for(_execute(probe, container, address), probe.get("timeoutSeconds", 1))
    except TimeoutError:
        return "context deadline exceeded"
    except OSError as error:
        return f"dial tcp {address}: {error.strerror or error}"


async def _execute(action: Object, container: Container, address: str) -> str | None:
    if "httpGet" in action:
        return await _http(action["httpGet"], container, address)
    if "tcpSocket" in action:
        _, writer = await asyncio.open_connection(address, _port(action["tcpSocket"]["port"], container))
        writer.close()
        return None
    if "exec" in action:
        code, output = await container.execute(action["exec"].get("command") or [])
        return None if code == 0 else f"command exited with code {code}: {output}"
    if "sleep" in action:
        await asyncio.sleep(action["sleep"]["seconds"])
        return None
    return f"{sorted(action)} is not served by the stand-in"


async def _http(get: Object, container: Container, address: str) -> str | None:
    port = _port(get["port"], container)
    reader, writer = await asyncio.open_connection(get.get("host") or address, port)
    try:
        given = {item["name"]: item["value"] for item in get.get("httpHeaders") or []}
        headers = {"Host": f"{address}:{port}", "User-Agent": "kube-probe/1.30", "Accept": "*/*", "Connection": "close", **given}
        lines = [f"GET {get.get('path', '/')} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        writer.write("\r\n".join(lines).encode())
        first = (await reader.readline()).split()
        status = int(first[1]) if len(first) > 1 and first[1].isdigit() else 0
        return None if 200 <= status < 400 else f"HTTP probe failed with statuscode: {status}"
    finally:
        writer.close()


def _port(port: int | str, container: Container) -> int:
    if isinstance(port, int):
        return port
    return next(int(item["containerPort"]) for item in container.spec.get("ports") or [] if item.get("name") == port)


async def run_hook(hook: Object, container: Container, address: str) -> str | None:
    """Runs a preStop hook. None on success, else the reason."""
    try:
        return await _execute(hook, container, address)
    except OSError as error:
        return str(error)
