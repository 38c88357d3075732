//! The questions to PostgreSQL's catalog: for each kind of object its name and the statement that creates it,
//! in the order in which they can be read.
//!
//! Objects of the system and of extensions are left out, and so is what partitions have from their table.

/// Kind, and the query for names and statements.
pub const QUERIES: [(&str, &str); 16] = [
    ("extension", EXTENSIONS),
    ("schema", SCHEMAS),
    ("type", TYPES),
    ("sequence", SEQUENCES),
    ("table", TABLES),
    ("owner", OWNED_SEQUENCES),
    ("constraint", CONSTRAINTS),
    ("index", INDEXES),
    ("view", VIEWS),
    ("index", VIEW_INDEXES),
    ("routine", ROUTINES),
    ("aggregate", AGGREGATES),
    ("trigger", TRIGGERS),
    ("rule", RULES),
    ("row security", ROW_SECURITY),
    ("comment", COMMENTS),
];

const EXTENSIONS: &str = "
SELECT extname::text, format('CREATE EXTENSION %I', extname)
FROM pg_extension WHERE extname <> 'plpgsql' ORDER BY oid";

macro_rules! of_users {
    ($class:literal, $object:literal) => {
        concat!(
            "n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' AND NOT EXISTS (SELECT FROM pg_depend e \
             WHERE e.classid = '",
            $class,
            "'::regclass AND e.objid = ",
            $object,
            ".oid AND e.deptype = 'e')"
        )
    };
}

const SCHEMAS: &str = concat!(
    "
SELECT n.nspname::text, format('CREATE SCHEMA %I', n.nspname)
FROM pg_namespace n WHERE n.nspname <> 'public' AND ",
    of_users!("pg_namespace", "n"),
    " ORDER BY n.oid"
);

const TYPES: &str = concat!(
    "
SELECT format('%I.%I', n.nspname, t.typname),
  CASE t.typtype
  WHEN 'e' THEN format('CREATE TYPE %I.%I AS ENUM (%s)', n.nspname, t.typname,
    (SELECT string_agg(quote_literal(enumlabel), ', ' ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = t.oid))
  WHEN 'd' THEN format('CREATE DOMAIN %I.%I AS %s', n.nspname, t.typname, format_type(t.typbasetype, t.typtypmod))
    || coalesce(' DEFAULT ' || t.typdefault, '')
    || CASE WHEN t.typnotnull THEN ' NOT NULL' ELSE '' END
    || coalesce((SELECT string_agg(format(E'\\n  CONSTRAINT %I %s', conname, pg_get_constraintdef(k.oid)), '' ORDER BY k.oid)
        FROM pg_constraint k WHERE contypid = t.oid AND contype = 'c'), '')
  WHEN 'c' THEN format('CREATE TYPE %I.%I AS (%s)', n.nspname, t.typname,
    (SELECT string_agg(format('%I %s', attname, format_type(atttypid, atttypmod)), ', ' ORDER BY attnum)
     FROM pg_attribute WHERE attrelid = t.typrelid AND attnum > 0 AND NOT attisdropped))
  WHEN 'r' THEN format('CREATE TYPE %I.%I AS RANGE (subtype = %s)', n.nspname, t.typname,
    (SELECT format_type(rngsubtype, NULL) FROM pg_range WHERE rngtypid = t.oid))
  ELSE format('CREATE TYPE %I.%I', n.nspname, t.typname)
  END
FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
LEFT JOIN pg_class c ON c.oid = t.typrelid
WHERE (t.typtype IN ('e', 'd', 'r') OR t.typtype = 'c' AND c.relkind = 'c' OR t.typtype = 'b' AND t.typelem = 0)
  AND ",
    of_users!("pg_type", "t"),
    " ORDER BY t.oid"
);

/// Options of a sequence, in the syntax shared by CREATE SEQUENCE and identity columns.
macro_rules! sequence_options {
    () => {
        "format('START WITH %s INCREMENT BY %s MINVALUE %s MAXVALUE %s%s', s.seqstart, s.seqincrement, s.seqmin, \
         s.seqmax, CASE WHEN s.seqcycle THEN ' CYCLE' ELSE '' END)"
    };
}

const SEQUENCES: &str = concat!(
    "
SELECT format('%I.%I', n.nspname, c.relname),
  format('CREATE SEQUENCE %I.%I AS %s ', n.nspname, c.relname, format_type(s.seqtypid, NULL)) || ",
    sequence_options!(),
    "
FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE NOT EXISTS (SELECT FROM pg_depend i
    WHERE i.classid = 'pg_class'::regclass AND i.objid = c.oid AND i.deptype = 'i' AND i.refobjsubid > 0)
  AND ",
    of_users!("pg_class", "c"),
    " ORDER BY c.oid"
);

const TABLES: &str = concat!(
    "
SELECT format('%I.%I', n.nspname, c.relname),
  format('CREATE %sTABLE %I.%I ',
    CASE WHEN c.relkind = 'f' THEN 'FOREIGN ' WHEN c.relpersistence = 'u' THEN 'UNLOGGED ' ELSE '' END,
    n.nspname, c.relname)
  || CASE WHEN c.relispartition THEN
      format('PARTITION OF %s %s', (SELECT inhparent::regclass FROM pg_inherits WHERE inhrelid = c.oid),
        pg_get_expr(c.relpartbound, c.oid))
    ELSE
      format(E'(%s\\n)', (
        SELECT string_agg(
          format(E'\\n  %I %s', a.attname, format_type(a.atttypid, a.atttypmod))
          || CASE WHEN a.attcollation <> t.typcollation THEN
              (SELECT format(' COLLATE %I.%I', cn.nspname, co.collname) FROM pg_collation co
               JOIN pg_namespace cn ON cn.oid = co.collnamespace WHERE co.oid = a.attcollation)
            ELSE '' END
          || CASE
            WHEN a.attidentity <> '' THEN
              (SELECT format(' GENERATED %s AS IDENTITY (SEQUENCE NAME %s ',
                  CASE a.attidentity WHEN 'a' THEN 'ALWAYS' ELSE 'BY DEFAULT' END, s.seqrelid::regclass)
                || ",
    sequence_options!(),
    " || ')'
               FROM pg_depend i JOIN pg_sequence s ON s.seqrelid = i.objid
               WHERE i.classid = 'pg_class'::regclass AND i.refclassid = 'pg_class'::regclass
                 AND i.refobjid = c.oid AND i.refobjsubid = a.attnum AND i.deptype = 'i')
            WHEN a.attgenerated = 's' THEN format(' GENERATED ALWAYS AS (%s) STORED', pg_get_expr(d.adbin, d.adrelid))
            WHEN d.adbin IS NOT NULL THEN format(' DEFAULT %s', pg_get_expr(d.adbin, d.adrelid))
            ELSE '' END
          || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END,
          ',' ORDER BY a.attnum)
        FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
        LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attislocal))
      || coalesce((SELECT format(' INHERITS (%s)', string_agg(inhparent::regclass::text, ', ' ORDER BY inhseqno))
          FROM pg_inherits WHERE inhrelid = c.oid HAVING count(*) > 0), '')
    END
  || CASE c.relkind
    WHEN 'p' THEN ' PARTITION BY ' || pg_get_partkeydef(c.oid)
    WHEN 'f' THEN (SELECT format(' SERVER %I', f.srvname) FROM pg_foreign_table ft
      JOIN pg_foreign_server f ON f.oid = ft.ftserver WHERE ft.ftrelid = c.oid)
    ELSE '' END
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'f') AND c.relpersistence <> 't' AND ",
    of_users!("pg_class", "c"),
    " ORDER BY (SELECT count(*) FROM pg_partition_ancestors(c.oid)), c.oid"
);

const OWNED_SEQUENCES: &str = concat!(
    "
SELECT format('%I.%I', n.nspname, c.relname),
  format('ALTER SEQUENCE %I.%I OWNED BY %s.%I', n.nspname, c.relname, d.refobjid::regclass, a.attname)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.refclassid = 'pg_class'::regclass
  AND d.deptype = 'a'
JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
WHERE c.relkind = 'S' AND ",
    of_users!("pg_class", "c"),
    " ORDER BY c.oid"
);

const CONSTRAINTS: &str = concat!(
    "
SELECT format('%I on %s', k.conname, c.oid::regclass),
  format('ALTER TABLE ONLY %s ADD CONSTRAINT %I %s', c.oid::regclass, k.conname, pg_get_constraintdef(k.oid))
FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE k.contype IN ('p', 'u', 'c', 'x', 'f') AND k.conislocal AND k.conparentid = 0 AND NOT c.relispartition AND ",
    of_users!("pg_class", "c"),
    " ORDER BY strpos('pucxf', k.contype::text), k.conrelid, k.oid"
);

macro_rules! indexes {
    ($kinds:literal) => {
        concat!(
            "
SELECT format('%I.%I', n.nspname, c.relname), pg_get_indexdef(i.indexrelid)
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_class r ON r.oid = i.indrelid
WHERE r.relkind IN (",
            $kinds,
            ") AND r.relpersistence <> 't' AND NOT c.relispartition AND i.indisvalid
  AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.indexrelid AND k.contype IN ('p', 'u', 'x'))
  AND ",
            of_users!("pg_class", "r"),
            " ORDER BY i.indexrelid"
        )
    };
}

const INDEXES: &str = indexes!("'r', 'p'");
const VIEW_INDEXES: &str = indexes!("'m'");

/// A view after those that it reads.
const VIEWS: &str = concat!(
    "
WITH RECURSIVE reads AS (
  SELECT DISTINCT r.ev_class AS view, d.refobjid AS other
  FROM pg_rewrite r JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
    AND d.refclassid = 'pg_class'::regclass AND d.refobjid <> r.ev_class
  JOIN pg_class c ON c.oid = d.refobjid AND c.relkind IN ('v', 'm')
), depth AS (
  SELECT oid AS view, 0 AS depth FROM pg_class WHERE relkind IN ('v', 'm')
  UNION SELECT reads.view, depth.depth + 1 FROM reads JOIN depth ON depth.view = reads.other WHERE depth.depth < 1000
)
SELECT format('%I.%I', n.nspname, c.relname),
  format('CREATE %sVIEW %I.%I AS %s%s', CASE WHEN c.relkind = 'm' THEN 'MATERIALIZED ' ELSE '' END,
    n.nspname, c.relname, rtrim(pg_get_viewdef(c.oid), ';'),
    CASE WHEN array_to_string(c.reloptions, ',') LIKE '%check_option=%' THEN ' WITH CHECK OPTION' ELSE '' END)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('v', 'm') AND c.relpersistence <> 't' AND ",
    of_users!("pg_class", "c"),
    " ORDER BY (SELECT max(depth) FROM depth WHERE depth.view = c.oid), c.oid"
);

const ROUTINES: &str = concat!(
    "
SELECT p.oid::regprocedure::text, pg_get_functiondef(p.oid)
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE p.prokind IN ('f', 'p') AND ",
    of_users!("pg_proc", "p"),
    " ORDER BY p.oid"
);

const AGGREGATES: &str = concat!(
    "
SELECT format('%I.%I', n.nspname, p.proname),
  format('CREATE AGGREGATE %I.%I (%s) (SFUNC = %s, STYPE = %s)', n.nspname, p.proname,
    coalesce(nullif(pg_get_function_identity_arguments(p.oid), ''), '*'), a.aggtransfn::text,
    format_type(a.aggtranstype, NULL))
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace JOIN pg_aggregate a ON a.aggfnoid = p.oid
WHERE ",
    of_users!("pg_proc", "p"),
    " ORDER BY p.oid"
);

/// Triggers that fire in ordinary sessions.
const TRIGGERS: &str = concat!(
    "
SELECT format('%I on %s', g.tgname, c.oid::regclass), pg_get_triggerdef(g.oid)
FROM pg_trigger g JOIN pg_class c ON c.oid = g.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE NOT g.tgisinternal AND g.tgparentid = 0 AND g.tgenabled IN ('O', 'A') AND ",
    of_users!("pg_class", "c"),
    " ORDER BY g.oid"
);

const RULES: &str = concat!(
    "
SELECT format('%I on %s', r.rulename, c.oid::regclass), pg_get_ruledef(r.oid)
FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE r.rulename <> '_RETURN' AND r.ev_enabled IN ('O', 'A') AND ",
    of_users!("pg_class", "c"),
    " ORDER BY r.oid"
);

const ROW_SECURITY: &str = concat!(
    "
SELECT c.oid::regclass::text, format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', c.oid::regclass)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relrowsecurity AND ",
    of_users!("pg_class", "c"),
    " ORDER BY c.oid"
);

/// Only what Weir reads of them.
const COMMENTS: &str = concat!(
    "
SELECT c.oid::regclass::text, format('COMMENT ON TABLE %s IS %L', c.oid::regclass, d.description)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_description d ON d.classoid = 'pg_class'::regclass AND d.objoid = c.oid AND d.objsubid = 0
WHERE c.relkind IN ('r', 'p') AND d.description ~* '^\\s*weir:' AND ",
    of_users!("pg_class", "c"),
    " ORDER BY c.oid"
);
