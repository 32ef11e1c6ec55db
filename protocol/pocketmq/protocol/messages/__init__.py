"""Messages, their properties and ids, and the records that brokers store."""
