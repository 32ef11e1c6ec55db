"""The properties of a message as it is stored: what the broker adds to what was sent."""

from __future__ import annotations

import random

from pocketmq.broker.handlers.sending.send_checks import SendSettings
from pocketmq.broker.handlers.sending.special_properties import BROKER_PROPERTIES
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.ids import unique_key
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.live import Live

_KEY_FIRST = f"{props.UNIQ_KEY}{props.NAME_END}"


class SendProperties:
    """Completes the properties of messages.

    Args:
        settings: what is added.
        store_host: the broker's encoded address, with which new keys begin.
        clock, rng: make keys of messages that came without one.
    """

    def __init__(
        self,
        settings: Live[SendSettings],
        store_host: bytes,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._clock = clock
        self._key_prefix = store_host[:-4] + rng.randbytes(6)
        self._key_counter = 0
        self._apply(settings.now)
        settings.follow(self._apply)

    def _apply(self, settings: SendSettings) -> None:
        """Encodes the properties that the broker adds to every message."""
        self._added = props.encode(
            {
                props.MSG_REGION: settings.region,
                props.TRACE_ON: "true" if settings.trace_on else "false",
                props.CLUSTER: settings.cluster,
            }
        )

    def complete(self, given: str) -> tuple[str, str]:
        """A message's unique key, and its properties with what the broker adds."""
        if given.startswith(_KEY_FIRST) and given[-1] == props.VALUE_END:  # as most clients send it
            unique = given[len(_KEY_FIRST) : given.index(props.VALUE_END)]
            if unique:
                return unique, given + self._added
        found = props.value_of(given, props.UNIQ_KEY)
        if given and given[-1] != props.VALUE_END:
            given += props.VALUE_END
        if found is None:
            found = self._new_key()
            given += f"{props.UNIQ_KEY}\x01{found}\x02"
        return found, given + self._added

    def renew(self, given: str) -> tuple[str, str]:
        """The same of a message that came back (a retry, a copy): what is added is added anew."""
        known = props.decode(given)
        unique = props.value_of(given, props.UNIQ_KEY)
        for name in BROKER_PROPERTIES:
            known.pop(name, None)
        given = "".join([f"{name}\x01{value}\x02" for name, value in known.items()])
        if unique is None:
            unique = self._new_key()
            given += f"{props.UNIQ_KEY}\x01{unique}\x02"
        return unique, given + self._added

    def _new_key(self) -> str:
        self._key_counter += 1
        return unique_key(self._key_prefix, self._clock.now_ms(), self._key_counter)
