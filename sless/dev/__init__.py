"""Dev: one folder served at /fn/dev/NAME and loaded anew when it is saved, without a server, a token or a database.

`folder` what lies in it: changes, and its code as a store · `routes` the one route and the history of its calls · `reloads` from a save to
an instance that answers, or to the reason why there is none · `serving` puts it together and serves · `screen` what the terminal shows.

Decision: a second, small composition root beside `app`, over the same parts: builder, backend, data plane, ASGI application and front
door. So headers, errors, time-outs, memory and streaming are the product's, because they are the same lines; what is left out (store,
loops, REST) is what a single folder has no use for.

Decision: a function runs from a copy of its folder, as it would after an upload: what is ignored is not there, and what it writes beside
its code does not look like a save. Consequence: such files are gone after the next save. Paths in log lines are turned back into those of
the folder.

Decision: changes are found by looking at the files every 40 ms. Notifications of the kernel would need a library, miss saves on network
and container file systems, and save 20 ms.

Decision: a save that changes no dependency skips the builder and its trial import; the instance's own start is the trial. A failed one
takes the old instance away, unlike in the product: who edits code wants to see the mistake, not the code before it.
"""

from sless.dev.screen import Screen
from sless.dev.serving import DevRequest, serve_folder

__all__ = ["DevRequest", "Screen", "serve_folder"]
