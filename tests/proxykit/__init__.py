"""Shared by the tests of proxy, front door and ASGI: a server in this process over fakes of the ports, and hand-written upstreams."""
