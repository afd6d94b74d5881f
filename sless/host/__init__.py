"""Host: runs user code on this machine. Shared by the local backend and the local builder.

`rundir` the private folder of one server process, and clean-up after a dead one · `process` child processes, served by one thread · `guard`
the process that ends the children of a killed server · `lines` pipe bytes → log lines, `output_rates` how much is read · `memory` the
memory watch · `program` command and environment of a runtime · `material` unpacked code · `unzip` the child that unpacks · `disk` free
space.

Decision: `backend` and `builder` may not import each other, but both start user code in the same way. This package holds the shared part,
like `kube` for a cluster.

Decision: children are identified by what cannot be reused. Children of this server stay unreaped until their process group has been
killed (a zombie keeps its pid); those of a dead server are killed only if pid *and* start time match the recorded ones. Whether a server
is dead is known from a lock on its folder, which the kernel releases; so a server that is draining while its successor runs keeps its
instances.
"""
