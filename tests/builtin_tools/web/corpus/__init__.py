"""A small web for tests: real pages of Debian's documentation packages, hostile pages, and two search engines."""
