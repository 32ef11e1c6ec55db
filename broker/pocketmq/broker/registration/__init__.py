"""How a broker becomes reachable: registration with name servers, the VIP channel."""
