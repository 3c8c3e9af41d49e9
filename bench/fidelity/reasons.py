"""The protections of the box that cause known differences. docs/design/fidelity.md explains each."""

import fnmatch

# (pattern of case ids, protection)
CAUSES: tuple[tuple[str, str], ...] = (
    ("test.test_socket.*UDPLITE*", "seccomp: TCP and UDP only"),
    ("test.test_socket.*.testInterfaceNameIndex", "seccomp: no netlink sockets"),
    ("test.test_socket.*.test_get*info_ipv6_scopeid_symbolic", "seccomp: no netlink sockets"),
    ("network_interfaces", "seccomp: no netlink sockets"),
    ("test.test_uuid.*.test_*_getnode", "network namespace: loopback only"),
    ("test.test_os.MemfdCreateTests.*", "seccomp: no memory that counts in no process"),
    ("test.test_os.ProgramPriorityTests.*", "seccomp: no priority of another process"),
    ("test.test_os.MakedirTests.test_exist_ok_s_isgid_directory", "seccomp: no set-id bits"),
    ("test.test_tarfile.*.test_modes", "seccomp: no set-id bits"),
    ("test.test_fcntl.*.test_fcntl_64_bit", "seccomp: no leases or notifications on files of others"),
    ("test.test_resource.*", "rlimits"),
    ("test.test_ssl.TestPreHandshakeClose.test_preauth_data_to_tls_*", "seccomp: no lingering sockets"),
)


def protection(case: str) -> str:
    """Return the protection that causes a case to differ; "" if none is known."""
    return next((why for pattern, why in CAUSES if fnmatch.fnmatchcase(case, pattern)), "")
