"""Kills the server at each system call of a statement in turn."""
