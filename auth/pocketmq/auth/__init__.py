"""Who may do what: users, policies, and the guard before the handlers of servers."""
