"""Paths inside a box, and names that both of its sides use. Standard library only."""

PACKAGES = "/env"  # the site-packages folders of the environment are below it: /env/0, /env/1, …
WORK = "/work"
TMP = "/tmp"  # noqa: S108  (the box's own)
INLET_NAME = "k"  # the sockets of a job that is a server are k-1, k-2, …: how Jupyter names those of one kernel
