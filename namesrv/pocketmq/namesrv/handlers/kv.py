"""Handlers of the KV configuration: 100 put, 101 get, 102 delete, 219 list."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Coroutine

from pocketmq.namesrv.kv_config import KVConfig, KVConfigError
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
from pocketmq.transport.connection import Connection, Handler, Reply
from pocketmq.transport.reading_state import Hold

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

    def put(self, request: Command, connection: Connection) -> Reply:
        """100: sets a key."""
        header = request.read(PutKVConfigRequest)
        change = self._kv.put(header.namespace, header.key, header.value)
        return _changed(change, connection, f"set {header.namespace}/{header.key}")

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

    def delete(self, request: Command, connection: Connection) -> Reply:
        """102: removes a key."""
        header = request.read(DeleteKVConfigRequest)
        change = self._kv.delete(header.namespace, header.key)
        return _changed(change, connection, f"deleted {header.namespace}/{header.key}")

    def list_namespace(self, request: Command, connection: Connection) -> Reply:
        """219: answers with all keys of a namespace."""
        namespace = request.read(GetKVListRequest).namespace
        if self._kv.namespace(namespace) is None:
            raise ResponseError(
                ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {namespace}"
            )
        body = self._kv.listing_now(namespace)
        if body is None:
            connection.hold_reading(Hold.KV_CONFIG)
            return self._listed(namespace, connection)
        return Command(ResponseCode.SUCCESS, body=body)

    async def _listed(self, namespace: str, connection: Connection) -> Command:
        try:
            return Command(ResponseCode.SUCCESS, body=await self._kv.listing(namespace))
        finally:
            connection.release_reading(Hold.KV_CONFIG)


def _changed(
    change: Coroutine[None, None, None], connection: Connection, done: str
) -> Awaitable[Command]:
    """Answers when a change is made; until then nothing more is taken of its connection."""
    connection.hold_reading(Hold.KV_CONFIG)
    return _answer(change, connection, done)


async def _answer(
    change: Coroutine[None, None, None], connection: Connection, done: str
) -> Command:
    try:
        await change
    except KVConfigError as e:
        raise ResponseError(ResponseCode.SYSTEM_ERROR, str(e)) from e
    finally:
        connection.release_reading(Hold.KV_CONFIG)
    log.info("%s %s", connection.remote_address, done)
    return Command(ResponseCode.SUCCESS)
