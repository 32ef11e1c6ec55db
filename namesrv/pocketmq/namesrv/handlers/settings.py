"""Handlers of the name server's settings: 319 shows them, 318 changes them until the next start."""

from __future__ import annotations

import logging

from pocketmq.auth.settings import SECRET_KEYS
from pocketmq.namesrv.config import FIXED_KEYS, NamesrvConfig
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import ConfigError, ContentError, ResponseError
from pocketmq.protocol.requests.nameserver import NamesrvConfigRequest, UpdateNamesrvConfigRequest
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.settings import changed_settings, properties_from_text, settings_text
from pocketmq.transport.connection import Connection, Handler

log = logging.getLogger("pocketmq.namesrv")


class SettingsHandlers:
    """Shows and changes the settings in force.

    Args:
        config: shared with everything that reads a setting when it is needed; changed in place.
    """

    def __init__(self, config: NamesrvConfig) -> None:
        self._config = config

    def table(self) -> dict[int, Handler]:
        """Returns the handlers by request code."""
        return {
            NamesrvConfigRequest.code: self.show,
            UpdateNamesrvConfigRequest.code: self.update,
        }

    def show(self, request: Command, connection: Connection) -> Command:
        """319: answers with all settings as properties text."""
        return Command(ResponseCode.SUCCESS, body=settings_text(self._config, SECRET_KEYS).encode())

    def update(self, request: Command, connection: Connection) -> Command:
        """318: changes settings, all of them or none; does not write them to the file."""
        try:
            changes = properties_from_text(request.body.decode())
            self._check_allowed(changes)
            changed = changed_settings(self._config, changes)
        except UnicodeDecodeError as e:
            raise ContentError(f"the settings are no UTF-8 text: {e}") from e
        except ConfigError as e:
            raise ResponseError(ResponseCode.SYSTEM_ERROR, str(e)) from e
        for attribute in changed.__struct_fields__:
            setattr(self._config, attribute, getattr(changed, attribute))
        log.info("%s changed settings: %s", connection.remote_address, changes)
        return Command(ResponseCode.SUCCESS)

    def _check_allowed(self, changes: dict[str, str]) -> None:
        fixed = FIXED_KEYS | set(self._config.config_black_list.split(";"))
        for key in changes:
            if key in fixed:
                raise ResponseError(
                    ResponseCode.NO_PERMISSION,
                    f"Can not update config in black list. {key} has to be changed in the "
                    f"configuration file, and takes effect at the next start",
                )
