"""What the tests of proxy, front door and ASGI share: a server in this process over fakes of the ports, and upstreams made by hand."""
