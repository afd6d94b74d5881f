"""Backend: where user code runs; implementations of `domain.ports.Backend`.

`kubernetes/` pods of a cluster, with a charter of its own. `local` child processes of this server: `plan` decides (pure), `supervisor`
applies, `instances` are its nouns, `starter` starts one, `health` asks one, `runs` the things that run once, `records` their folders,
`outcome` reads what they left, `split_result` (a program of its own) what is too large to be parsed here.

Decision: a deployment is held by the same loop that a cluster would use: `decide(desired, instances, now)` is a table of rules without I/O,
called again after everything that happens; nothing else starts or stops an instance. So a crash in the middle of a roll-out in the middle
of scaling down needs no case of its own.

Decision: memory is watched, not limited: cgroups need rights that a laptop does not give, and RLIMIT_AS breaks V8 and Go, which reserve
address space that they never use.
"""

from sless.backend.local import LocalBackend, make_local_backend

__all__ = ["LocalBackend", "make_local_backend"]
