"""Rewrite rules, one law per file; they work on meaning and axis names."""
