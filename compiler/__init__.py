"""Syntax tree -> checked and optimised formula graph; never imports a backend."""
