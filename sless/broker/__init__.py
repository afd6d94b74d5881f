"""AMQP 0-9-1: connections, channels, queues. The only package that imports the client library; `reconcile` decides about messages.

Decisions
- aiormq instead of aio-pika's robust classes, which reconnect silently and consume again while tasks of the old channel still hold delivery
  tags that refer to other messages on the new one. A channel is only used once; when it ends, its user gets a sentence for the trigger's
  message and starts over (`reconcile.listener`).
- The library connects through our transport: `sless.outbound` resolves and checks a tenant's host, and the connection goes to exactly
  that address; the name is used in TLS only. The library never gets the query of a URL, as it would read files named there.
- A tenant's broker is not trusted: the bytes that a connection holds, and each message before it is read, are bounded (`reader`).
- Publishing is confirmed: `publish` returns once the broker has stored the message.
"""

from sless.broker.channel import Channel, IncomingDelivery
from sless.broker.connection import BrokerConnection, open_connection
from sless.broker.faults import BrokerError
from sless.broker.pool import Pool
from sless.broker.reader import BrokerLimits

__all__ = ["BrokerConnection", "BrokerError", "BrokerLimits", "Channel", "IncomingDelivery", "Pool", "open_connection"]
