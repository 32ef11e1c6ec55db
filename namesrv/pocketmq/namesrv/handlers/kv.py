"""Handlers of the KV configuration: 100 put, 101 get, 102 delete, 219 list."""

from __future__ import annotations

import logging

from pocketmq.namesrv.kv_config import KVConfig, KVConfigError
from pocketmq.protocol.bodies.topics import KVTable
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import ResponseError
from pocketmq.protocol.requests.nameserver import (
    DeleteKVConfigRequest,
    GetKVConfigRequest,
    GetKVConfigResponse,
    GetKVListRequest,
    PutKVConfigRequest,
)
from pocketmq.protocol.wire.command import Command
from pocketmq.transport.connection import Connection, Handler

log = logging.getLogger("pocketmq.namesrv")


class KVHandlers:
    """Reads and changes the KV configuration."""

    def __init__(self, kv: KVConfig) -> None:
        self._kv = kv

    def table(self) -> dict[int, Handler]:
        """Returns the handlers by request code."""
        return {
            PutKVConfigRequest.code: self.put,
            GetKVConfigRequest.code: self.get,
            DeleteKVConfigRequest.code: self.delete,
            GetKVListRequest.code: self.list_namespace,
        }

    def put(self, request: Command, connection: Connection) -> Command:
        """100: sets a key."""
        header = request.read(PutKVConfigRequest)
        try:
            self._kv.put(header.namespace, header.key, header.value)
        except KVConfigError as e:
            raise _refused(e) from e
        log.info("%s set %s/%s", connection.remote_address, header.namespace, header.key)
        return Command(ResponseCode.SUCCESS)

    def get(self, request: Command, connection: Connection) -> Command:
        """101: answers with the value of a key."""
        header = request.read(GetKVConfigRequest)
        value = self._kv.get(header.namespace, header.key)
        if value is None:
            raise ResponseError(
                ResponseCode.QUERY_NOT_FOUND,
                f"No config item, Namespace: {header.namespace} Key: {header.key}",
            )
        return Command(ResponseCode.SUCCESS, header=GetKVConfigResponse(value=value))

    def delete(self, request: Command, connection: Connection) -> Command:
        """102: removes a key."""
        header = request.read(DeleteKVConfigRequest)
        try:
            self._kv.delete(header.namespace, header.key)
        except KVConfigError as e:
            raise _refused(e) from e
        log.info("%s deleted %s/%s", connection.remote_address, header.namespace, header.key)
        return Command(ResponseCode.SUCCESS)

    def list_namespace(self, request: Command, connection: Connection) -> Command:
        """219: answers with all keys of a namespace."""
        namespace = request.read(GetKVListRequest).namespace
        table = self._kv.namespace(namespace)
        if table is None:
            raise ResponseError(
                ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {namespace}"
            )
        return Command(ResponseCode.SUCCESS, body=KVTable(table=dict(table)).encode())


def _refused(error: KVConfigError) -> ResponseError:
    return ResponseError(ResponseCode.SYSTEM_ERROR, str(error))
