"""The remoting protocol on asyncio: connections, servers, a client's pool, and the clock."""
