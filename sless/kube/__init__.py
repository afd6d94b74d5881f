"""The Kubernetes API, object names, and the parts of pods; shared by `backend` and `builder`.

`client` is the only module that imports the `kubernetes` library (0.7 s and 40 MB, so only inside `Kube.connect`), `kinds` the kinds in
use, `errors` API errors, `names` labels and object names, `pods` pure builders of pod parts, `pod_state` explains a pod's status to users,
`tenant` the objects in a tenant's namespace, `registry_accounts` accounts in a pull secret, `code_map` small code in a ConfigMap, `stamp`
hashes that avoid needless writes, `edits` detects changes by other clients, `log_tail` reads the log of a container in parts, `watching`
watches the objects of a kind.

Decision: manifests are plain dicts, sent as server-side apply with the field manager `sless`. Model classes would cost a copy of each
object per list, reject fields of newer clusters, and make tests compare classes instead of what is sent.

Decision: sless owns every field of an object it applies, except metadata that others add. Server-side apply restores what others changed or
removed, but keeps what they added; so before an object is applied again, sless takes over those fields (managedFields).

Decision: every request goes through `Kube._send`, which reports the right it needs (verb, group, resource, namespace) to `on_use`. A test
compares the chart's ClusterRole with the rights recorded there, so no right is granted that nothing uses.
"""

from sless.kube.client import Kube
from sless.kube.errors import Conflict, Exists, KubeError, Refused, Unavailable
from sless.kube.kinds import Use

__all__ = ["Conflict", "Exists", "Kube", "KubeError", "Refused", "Unavailable", "Use"]
