"""Host: runs user code on this machine. Shared by the local backend and the local builder.

`rundir` the private folder of one server process, and clean-up after a dead one · `child` and `process` child processes, served by one
thread · `guard` the process that ends the children of a killed server · `lines` pipe bytes → log lines · `memory` the memory watch ·
`program` command and environment of a runtime · `sandbox` bubblewrap around a child, `unprivileged` another user for it · `material`
unpacked code · `unzip` the child that unpacks · `split_result` the child that reads a large result · `disk` free space.

Decision: `backend` and `builder` may not import each other, but both start user code in the same way. This package holds the shared part,
like `kube` for a cluster.

Decision: each child has its own sandbox, instead of one around the server, which would not isolate tenants from each other. Code that
starts a child states what it may access (`sandbox.Access`), which is required with a sandbox. Nothing changes on the outside: the process
group is that of the child, so signals, the memory watch and the guard use host pids.

Decision: a pid may be reused, so it never identifies a child by itself. Children of this server stay unreaped until their process group has
been killed (a zombie keeps its pid); those of a dead server are killed only if pid *and* start time match the recorded ones. A server holds
a lock on its folder, which the kernel releases when it dies; so a server that is draining while its successor runs keeps its instances.
"""
