"""Use cases: one method per operation that users can request. It checks, writes in one transaction, and wakes a loop.

`workloads` functions and services · `jobs` · `triggers` · `uploads` code · `versions` activate, source · `checks` of code ·
`recode` new versions of existing code · `history` calls, logs, statistics · `invocations` one call with its attempts, cancel, retry ·
`tenants` · `overview` all resources of a namespace in one list · `follow` growing logs · `views` resources as clients see them · `parts`
shared by all.

For operators: `operators` tenants and suspension, allowed code · `revocations` of tokens. `notifications` the `notify_url` of a tenant.

Nothing here waits for a build or a backend. A use case that writes twice (a spec, then a version) orders the writes so that a crash in
between loses nothing that was acknowledged.
"""

from collections.abc import Callable

from sless.code.intake import Intake
from sless.config import Settings
from sless.domain.model import Kind
from sless.domain.operators import QueueDepth
from sless.domain.package import PackageLimits
from sless.domain.ports import CodeStore, Follower, FollowRequest, Validator, Waker
from sless.store import Store
from sless.usecases.follow import BuildFollower, LogFollower
from sless.usecases.history import History
from sless.usecases.invocations import Invocations
from sless.usecases.jobs import Jobs
from sless.usecases.notifications import Notifications
from sless.usecases.operators import Operators
from sless.usecases.overview import Overview
from sless.usecases.parts import UseCaseParts, no_calls
from sless.usecases.revocations import Revocations
from sless.usecases.tenants import TenantUseCases
from sless.usecases.triggers import Triggers
from sless.usecases.uploads import Uploads
from sless.usecases.versions import Versions
from sless.usecases.workloads import Workloads

__all__ = ["Usecases"]


class Usecases:
    """Calls `freshen_logs` with the id of a workload whose log lines are about to be read, and their maximum age in seconds.
    `routes_settled` and `waiting_calls` as in UseCaseParts. Calls `tokens_revoked` when the list of revoked tokens has changed."""

    def __init__(
        self, *, settings: Settings, store: Store, code: CodeStore, waker: Waker, validator: Validator,
        freshen_logs: Callable[[str, float], None] = lambda *_: None, routes_settled: Callable[[], bool] = lambda: True,
        tokens_revoked: Callable[[], None] = lambda: None, waiting_calls: Callable[[], QueueDepth] = no_calls, installation: str = "",
    ) -> None:  # fmt: skip
        limits = PackageLimits(unpacked_bytes=settings.max_unpacked_bytes, files=settings.max_code_files)
        self._parts = UseCaseParts(
            settings=settings,
            store=store,
            code=code,
            waker=waker,
            validator=validator,
            intake=Intake(settings.data_dir / "uploads", limits),
            routes_settled=routes_settled,
            waiting_calls=waiting_calls,
            installation=installation,
        )
        self.tenants = TenantUseCases(self._parts)
        self.notifications = Notifications(self._parts)
        self.operators = Operators(self._parts)
        self.revocations = Revocations(self._parts, tokens_revoked)
        self._workloads = {kind: Workloads(self._parts, kind) for kind in (Kind.FUNCTION, Kind.SERVICE)}
        self.jobs = Jobs(self._parts)
        self.triggers = Triggers(self._parts)
        self.uploads = Uploads(self._parts)
        self.versions = Versions(self._parts)
        self.history = History(self._parts, freshen_logs)
        self._freshen_logs = freshen_logs
        self.invocations = Invocations(self._parts, freshen_logs)
        self.overview = Overview(self._parts)

    def workloads(self, kind: Kind) -> Workloads:
        return self._workloads[kind]

    def follow_logs(self, request: FollowRequest) -> Follower:
        """Raises NotFound; Invalid for bad parameters."""
        return LogFollower(self._parts.store, request, self._freshen_logs)

    def follow_build(self, request: FollowRequest) -> Follower:
        """Raises NotFound."""
        return BuildFollower(self._parts.store, request)
