"""The actor of commands that change the installation without the REST interface, for the audit trail."""

import os
import pwd
import socket

from sless import ids
from sless.actor import Actor


def shell_actor() -> Actor:
    """`shell:` and the name of the system's user; the address is the name of this machine."""
    user = os.getuid()
    try:
        name = pwd.getpwuid(user).pw_name
    except KeyError:  # containers may run as a user without a name
        name = str(user)
    return Actor(sub=f"shell:{name}", address=socket.gethostname(), request_id=ids.new_call_id())
