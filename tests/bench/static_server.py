"""The real server, with one instance at a given address for every workload: `python -m tests.bench.static_server ADDRESS`.

This measures the proxy with the same upstream as nginx's. Front door, routes, database, history and metrics are the real ones.
"""

import sys
from collections.abc import Callable, Collection
from pathlib import Path

import click

from sless import app, clock, config, log, server
from sless.config import Settings
from sless.domain.model import Endpoint
from sless.domain.ports import Deployment, ObservedDeployment, ObservedRun, RunSpec


class StaticBackend:
    """ports.Backend: applied deployments are ready immediately. Runs are rejected."""

    def __init__(self, address: str, changed: Callable[[], None]) -> None:
        self._address = address
        self._changed = changed
        self._observed: dict[str, ObservedDeployment] = {}

    def observe(self) -> dict[str, ObservedDeployment]:
        return dict(self._observed)

    def apply(self, deployment: Deployment) -> None:
        workload_id = deployment.revision.workload_id
        endpoint = Endpoint(
            id=f"e-{workload_id}", workload_id=workload_id, version=deployment.revision.version, address=self._address, draining=False,
            created_at=clock.now(),
        )  # fmt: skip
        self._observed[workload_id] = ObservedDeployment(workload_id=workload_id, generation=deployment.generation, endpoints=(endpoint,))
        self._changed()

    def remove(self, workload_id: str) -> None:
        self._observed.pop(workload_id, None)
        self._changed()

    def keep_namespaces(self, in_use: Collection[str]) -> None:
        pass

    def start_run(self, run: RunSpec, done: Callable[[ObservedRun], None]) -> None:
        raise NotImplementedError("the bench makes no runs here")

    def observe_runs(self) -> dict[str, ObservedRun]:
        return {}

    def remove_run(self, run_id: str) -> None:
        pass

    def why_gone(self, endpoint_id: str) -> str | None:
        return None

    def report_unresponsive(self, endpoint_id: str) -> None:
        pass

    def close(self) -> None:
        pass


@click.command()
@click.argument("address")
@click.option("--port", type=int, default=0)
def main(address: str, port: int) -> None:
    settings = config.load(port=port)
    Path(settings.data_dir).mkdir(parents=True, exist_ok=True)
    log.configure(settings.log_level)
    app.migrate(settings)

    def factory(bound: Settings) -> object:
        return app.build(bound, make_backend=lambda changed: StaticBackend(address, changed))

    server.serve(settings, factory)


if __name__ == "__main__":
    sys.exit(main())
