"""The cluster as a place where functions run: ports.Backend over Deployments and Jobs.

`fit` what settings mean for objects, `manifests` and `run_manifests` wishes as objects, `words` what a pod's state means to a user, `seen`
what the cluster shows as what the port speaks of (all of these pure); `view` reads the cluster, `look` when, `writer` changes it,
`instances` and `tenants` say what, `runs` follows Jobs with `run_seen` (pure) and `run_log`, `crash_logs` reads what containers left,
`stuck` asks instances that were reported, `cluster` joins them behind the port.

Decision: nothing that is wished is remembered here. What is in the cluster is compared with what it says of itself (annotations: hash,
generation, what it needs beside itself); when something is missing or was edited, `observe` shows generation 0 and the reconciler wishes
again. So a restart, a takeover by another replica and somebody's `kubectl delete` are one case, and a former leader has nothing left to
write.

Decision: a server that begins to lead applies each object once, which changes nothing where nothing was edited meanwhile. Who owns which
field stands in the answer (managedFields) and in each list: from then on an edit by hand shows there, also in kinds without a generation.

Decision: lists, no watches. Two or three lists each second or two, whatever the number of functions, are simple to reason about; a missed
event cannot exist. Behind an outage of the API no run ends because of the time that has passed, for as long as that took (`View.settled`):
nodes tell the API later than it answers us. The rest (Secrets, Services, policies …) is listed in turn, metadata only, so that what was
deleted or edited by hand is as it was within a minute.

Decision: a call of the port never waits for the API. Writes go through a small pool, the newest wish of a workload wins, and what the
cluster says to them shows in `observe`.
"""

from sless.backend.kubernetes.cluster import ClusterParts, KubernetesBackend

__all__ = ["ClusterParts", "KubernetesBackend"]
