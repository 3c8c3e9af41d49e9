"""A PostgreSQL cluster of its own for tests: created with initdb, reachable over a Unix socket and loopback only."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from tests.eventually import eventually_sync

SUPERUSER_PASSWORD = "Sup3rSecretOfTests"
READER_PASSWORD = "Re4derSecretOfTests"
WRITER_PASSWORD = "Wr1terSecretOfTests"
ROLES = f"""
CREATE ROLE reader LOGIN PASSWORD '{READER_PASSWORD}';
GRANT pg_read_all_stats TO reader;
CREATE ROLE writer LOGIN PASSWORD '{WRITER_PASSWORD}';
GRANT pg_read_all_stats TO writer;
CREATE DATABASE shop OWNER writer;
"""
TABLES = """
CREATE TYPE public.status AS ENUM ('new', 'paid', 'sent');
CREATE TABLE public.customers (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL,
    email text UNIQUE
);
COMMENT ON TABLE public.customers IS 'Who buys.';
COMMENT ON COLUMN public.customers.email IS 'Checked at registration.';
CREATE TABLE public.orders (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer_id bigint NOT NULL REFERENCES public.customers,
    amount numeric(10, 2) NOT NULL CHECK (amount >= 0),
    status public.status DEFAULT 'new',
    placed timestamptz NOT NULL DEFAULT '2026-01-02 03:04:05+00'
);
CREATE INDEX orders_by_customer ON public.orders (customer_id);
CREATE VIEW public.paid_orders AS SELECT id, amount FROM public.orders WHERE status = 'paid';
CREATE SEQUENCE public.numbers;
INSERT INTO public.customers (name, email) SELECT 'Customer ' || n, n || '@example.org' FROM generate_series(1, 20) AS n;
INSERT INTO public.orders (customer_id, amount, status)
    SELECT 1 + n % 20, n, CASE n % 3 WHEN 0 THEN 'paid' ELSE 'new' END::public.status FROM generate_series(1, 200) AS n;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader;
ANALYZE;
"""


@dataclass(frozen=True)
class Cluster:
    """A running cluster.

    Attributes:
        folder: The folder of the cluster. Its server may write here.
        user: The system user that the server runs as.
    """

    folder: Path
    port: int
    user: str

    def dsn(self, role: str, password: str, database: str = "shop", **options: str) -> str:
        more = "".join(f"&{name}={value}" for name, value in options.items())
        return f"postgresql://{role}:{password}@127.0.0.1:{self.port}/{database}?sslmode=disable{more}"

    @property
    def superuser(self) -> str:
        return self.dsn("postgres", SUPERUSER_PASSWORD)

    @property
    def reader(self) -> str:
        return self.dsn("reader", READER_PASSWORD)

    @property
    def writer(self) -> str:
        return self.dsn("writer", WRITER_PASSWORD)

    def run(self, *statements: str, dsn: str = "") -> list[tuple[Any, ...]]:
        """Run statements as the superuser, and return the rows of the last one."""
        rows: list[tuple[Any, ...]] = []
        with psycopg.connect(dsn or self.superuser, autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement.encode())
                rows = cursor.fetchall() if cursor.description else []
        return rows

    def value(self, statement: str) -> Any:
        return self.run(statement)[0][0]


def programs() -> Path:
    """Return the folder with the programs of the newest installed PostgreSQL."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    program = shutil.which("initdb")
    assert program is not None, "install postgresql, or run make test-services"
    return Path(program).parent


@contextmanager
def cluster() -> Iterator[Cluster]:
    """Create a cluster, start it, and remove it afterwards. It never runs as root, which PostgreSQL refuses."""
    folder = Path(tempfile.mkdtemp(prefix="knackbox-postgres-"))
    user = pwd.getpwuid(os.geteuid()).pw_name
    other: dict[str, Any] = {}
    if os.geteuid() == 0:
        user = "postgres"
        entry = pwd.getpwnam(user)  # Debian's package creates this user
        os.chown(folder, entry.pw_uid, entry.pw_gid)
        other = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": ()}
    try:
        secret = folder / "password"
        secret.write_text(SUPERUSER_PASSWORD)
        secret.chmod(0o644)
        data = folder / "data"
        create = [str(programs() / "initdb"), "-D", str(data), "-U", "postgres", "--auth=scram-sha-256", "-E", "UTF8"]
        create += ["--locale=C.UTF-8", f"--pwfile={secret}", "--no-sync"]
        subprocess.run(create, check=True, capture_output=True, timeout=120, cwd=folder, **other)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = int(free.getsockname()[1])
        settings = {
            "port": port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": folder,
            "fsync": "off",
            "shared_buffers": "32MB",
            "max_connections": 40,
            "autovacuum": "off",
        }
        start = [str(programs() / "postgres"), "-D", str(data)]
        start += [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(start, stdout=log, stderr=log, cwd=folder, **other)
        made = Cluster(folder, port, user)
        try:
            eventually_sync(lambda: _answers(made))
            _fill(made)
            yield made
        finally:
            server.terminate()
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait(20)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _answers(made: Cluster) -> bool:
    try:
        with psycopg.connect(made.dsn("postgres", SUPERUSER_PASSWORD, "postgres"), connect_timeout=5):
            return True
    except psycopg.OperationalError:
        return False


def _fill(made: Cluster) -> None:
    admin = made.dsn("postgres", SUPERUSER_PASSWORD, "postgres")
    made.run(*(each for each in ROLES.split(";\n") if each.strip()), dsn=admin)
    made.run(TABLES, dsn=made.writer)
    made.run("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
