"""The gateway with servers of others behind it."""
