"""Build: an upload becomes something that can start; implementations of `domain.ports.Builder`.

`local` on this machine: `dependencies` reads what an upload asks for (pure but for reading its files), `installers` how pip and npm are
called, `go` makes a program of Go code (`go_sources`: what is added to it, `go_compilation`: the copy and the command, `go_toolchain`: the
Go of this machine; `go_again` and `go_recipe`: the next build without the go command, for sless dev), `work` one build's log, child,
deadline and cancellation, `check` the import at the end, `failures` a tool's last words → a message, `made` what needs no build.

`kubernetes` in a cluster, not imported here, as it brings its own libraries: `build_steps` the steps of one build, `context` and
`context_child` the Dockerfile and the archive (a child packs it), `builder_fit`, `builder_namespace`, `builder_job`, `check_job` manifests
(pure), `job_watch` follows a Job, `job_words` and `image_log` what it means, `references` and `registry` images, `fetch_context` what a
builder pod runs first.

Decision: the cluster's Jobs are the state of a build. A thread only follows them, so a server that starts anew finds the Job of a build's
id and follows that one; closing ends no Job. What an installer runs is never root, in either builder: the builder's credentials lie
beside it.

Decision: the installer's environment is the operator's (index, proxies, certificates) plus the user's build_env; the user's code sees
neither. Installed dependencies are shared between versions and tenants by what was asked for; but what was installed with a build_env may
come from somewhere private, so it is shared only within its namespace; and what names files of the upload is never shared.

Decision: pip is the one that comes with sless, started by its folder, so that a machine without pip and the zipapp work alike.
"""

from sless.builder.local import LocalBuilder, make_local_builder

__all__ = ["LocalBuilder", "make_local_builder"]
