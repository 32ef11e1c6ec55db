"""The remoting protocol on asyncio: connections, servers and the pool of a client."""
