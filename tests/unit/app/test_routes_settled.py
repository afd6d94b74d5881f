"""A server shows Ready only once its own table of routes has every write."""

import asyncio
from pathlib import Path

from sless.app.assembly import Assembly
from sless.app.database import migrate
from sless.config import Settings
from sless.domain.durations import Durations
from sless.domain.model import Kind
from tests.builders import NAMESPACE, make_workload_spec


async def test_routes_are_settled_once_the_table_has_every_write(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, auth_mode="local", backend="local")
    migrate(settings)
    assembly = Assembly(settings, None, Durations(routes_sec=0.05))
    routes = assembly.plane.routes
    try:
        assert not await asyncio.to_thread(assembly._routes_settled), "nothing has been read yet"
        assembly.durations = Durations()
        await routes.start()
        assembly.store.tenants.ensure(NAMESPACE, "somebody")
        for number in range(3):
            assembly.store.workloads.insert(NAMESPACE, Kind.FUNCTION, f"f{number}", make_workload_spec())
            assert await asyncio.to_thread(assembly._routes_settled)
            assert routes.find(NAMESPACE, f"f{number}") is not None
        await routes.stop()
    finally:
        await asyncio.to_thread(assembly._stop)
