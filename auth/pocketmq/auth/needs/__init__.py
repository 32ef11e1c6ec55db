"""Which rights each request needs: a table for brokers and one for name servers."""
