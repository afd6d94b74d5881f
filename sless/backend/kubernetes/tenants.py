"""Tenant namespaces: creates them when first needed, repairs them, and deletes them after they have been empty for a while."""

import logging
import threading
import time
from collections.abc import Callable, Collection
from typing import Any
from weakref import WeakValueDictionary

from sless.backend.kubernetes.view import CachedObject, ObjectCache
from sless.kube import Kube
from sless.kube.names import NAMESPACE, ROLE, ROLE_TENANT, cluster_namespace_of
from sless.kube.registry_accounts import accounts_of
from sless.kube.tenant import TenantPolicy, check_owner, pull_secret_manifest, tenant_manifests

_log = logging.getLogger(__name__)


class TenantNamespaces:
    """The objects of every tenant namespace."""

    def __init__(self, kube: Kube, policy: TenantPolicy, cache: ObjectCache, empty_sec: float) -> None:
        self._kube = kube
        self._policy = policy
        self._cache = cache
        self._empty_sec = empty_sec
        self._locks: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()
        """Locks by tenant, as long as they are in use."""
        self._lock = threading.Lock()
        self._ensured: set[str] = set()
        self._empty_since: dict[str, float] = {}
        self._source: dict[str, Any] | None = None
        """The pull secret that is copied."""
        self._warned: set[tuple[str, str]] = set()

    def ensure(self, namespace: str) -> None:
        """Raises KubeError. Makes no request once the namespace is known to exist."""
        with self._lock:
            lock = self._locks.setdefault(namespace, threading.Lock())
        with lock:
            if namespace not in self._ensured:
                if self._source is None:
                    self.read_source()
                self.repair(namespace)
                self._ensured.add(namespace)

    def ensure_present(self, namespace: str) -> None:
        """Like `ensure`, but also creates a namespace again that was deleted by hand."""
        if self._cache.find(f"Namespace//{cluster_namespace_of(namespace)}") is None:
            self.forget_gone(namespace)
        self.ensure(namespace)

    def forget(self, namespace: str) -> None:
        """Call this if an object of the namespace is missing, so that `ensure` repairs it."""
        self._ensured.discard(namespace)

    def forget_gone(self, namespace: str) -> None:
        """Call this if the namespace does not exist. Also drops its objects from the cache."""
        self.forget(namespace)
        self._cache.drop_namespace(cluster_namespace_of(namespace))

    def repair(self, namespace: str) -> None:
        """Applies missing and outdated objects. Raises KubeError, also if the namespace belongs to another installation."""
        home = cluster_namespace_of(namespace)
        if self._cache.find(f"Namespace//{home}") is None:
            check_owner(self._kube, home, self._policy.installation)
        for manifest in self._wanted(namespace):
            if not self._cache.holds(manifest):
                self._cache.put(manifest["kind"], self._kube.apply(manifest))

    def read_source(self) -> None:
        """Reads the pull secret again, in case it has changed. Raises KubeError."""
        if self._policy.pull_secret:
            self._source = self._kube.find("Secret", self._policy.pull_secret, self._policy.pod_namespace)
            if self._source is None:
                _log.warning("the pull secret %r does not exist in namespace %r", self._policy.pull_secret, self._policy.pod_namespace)
            else:
                self._warn_of_push(self._source)

    def _warn_of_push(self, pull: dict[str, Any]) -> None:
        """Warns that the pull secret may push: anyone who can read its copy in a tenant's namespace could replace images of all tenants."""
        push = self._policy.push_secret
        if not push:
            return
        shared = accounts_of(pull) & accounts_of(self._kube.find("Secret", push, self._policy.pod_namespace))
        for host, user in sorted(shared - self._warned):
            text = "SLESS_REGISTRY_PULL_SECRET: expected an account that can only pull, found %s's user %r, which pushes with Secret %r"
            _log.warning(text, host, user, push)
        self._warned |= shared

    def outdated(self, in_use: Collection[str]) -> list[str]:
        """Tenants in use whose namespace exists but lacks something or has not been written by this process yet."""
        found = []
        for namespace in sorted(in_use):
            if self._cache.find(f"Namespace//{cluster_namespace_of(namespace)}") is None:
                self.forget(namespace)
            elif any(not self._cache.holds(manifest) for manifest in self._wanted(namespace)):
                self.forget(namespace)
                found.append(namespace)
        return found

    def unused(self, in_use: Collection[str], holds: Callable[[str], bool]) -> list[CachedObject]:
        """Our namespaces that can be deleted: the tenant has had no workload for `empty_sec`, and nothing runs there (`holds`)."""
        now = time.monotonic()
        empty = {
            cached.name: cached
            for cached in self._cache.all()
            if (cached.kind, cached.labels.get(ROLE)) == ("Namespace", ROLE_TENANT)
            and not cached.deleting and cached.labels.get(NAMESPACE) not in in_use and not holds(cached.name)
        }  # fmt: skip
        self._empty_since = {name: self._empty_since.get(name, now) for name in empty}
        return [cached for name, cached in empty.items() if now - self._empty_since[name] >= self._empty_sec]

    def remove(self, cached: CachedObject) -> None:
        self.forget(cached.labels.get(NAMESPACE, ""))
        self._kube.delete("Namespace", cached.name)
        self._cache.drop_namespace(cached.name)

    def _wanted(self, namespace: str) -> list[dict[str, Any]]:
        manifests = tenant_manifests(self._policy, namespace)
        if self._source is not None:
            manifests.append(pull_secret_manifest(self._policy, namespace, self._source))
        return manifests
