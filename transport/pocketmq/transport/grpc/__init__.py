"""gRPC for servers, upon `pocketmq.transport.http2` and asyncio."""
