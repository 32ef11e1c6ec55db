"""Administration of the name servers' KV configuration."""

from __future__ import annotations

from pocketmq.client.admin.calls import AdminCalls
from pocketmq.protocol.bodies.topics import KVTable
from pocketmq.protocol.errors import NotFoundError
from pocketmq.protocol.requests.nameserver import (
    DeleteKVConfigRequest,
    GetKVConfigRequest,
    GetKVConfigResponse,
    GetKVListRequest,
    PutKVConfigRequest,
)


class KVConfigAdmin(AdminCalls):
    """The methods of `Admin` for the KV configuration."""

    async def kv_put(self, namespace: str, key: str, value: str) -> None:
        """Sets a key of a namespace on all name servers."""
        await self._link.ask_all(PutKVConfigRequest(namespace=namespace, key=key, value=value))

    async def kv_get(self, namespace: str, key: str) -> str | None:
        """Returns the value of a key; None if it is not set."""
        try:
            answer = await self._link.ask(GetKVConfigRequest(namespace=namespace, key=key))
        except NotFoundError:
            return None
        return answer.read(GetKVConfigResponse).value

    async def kv_delete(self, namespace: str, key: str) -> None:
        """Removes a key of a namespace on all name servers."""
        await self._link.ask_all(DeleteKVConfigRequest(namespace=namespace, key=key))

    async def kv_list(self, namespace: str) -> dict[str, str]:
        """Returns all keys of a namespace with their values."""
        try:
            answer = await self._link.ask(GetKVListRequest(namespace=namespace))
        except NotFoundError:
            return {}
        return KVTable.decode(answer.body).table
