"""Dev: serves one folder at /fn/dev/NAME and reloads it on every save, without a server, token or database.

`folder` detects changes and packs the code · `routes` the one route and the history of its calls · `reloads` turns a save into a ready
instance, or shows why that failed · `serving` assembles the parts and serves.

Decision: a second, small composition root besides `app`, with the same parts: builder, backend, data plane, ASGI application and front
door. So headers, errors, time-outs, memory and streaming are those of the server. Store, control loops and REST are left out.

Decision: a function runs from a copy of its folder, as after an upload. Ignored files are missing, and files that it writes next to its
code do not count as a save. Consequence: those files are gone after the next save. Paths in log lines are translated back to the folder.

Decision: files are polled every 40 ms. Kernel notifications would need a library, miss saves on network and container file systems, and
gain 20 ms.

Decision: a save that changes no dependency skips the builder and its trial import; the start of the instance is the trial. If it fails,
the old instance is removed, unlike on a server: a developer wants to see the error, not the previous version.
"""

from sless.dev.reloads import Screen
from sless.dev.serving import DevRequest, serve_folder

__all__ = ["DevRequest", "Screen", "serve_folder"]
