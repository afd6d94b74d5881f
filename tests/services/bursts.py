"""Many calls at once, each on its own connection."""

import asyncio
import json
import urllib.parse

from tests.services.product import Tenant


def burst(tenant: Tenant, path: str, number: int, **event: float) -> list[tuple[int, str]]:
    """(status, body) of concurrent calls."""
    parts = urllib.parse.urlsplit(tenant.product.url)
    body = json.dumps(event)
    fields = f"Host: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    message = f"POST {path} HTTP/1.1\r\n{fields}{body}".encode()

    async def call() -> tuple[int, str]:
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        writer.write(message)
        answer = (await reader.read()).decode()
        writer.close()
        return int(answer.split(" ", 2)[1]), answer.partition("\r\n\r\n")[2]

    async def call_all() -> list[tuple[int, str]]:
        return await asyncio.gather(*(call() for _ in range(number)))

    return asyncio.run(call_all())
