"""AMQP 0-9-1: connections, channels, queues. The one home of its client library; what to do with a message is decided in `reconcile`.

Decisions
- aiormq and not aio-pika's robust classes: these reconnect by themselves, silently, and declare, consume and redeliver anew while the tasks
  of the old channel still hold delivery tags that mean other messages on the new one. Here a channel lives once; whoever uses it hears that
  it has ended, with a sentence for the user, and starts over (`reconcile.listener`).
- The library connects through our transport: a tenant's host is resolved and checked by `sless.outbound`, and exactly the checked address
  is connected to, with the name only in TLS. The query of a URL never reaches the library, which would read files named there.
- What a connection holds is bounded in bytes, and so is one message, before it is read (`reader`): a tenant's broker is a stranger's.
- What is published is confirmed: `publish` returns when the broker has it on disk.
"""

from sless.broker.channel import Channel, Delivery
from sless.broker.connection import BrokerConnection, open_connection
from sless.broker.faults import BrokerError
from sless.broker.pool import Pool
from sless.broker.reader import BrokerLimits

__all__ = ["BrokerConnection", "BrokerError", "BrokerLimits", "Channel", "Delivery", "Pool", "open_connection"]
