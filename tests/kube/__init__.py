"""A Kubernetes API server for tests, with controllers and a kubelet: an HTTP server in a separate process.

It stores objects, validates every body against the published schemas of the oldest and newest supported version, implements server-side
apply with field ownership, enforces quotas, Pod Security and RBAC, and simulates the rest of a cluster: Deployments create ReplicaSets,
ReplicaSets and Jobs create Pods, and a Pod whose image it knows is a real process on this machine with its own address. Other Pods follow
a script. `cluster.KubeCluster` starts it and is the tests' interface to it; the fixture is `kube_cluster`.

More lenient than a cluster: no network policies, no DNS, no read-only root, and no separate user per container.
Stricter: a body that either schema rejects fails the test, even if the code handles the error.
"""
