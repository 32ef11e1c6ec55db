"""Logins by an OpenID Connect provider, and which user of the cluster a person is."""
