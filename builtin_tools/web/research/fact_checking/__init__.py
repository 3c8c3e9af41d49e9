"""Checks claims with evidence for and against them from independent sources."""
