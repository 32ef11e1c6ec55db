"""Users, their policies, and the audit."""
