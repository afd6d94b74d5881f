"""A Kubernetes API server for tests, with controllers and a kubelet: an HTTP server in a process of its own.

It stores objects, checks every body against the published schemas of the oldest and newest supported version, applies on the server side
with field ownership, refuses what quotas, Pod Security and roles refuse, and plays the rest of a cluster: Deployments make ReplicaSets make
Pods, Jobs make Pods, and a Pod of an image that it knows is a real process of this machine with an address of its own. Other Pods act by
script. `cluster.KubeCluster` starts it and is how tests talk to it; the fixture is `kube_cluster`.

Where it is kinder than a cluster: there are no network policies, no DNS, no read-only root and no user of its own per container.
Where it is stricter: a body that either schema refuses fails the test even if the code lives with the refusal.
"""
