"""HTTP/2 for servers (RFC 9113), without IO: bytes in, events and bytes out."""
