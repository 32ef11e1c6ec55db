"""The broker's settings: 25, 26 (`AdminBrokerProcessor#updateBrokerConfig`)."""

from __future__ import annotations

import logging

import msgspec

from pocketmq.auth.settings import SECRET_KEYS
from pocketmq.broker.config.agreed import FIXED_IN_SETS
from pocketmq.broker.config.live_settings import FIXED_KEYS, LiveSettings
from pocketmq.broker.store.disk.errors import WriteFailedError
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.errors import ConfigError, response_error
from pocketmq.protocol.requests.topics import BrokerConfigRequest, BrokerConfigResponse
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.settings import properties_from_text, settings_text
from pocketmq.transport.connection import Connection, Handler

log = logging.getLogger("pocketmq.broker")

BLACK_LIST = frozenset({"brokerConfigPath", "configBlackList"})
"""What RocketMQ lets nobody change remotely, whether it exists here or not."""


class SettingHandlers:
    """Shows and changes the settings in force."""

    def __init__(self, settings: LiveSettings) -> None:
        self._settings = settings

    def table(self) -> dict[int, Handler]:
        """The handlers by request code."""
        return {
            RequestCode.UPDATE_BROKER_CONFIG: self.update,
            RequestCode.GET_BROKER_CONFIG: self.show,
        }

    def show(self, command: Command, _: Connection) -> Command:
        """26: the settings as properties text, or in detail and as they would be after changes."""
        version = msgspec.json.encode(self._settings.version).decode()
        if not command.read(BrokerConfigRequest).detailed:
            return Command(
                ResponseCode.SUCCESS,
                header=BrokerConfigResponse(version=version),
                body=settings_text(self._settings.now, SECRET_KEYS).encode(),
            )
        changes = self._changes(command)
        try:
            details = self._settings.details(changes, self._fixed, SECRET_KEYS)
        except ConfigError as e:
            raise response_error(ResponseCode.SYSTEM_ERROR, str(e)) from e
        header = BrokerConfigResponse(version=version, detailed=True)
        return Command(ResponseCode.SUCCESS, header=header, body=details.encode(quote_keys=True))

    def update(self, command: Command, connection: Connection) -> Command:
        """25: changes all of the settings or none. RocketMQ ignores unknown keys and bad values."""
        changes = self._changes(command)
        if changes:
            try:
                self._settings.change(changes)
            except (ConfigError, WriteFailedError) as e:
                raise response_error(ResponseCode.SYSTEM_ERROR, str(e)) from e
            log.info("%s changed settings: %s", connection.remote_address, changes)
        return Command(ResponseCode.SUCCESS)

    @property
    def _fixed(self) -> frozenset[str]:
        """Keys that cannot be changed while the broker runs."""
        in_sets = FIXED_IN_SETS if self._settings.now.enable_controller_mode else frozenset()
        return FIXED_KEYS | BLACK_LIST | in_sets

    def _changes(self, command: Command) -> dict[str, str]:
        """Reads the changes of a request.

        Raises:
            ResponseError: they cannot be understood, or name a key that is fixed.
        """
        try:
            changes = properties_from_text(command.body.decode())
        except (UnicodeDecodeError, ConfigError) as e:
            raise response_error(ResponseCode.SYSTEM_ERROR, f"string2Properties error: {e}") from e
        fixed = self._fixed
        for key in changes:
            if key in fixed:
                raise response_error(
                    ResponseCode.NO_PERMISSION,
                    f"Can not update config in black list. {key} is read at the start: change it "
                    f"in the broker's configuration file and restart the broker",
                )
        return changes
