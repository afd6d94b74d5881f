"""Functions in a Kubernetes cluster: ports.Backend over Deployments and Jobs.

`fit` settings that shape objects, `manifests` and `run_manifests` desired state as objects, `seen` observed objects as the port's values
(all pure); `mirror` observes the cluster, `view` is what it shows, `look` passes it on, `writer` changes it, `instances` and `tenants`
decide what to write, `runs` follows Jobs with `run_seen` (pure) and `run_log`, `crash_logs` reads the logs of ended containers, `stuck`
checks reported instances, `answering` new ones, `cluster` puts them behind the port.

Decision: desired state is not kept in memory. Objects carry their own description (annotations: hash, generation, the objects they need).
When something is missing or was edited, `observe` reports generation 0 and the reconciler applies again. So a restart, a takeover by
another replica and a manual `kubectl delete` are one case, and a former leader has nothing left to write.

Decision: a new leader applies each object once, which changes nothing unless it was edited. The answer says who owns which field
(managedFields), and so does each list: from then on manual edits show, even in kinds without a generation.

Decision: each kind is listed once and then watched, and listed again every ten minutes, after an expired version and after a broken stream.
Lists every two seconds took 7 % of a core and 150 requests a minute from an idle cluster. Whatever decides sees only a whole view, as
before, and when a kind cannot be observed there is none: "cannot see" changes nothing. Silence may be a quiet cluster or a frozen API, so
an API that says nothing is asked: each minute, and every three seconds while something changes. After an outage of the API no run ends
because of elapsed time for as long as the outage took (`View.settled`), because nodes report late. Of the other kinds (Secrets, Services,
policies …) only the metadata is observed, by the leader, so that manual deletions and edits are undone.

Decision: a call of the port never waits for the API. Writes go through a small pool, the newest desired state of a workload wins, and the
cluster's answer shows in `observe`.
"""

from sless.backend.kubernetes.cluster import ClusterParts, KubernetesBackend

__all__ = ["ClusterParts", "KubernetesBackend"]
