"""The places of brokers in a cluster: their disks, their links, and their broker sets."""
