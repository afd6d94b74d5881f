"""Build: an upload becomes something that can start; implementations of `domain.ports.Builder`.

`local` on this machine: `dependencies` reads what an upload asks for (pure but for reading its files), `installers` how pip and npm are
called, `go` makes a program of Go code (`go_sources`: what is added to it, `go_toolchain`: the Go of this machine), `work` one build's log,
child, deadline and cancellation, `check` the import at the end, `failures` a tool's last words → a message, `made` what needs no build.

Decision: the installer's environment is the operator's (index, proxies, certificates) plus the user's build_env; the user's code sees
neither. Installed dependencies are shared between versions and tenants by what was asked for; but what was installed with a build_env may
come from somewhere private, so it is shared only within its namespace; and what names files of the upload is never shared.

Decision: pip is the one that comes with sless, started by its folder, so that a machine without pip and the zipapp work alike.
"""

from sless.build.local import LocalBuilder, make_local_builder

__all__ = ["LocalBuilder", "make_local_builder"]
