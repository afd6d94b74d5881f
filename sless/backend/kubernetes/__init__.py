"""Functions in a Kubernetes cluster: ports.Backend over Deployments and Jobs.

`fit` settings that shape objects, `manifests` and `run_manifests` desired state as objects, `observation` observed objects as the port's
values (all pure); `mirror` observes the cluster, `view` is a view of it, `observer` passes views on, `writer` changes the cluster,
`instances` and `tenants` decide what to write, `runs` follows Jobs with `run_observation` (pure) and `run_log`, `crash_logs` reads the logs
of ended containers, `unresponsive` checks reported instances, `answering` new ones, `cluster` puts them behind the port.

Decision: desired state is not kept in memory. Objects describe themselves (in annotations: hash, generation, the objects they need). If
something is missing or was edited, `observe` reports generation 0 and the control loop applies again. So a restart, a takeover by another
replica and a manual `kubectl delete` are one case, and a former leader has nothing left to write.

Decision: a new leader applies each object once, which changes nothing unless it was edited. The answer contains the owner of each field
(managedFields), as do lists and events, so later manual edits are detected even in kinds without a generation.

Decision: each kind is listed once and then watched, and listed again every ten minutes, after an expired version and after a broken stream.
Lists every two seconds took 7 % of a core and 150 requests a minute on an idle cluster. Decisions need a complete view: the leader changes
nothing while it cannot observe one of the kinds. A silent API may be quiet or frozen, so it is probed each minute, and every three seconds
during changes. After an outage of the API, no run ends because of elapsed time for as long as the outage took (`View.settled`), because
nodes report late. Of the other kinds (Secrets, Services, policies …) the leader observes only the metadata, in order to undo manual
deletions and edits.

Decision: a call of the port never waits for the API. Writes go through a small pool, the newest desired state of a workload wins, and
`observe` shows the result.
"""

from sless.backend.kubernetes.cluster import ClusterParts, KubernetesBackend

__all__ = ["ClusterParts", "KubernetesBackend"]
