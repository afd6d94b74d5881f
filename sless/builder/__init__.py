"""Builder: makes versions runnable. Two implementations of `domain.ports.Builder`.

`local` builds on this machine. `dependencies` reads the manifests, `installers` has the command lines of pip and npm, `go` compiles Go code
(`go_sources` adds the runtime, `go_constraints` finds files that the compiler ignores, `go_compilation` is one `go build`, `go_toolchain`
finds Go; `go_again` and `go_recipe` repeat a build without the go command, for `sless dev`), `check` is the trial import at the end.
For both, `works` holds the builds and their threads, `work` is the log, child process, deadline and cancellation of one build, and
`failures` turns a tool's output into an error message.

`kubernetes` builds in a cluster. Nothing is imported here, because the child process `context_child` starts with many builds. `build_steps`
has the steps of one build, `packing`, `context_child` and `context` make the Dockerfile and the archive (in a child process),
`builder_fit`, `builder_namespace`, `builder_job` and `check_job` make manifests (pure), `job_watch` follows a Job, `job_words` and
`image_log` interpret it, `references` are names of images, `registry` finds and deletes them, `fetch_context` runs first in each builder
pod and `push_image` last.

Decision: the Jobs in the cluster are the state of a build. A thread only follows them: after a restart, the server finds the Job by the
build's id and follows it again; closing the builder does not end Jobs. Neither builder runs an installer as root.

Decision: an installer sees the operator's environment (index, proxies, certificates) plus the user's build_env; the user's code sees
neither. Installed dependencies are shared between versions and tenants with equal manifests. Two exceptions: dependencies installed with a
build_env may come from a private index, so only their namespace shares them; dependencies that refer to files of the upload are not shared.

Decision: small code is packed in the build's thread, larger code and Go in a child process, which takes 0.2 s of processor time to start.

Decision: pip is the copy installed with sless, started by its folder, so that the zipapp and machines without pip work alike.
"""
