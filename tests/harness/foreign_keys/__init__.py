"""Loads on tables with constraints FOREIGN KEY."""
