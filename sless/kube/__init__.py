"""Kubernetes as a place where things are kept: the API, our names in it, and pods as we build them; shared by `backend` and `builder`.

`client` the only import of the library `kubernetes` (0.7 s and 40 MB, so this package imports it inside `Kube.connect` alone), `kinds` the
kinds we speak of, `errors` what can go wrong, `names` labels and object names, `pods` pure builders of pod parts, `tenant` what a tenant's
namespace consists of, `code_map` small code in a ConfigMap, `stamp` hashes by which nothing is written twice, `edits` whether
somebody else has written.

Decision: manifests are plain dicts, sent as server-side apply under the field manager `sless`. Model classes would cost a copy of each
object per list, refuse fields of newer clusters, and make the tests compare classes instead of what is sent.

Decision: what we apply is ours whole but for metadata that others add. Server-side apply gives back what somebody else has changed or
removed; what he added it would leave, so before it is applied again, that is made ours (managedFields).

Decision: each request goes through `Kube._send`, which tells `on_use` what right it needs (verb, group, resource, namespace). The chart's
ClusterRole is compared with what the tests recorded there: no right is granted that nothing uses.
"""

from sless.kube.client import Kube
from sless.kube.errors import Conflict, Exists, KubeError, Refused, Unavailable
from sless.kube.kinds import Use

__all__ = ["Conflict", "Exists", "Kube", "KubeError", "Refused", "Unavailable", "Use"]
