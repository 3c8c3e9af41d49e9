"""The queries of the system catalogs with which `schema` and `activity` describe a database.

All names are qualified, so a changed search path has no effect. Parameters are passed separately.
"""

from typing import LiteralString

# Relations that match, largest first. %(pattern)s is compared with the name, and with schema.name.
RELATIONS: LiteralString = """
SELECT c.oid, n.nspname, c.relname, c.relkind::text, c.reltuples::bigint,
       pg_catalog.pg_table_size(c.oid), pg_catalog.pg_indexes_size(c.oid),
       pg_catalog.obj_description(c.oid, 'pg_class'),
       CASE WHEN c.relkind IN ('v', 'm') THEN pg_catalog.pg_get_viewdef(c.oid, true) END,
       CASE WHEN c.relkind = 'p' THEN pg_catalog.pg_get_partkeydef(c.oid) END,
       CASE WHEN c.relispartition THEN
            (SELECT i.inhparent::pg_catalog.regclass::text FROM pg_catalog.pg_inherits AS i
             WHERE i.inhrelid = c.oid) END,
       c.relrowsecurity
FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f')
  AND n.nspname NOT LIKE 'pg\\_%%' AND n.nspname <> 'information_schema'
  AND (%(pattern)s = '' OR c.relname ILIKE %(pattern)s OR (n.nspname || '.' || c.relname) ILIKE %(pattern)s)
ORDER BY pg_catalog.pg_total_relation_size(c.oid) DESC, n.nspname, c.relname
LIMIT %(most)s
"""

COLUMNS: LiteralString = """
SELECT a.attrelid, a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnotnull,
       a.attidentity::text, a.attgenerated::text, pg_catalog.pg_get_expr(d.adbin, d.adrelid),
       pg_catalog.col_description(a.attrelid, a.attnum)
FROM pg_catalog.pg_attribute AS a
LEFT JOIN pg_catalog.pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = ANY(%(oids)s) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attrelid, a.attnum
"""

CONSTRAINTS: LiteralString = """
SELECT k.conrelid, k.conname, k.contype::text, pg_catalog.pg_get_constraintdef(k.oid, true)
FROM pg_catalog.pg_constraint AS k
WHERE k.conrelid = ANY(%(oids)s) AND k.contype IN ('p', 'u', 'f', 'c', 'x')
ORDER BY k.conrelid, pg_catalog.strpos('pufcx', k.contype::text), k.conname
"""

# Without the indexes of constraints, which the constraints describe.
INDEXES: LiteralString = """
SELECT i.indrelid, pg_catalog.pg_get_indexdef(i.indexrelid), pg_catalog.pg_relation_size(i.indexrelid), i.indisvalid
FROM pg_catalog.pg_index AS i
WHERE i.indrelid = ANY(%(oids)s)
  AND NOT EXISTS (SELECT FROM pg_catalog.pg_constraint AS k
                  WHERE k.conindid = i.indexrelid AND k.contype IN ('p', 'u', 'x'))
ORDER BY i.indrelid, i.indexrelid
"""

ENUMS: LiteralString = """
SELECT DISTINCT pg_catalog.format_type(t.oid, NULL),
       (SELECT pg_catalog.array_agg(e.enumlabel::text ORDER BY e.enumsortorder)
        FROM pg_catalog.pg_enum AS e WHERE e.enumtypid = t.oid)
FROM pg_catalog.pg_attribute AS a
JOIN pg_catalog.pg_type AS t ON t.oid = a.atttypid AND t.typtype = 'e'
WHERE a.attrelid = ANY(%(oids)s) AND NOT a.attisdropped
ORDER BY 1
"""

# Sessions of clients, longest transaction first. Roles without pg_read_all_stats see only their own statements.
SESSIONS: LiteralString = """
SELECT s.pid, COALESCE(s.usename, ''), COALESCE(s.application_name, ''), COALESCE(s.state, 'hidden'),
       EXTRACT(epoch FROM pg_catalog.clock_timestamp() - s.state_change)::float8,
       EXTRACT(epoch FROM pg_catalog.clock_timestamp() - s.xact_start)::float8,
       COALESCE((SELECT CASE l.locktype WHEN 'transactionid' THEN 'another transaction to end'
                        ELSE l.mode || ' on ' || COALESCE(l.relation::pg_catalog.regclass::text, l.locktype) END
                 FROM pg_catalog.pg_locks AS l WHERE l.pid = s.pid AND NOT l.granted LIMIT 1), ''),
       pg_catalog.pg_blocking_pids(s.pid), COALESCE(s.query, '')
FROM pg_catalog.pg_stat_activity AS s
WHERE s.backend_type = 'client backend' AND s.pid <> pg_catalog.pg_backend_pid()
  AND (s.datname = pg_catalog.current_database() OR pg_catalog.cardinality(pg_catalog.pg_blocking_pids(s.pid)) > 0)
ORDER BY s.xact_start NULLS LAST, s.state_change
"""
