"""TLS on the ports and connections of the remoting protocol."""
