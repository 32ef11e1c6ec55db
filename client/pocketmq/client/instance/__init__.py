"""What producers and consumers of one process share: connections, routes, heartbeats, requests."""
