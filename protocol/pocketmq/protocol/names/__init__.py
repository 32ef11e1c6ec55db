"""Names of topics and groups, namespaces, and the addresses that brokers advertise."""
