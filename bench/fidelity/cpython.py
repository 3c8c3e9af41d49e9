"""Selects the modules of CPython's regression tests that are run."""

import importlib.util
from collections.abc import Iterable
from pathlib import Path

from bench.fidelity.sides import Unit

# All modules that use the operating system, and a cross-section of the others. Missing modules are skipped.
MODULES = (
    # files
    "test_os", "test_posix", "test_pathlib", "test_posixpath", "test_genericpath", "test_shutil", "test_tempfile",
    "test_glob", "test_fnmatch", "test_io", "test_memoryio", "test_fileio", "test_file", "test_fileinput", "test_stat",
    "test_filecmp", "test_dbm", "test_dbm_dumb", "test_shelve", "test_largefile", "test_fcntl", "test_ioctl",
    "test_mailbox", "test_linecache",
    # processes and signals
    "test_subprocess", "test_fork1", "test_wait3", "test_wait4", "test_popen", "test_signal", "test_faulthandler",
    "test_pty", "test_tty", "test_openpty", "test_resource", "test_sys", "test_atexit", "test_cmd_line",
    "test_cmd_line_script", "test_launcher", "test_eintr",
    # threads
    "test_threading", "test_thread", "test_threading_local", "test_threadsignals", "test_queue", "test_sched",
    "test_concurrent_futures", "test_contextlib", "test_thread_local_bytecode",
    # sockets
    "test_socket", "test_selectors", "test_select", "test_poll", "test_epoll", "test_socketserver", "test_ssl",
    "test_httplib", "test_httpservers", "test_ftplib", "test_smtplib", "test_poplib", "test_imaplib", "test_xmlrpc",
    "test_urllib", "test_urllib2_localnet", "test_asyncore", "test_asynchat",
    # event loops and multiprocessing
    "test_asyncio", "test_multiprocessing_fork", "test_multiprocessing_forkserver", "test_multiprocessing_spawn",
    "test_multiprocessing_main_handling",
    # data
    "test_sqlite3", "test_zipfile", "test_tarfile", "test_gzip", "test_bz2", "test_lzma", "test_zlib", "test_mmap",
    "test_pickle", "test_json", "test_re", "test_struct", "test_csv", "test_configparser", "test_hashlib", "test_hmac",
    "test_random", "test_secrets", "test_uuid", "test_decimal", "test_math", "test_datetime", "test_zoneinfo",
    "test_time", "test_locale", "test_codecs", "test_unicodedata", "test_calendar", "test_statistics", "test_array",
    # the interpreter
    "test_import", "test_importlib", "test_runpy", "test_zipimport", "test_pkgutil", "test_site", "test_sysconfig",
    "test_ctypes", "test_inspect", "test_traceback", "test_warnings", "test_logging", "test_unittest", "test_doctest",
    "test_gc", "test_weakref", "test_copy", "test_dataclasses", "test_enum", "test_typing", "test_pwd", "test_grp",
    "test_platform", "test_getpass", "test_readline", "test_curses", "test_venv", "test_ensurepip", "test_pdb",
    "test_tracemalloc", "test_support", "test_regrtest", "test_crypt", "test_spwd", "test_syslog", "test_pipes",
    "test_netrc", "test_mimetypes", "test_gettext", "test_argparse", "test_webbrowser", "test_compileall",
    "test_py_compile", "test_repl", "test_builtin", "test_shlex",
)  # fmt: skip
RESOURCES = ("subprocess", "decimal", "curses", "walltime")
_ONE_BY_ONE = ("test_asyncio", "test_multiprocessing_fork", "test_multiprocessing_spawn", "test_concurrent_futures")

HELP = "The test package of this Python is missing (Debian: apt-get install libpython3-testsuite)."


def units(wanted: Iterable[str]) -> list[Unit]:
    """Return units for the named modules, or for all of MODULES.

    Raises:
        LookupError: This Python has no test package.
    """
    found = importlib.util.find_spec("test")
    if found is None or found.origin is None or not Path(found.origin).with_name("test_os.py").exists():
        raise LookupError(HELP)
    folder = Path(found.origin).parent
    names = [name for each in wanted or MODULES for name in _expand(folder, each.removeprefix("test."))]
    return [Unit(name, "unittest_cases.py", (f"test.{name}", *RESOURCES)) for name in names]


def _expand(folder: Path, name: str) -> list[str]:
    """Return the modules to run for a name. A slow package is run module by module."""
    path = folder / name.replace(".", "/")
    if name in _ONE_BY_ONE and path.is_dir():
        return [f"{name}.{file.stem}" for file in sorted(path.glob("test_*.py"))]
    return [name] if path.is_dir() or path.with_suffix(".py").is_file() else []
