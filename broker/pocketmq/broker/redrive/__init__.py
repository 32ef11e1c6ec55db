"""Dead letters: what became of them, and tasks that send them again."""
