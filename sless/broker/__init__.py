"""AMQP 0-9-1: connections, channels, queues. The only package that imports its client library; `reconcile` decides about messages.

Decisions
- aiormq instead of aio-pika's robust classes: those reconnect silently and consume again while tasks of the old channel still hold
  delivery tags, which mean other messages on the new one. Here a channel is used once; when it ends, its user gets a sentence for the
  trigger's message and starts over (`reconcile.listener`).
- The library connects through our transport: `sless.outbound` resolves and checks a tenant's host, and the connection goes to exactly
  that address; the name is used in TLS only. The query of a URL never reaches the library, which would read files named in it.
- A tenant's broker is not trusted: the bytes that a connection holds, and each message before it is read, are bounded (`reader`).
- Publishing is confirmed: `publish` returns when the broker has stored the message.
"""

from sless.broker.channel import Channel, Delivery
from sless.broker.connection import BrokerConnection, open_connection
from sless.broker.faults import BrokerError
from sless.broker.pool import Pool
from sless.broker.reader import BrokerLimits

__all__ = ["BrokerConnection", "BrokerError", "BrokerLimits", "Channel", "Delivery", "Pool", "open_connection"]
