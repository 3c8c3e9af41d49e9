"""Defines paths inside a box, and names that are used both inside and outside of a box. Standard library only."""

PACKAGES = "/env"  # contains the site-packages folders of the environment: /env/0, /env/1, …
WORK = "/work"
TMP = "/tmp"  # noqa: S108  (the box's own)
INLET_NAME = "k"  # sockets of a job that is a server are k-1, k-2, …, as Jupyter names those of one kernel
AUTHORITY = "/etc/knackbox-authority.pem"  # the certificate authority of the sandbox, in boxes with secrets
AUTHORITIES = "/etc/knackbox-authorities.pem"  # the system's certificate authorities and that of the sandbox
