"""Ends the server at one system call after another of a statement."""
