"""Checks the claims of a language model against the pages that it cites, without a model."""
