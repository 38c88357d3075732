-- The views of pg_catalog and information_schema, over the tables of tables.sql. There is one role, whoever asks, who owns everything.
CREATE VIEW pg_catalog.pg_roles AS SELECT current_user AS rolname, true AS rolsuper, true AS rolinherit, true AS rolcreaterole, true AS rolcreatedb,
    true AS rolcanlogin, true AS rolreplication, -1 AS rolconnlimit, '********'::text AS rolpassword, NULL::timestamptz AS rolvaliduntil,
    true AS rolbypassrls, NULL::text[] AS rolconfig, 10::bigint AS oid
    UNION ALL SELECT 'pg_database_owner', false, true, false, false, false, false, -1, '********', NULL, false, NULL, 6171;
CREATE VIEW pg_catalog.pg_authid AS SELECT 10::bigint AS oid, current_user AS rolname, true AS rolsuper, true AS rolinherit, true AS rolcreaterole, true AS rolcreatedb,
    true AS rolcanlogin, true AS rolreplication, true AS rolbypassrls, -1 AS rolconnlimit, NULL::text AS rolpassword, NULL::timestamptz AS rolvaliduntil
    UNION ALL SELECT 6171, 'pg_database_owner', false, true, false, false, false, false, false, -1, NULL, NULL;
CREATE VIEW pg_catalog.pg_user AS SELECT current_user AS usename, 10::bigint AS usesysid, true AS usecreatedb, true AS usesuper, false AS userepl,
    true AS usebypassrls, '********'::text AS passwd, NULL::timestamptz AS valuntil, NULL::text[] AS useconfig;
CREATE VIEW pg_catalog.pg_group AS SELECT NULL::text AS groname, NULL::bigint AS grosysid, NULL::bigint[] AS grolist WHERE false;
CREATE VIEW pg_catalog.pg_database AS SELECT 5::bigint AS oid, current_database() AS datname, 10::bigint AS datdba, 6 AS encoding, 'c'::text AS datlocprovider,
    false AS datistemplate, true AS datallowconn, -1 AS datconnlimit, 0::bigint AS datfrozenxid, 0::bigint AS datminmxid, 1663::bigint AS dattablespace,
    'C'::text AS datcollate, 'C'::text AS datctype, NULL::text AS daticulocale, NULL::text AS datcollversion, NULL::text[] AS datacl;
CREATE VIEW pg_catalog.pg_settings AS SELECT s.name, s.setting, NULL::text AS unit, 'Preset Options'::text AS category, s.name AS short_desc, NULL::text AS extra_desc,
    'internal'::text AS context, s.vartype, 'default'::text AS source, NULL::text AS min_val, NULL::text AS max_val, NULL::text[] AS enumvals, s.setting AS boot_val,
    s.setting AS reset_val, NULL::text AS sourcefile, NULL::integer AS sourceline, false AS pending_restart
    FROM (SELECT n.name, v.setting, CASE WHEN v.setting IN ('on', 'off') THEN 'bool' WHEN v.setting ~ '^[0-9]+$' THEN 'integer' ELSE 'string' END AS vartype
        FROM unnest($1) WITH ORDINALITY n(name, at) JOIN unnest($2) WITH ORDINALITY v(setting, at) ON n.at = v.at) s;
CREATE VIEW pg_catalog.pg_seclabels AS SELECT objoid, classoid, objsubid, NULL::text AS objtype, NULL::bigint AS objnamespace, NULL::text AS objname, provider, label
    FROM pg_catalog.pg_seclabel;
CREATE VIEW pg_catalog.pg_tables AS SELECT n.nspname AS schemaname, c.relname AS tablename, pg_get_userbyid(c.relowner) AS tableowner, NULL::text AS tablespace,
    c.relhasindex AS hasindexes, c.relhasrules AS hasrules, c.relhastriggers AS hastriggers, c.relrowsecurity AS rowsecurity
    FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p');
CREATE VIEW pg_catalog.pg_views AS SELECT n.nspname AS schemaname, c.relname AS viewname, pg_get_userbyid(c.relowner) AS viewowner, pg_get_viewdef(c.oid) AS definition
    FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'v';
CREATE VIEW pg_catalog.pg_matviews AS SELECT n.nspname AS schemaname, c.relname AS matviewname, pg_get_userbyid(c.relowner) AS matviewowner, NULL::text AS tablespace,
    c.relhasindex AS hasindexes, c.relispopulated AS ispopulated, pg_get_viewdef(c.oid) AS definition
    FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'm';
CREATE VIEW pg_catalog.pg_indexes AS SELECT n.nspname AS schemaname, c.relname AS tablename, i.relname AS indexname, NULL::text AS tablespace, pg_get_indexdef(i.oid) AS indexdef
    FROM pg_catalog.pg_index x JOIN pg_catalog.pg_class c ON c.oid = x.indrelid JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid
    LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace;
CREATE VIEW pg_catalog.pg_sequences AS SELECT n.nspname AS schemaname, c.relname AS sequencename, pg_get_userbyid(c.relowner) AS sequenceowner,
    format_type(s.seqtypid, NULL) AS data_type, s.seqstart AS start_value, s.seqmin AS min_value, s.seqmax AS max_value, s.seqincrement AS increment_by,
    s.seqcycle AS cycle, s.seqcache AS cache_size,
    CASE WHEN v.is_called THEN v.last_value END AS last_value
    FROM pg_catalog.pg_sequence s LEFT JOIN pg_catalog.weir_sequence_values v ON v.seqrelid = s.seqrelid JOIN pg_catalog.pg_class c ON c.oid = s.seqrelid LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace;
CREATE VIEW information_schema.schemata AS SELECT current_database() AS catalog_name, n.nspname AS schema_name, pg_get_userbyid(n.nspowner) AS schema_owner,
    NULL::text AS default_character_set_catalog, NULL::text AS default_character_set_schema, NULL::text AS default_character_set_name, NULL::text AS sql_path
    FROM pg_catalog.pg_namespace n;
CREATE VIEW information_schema.tables AS SELECT current_database() AS table_catalog, n.nspname AS table_schema, c.relname AS table_name,
    CASE WHEN c.relkind = 'v' THEN 'VIEW' ELSE 'BASE TABLE' END AS table_type, NULL::text AS self_referencing_column_name, NULL::text AS reference_generation,
    NULL::text AS user_defined_type_catalog, NULL::text AS user_defined_type_schema, NULL::text AS user_defined_type_name,
    CASE WHEN c.relkind IN ('r', 'p') THEN 'YES' ELSE 'NO' END AS is_insertable_into, 'NO'::text AS is_typed, NULL::text AS commit_action
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'v', 'p');
CREATE VIEW information_schema.columns AS SELECT current_database() AS table_catalog, n.nspname AS table_schema, c.relname AS table_name, a.attname AS column_name,
    a.attnum::integer AS ordinal_position, CASE WHEN a.attgenerated = '' THEN pg_get_expr(d.adbin, d.adrelid) END AS column_default,
    CASE WHEN a.attnotnull THEN 'NO' ELSE 'YES' END AS is_nullable,
    CASE WHEN t.typelem <> 0 THEN 'ARRAY' WHEN t.typnamespace = 11 THEN format_type(a.atttypid, NULL) ELSE 'USER-DEFINED' END AS data_type,
    CASE WHEN a.atttypid IN (1042, 1043) AND a.atttypmod > 4 THEN a.atttypmod - 4 END AS character_maximum_length,
    CASE WHEN a.atttypid IN (25, 1042, 1043) THEN CASE WHEN a.atttypid IN (1042, 1043) AND a.atttypmod > 4 THEN (a.atttypmod - 4) * 4 ELSE 1073741824 END END AS character_octet_length,
    CASE a.atttypid WHEN 21 THEN 16 WHEN 23 THEN 32 WHEN 20 THEN 64 WHEN 700 THEN 24 WHEN 701 THEN 53
        WHEN 1700 THEN CASE WHEN a.atttypmod > 4 THEN (a.atttypmod - 4) / 65536 END END AS numeric_precision,
    CASE WHEN a.atttypid IN (21, 23, 20, 700, 701) THEN 2 WHEN a.atttypid = 1700 THEN 10 END AS numeric_precision_radix,
    CASE WHEN a.atttypid IN (21, 23, 20) THEN 0 WHEN a.atttypid = 1700 AND a.atttypmod > 4 THEN (a.atttypmod - 4) % 65536 END AS numeric_scale,
    CASE WHEN a.atttypid = 1082 THEN 0 WHEN a.atttypid IN (1114, 1184) THEN CASE WHEN a.atttypmod >= 0 THEN a.atttypmod ELSE 6 END
        WHEN a.atttypid = 1186 THEN CASE WHEN a.atttypmod >= 0 AND a.atttypmod & 65535 < 65535 THEN a.atttypmod & 65535 ELSE 6 END END AS datetime_precision,
    NULL::text AS interval_type, NULL::integer AS interval_precision, NULL::text AS character_set_catalog, NULL::text AS character_set_schema, NULL::text AS character_set_name,
    NULL::text AS collation_catalog, NULL::text AS collation_schema, NULL::text AS collation_name, NULL::text AS domain_catalog, NULL::text AS domain_schema, NULL::text AS domain_name,
    current_database() AS udt_catalog, tn.nspname AS udt_schema, t.typname AS udt_name, NULL::text AS scope_catalog, NULL::text AS scope_schema, NULL::text AS scope_name,
    NULL::integer AS maximum_cardinality, a.attnum::text AS dtd_identifier, 'NO'::text AS is_self_referencing,
    CASE WHEN a.attidentity IN ('a', 'd') THEN 'YES' ELSE 'NO' END AS is_identity, CASE a.attidentity WHEN 'a' THEN 'ALWAYS' WHEN 'd' THEN 'BY DEFAULT' END AS identity_generation,
    CASE WHEN a.attidentity IN ('a', 'd') THEN (SELECT s.seqstart::text FROM pg_catalog.pg_depend e JOIN pg_catalog.pg_sequence s ON s.seqrelid = e.objid WHERE e.refobjid = a.attrelid AND e.refobjsubid = a.attnum AND e.deptype = 'i') END AS identity_start,
    CASE WHEN a.attidentity IN ('a', 'd') THEN (SELECT s.seqincrement::text FROM pg_catalog.pg_depend e JOIN pg_catalog.pg_sequence s ON s.seqrelid = e.objid WHERE e.refobjid = a.attrelid AND e.refobjsubid = a.attnum AND e.deptype = 'i') END AS identity_increment,
    CASE WHEN a.attidentity IN ('a', 'd') THEN (SELECT s.seqmax::text FROM pg_catalog.pg_depend e JOIN pg_catalog.pg_sequence s ON s.seqrelid = e.objid WHERE e.refobjid = a.attrelid AND e.refobjsubid = a.attnum AND e.deptype = 'i') END AS identity_maximum,
    CASE WHEN a.attidentity IN ('a', 'd') THEN (SELECT s.seqmin::text FROM pg_catalog.pg_depend e JOIN pg_catalog.pg_sequence s ON s.seqrelid = e.objid WHERE e.refobjid = a.attrelid AND e.refobjsubid = a.attnum AND e.deptype = 'i') END AS identity_minimum,
    'NO'::text AS identity_cycle,
    CASE WHEN a.attgenerated = '' THEN 'NEVER' ELSE 'ALWAYS' END AS is_generated, CASE WHEN a.attgenerated <> '' THEN pg_get_expr(d.adbin, d.adrelid) END AS generation_expression,
    CASE WHEN c.relkind IN ('r', 'p') THEN 'YES' ELSE 'NO' END AS is_updatable
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid
    JOIN pg_catalog.pg_type t ON t.oid = a.atttypid JOIN pg_catalog.pg_namespace tn ON tn.oid = t.typnamespace
    LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE c.relkind IN ('r', 'v', 'p') AND a.attnum > 0 AND NOT a.attisdropped;
CREATE VIEW information_schema.views AS SELECT current_database() AS table_catalog, n.nspname AS table_schema, c.relname AS table_name, pg_get_viewdef(c.oid) AS view_definition,
    'NONE'::text AS check_option, 'NO'::text AS is_updatable, 'NO'::text AS is_insertable_into, 'NO'::text AS is_trigger_updatable, 'NO'::text AS is_trigger_deletable, 'NO'::text AS is_trigger_insertable_into
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'v';
CREATE VIEW information_schema.sequences AS SELECT current_database() AS sequence_catalog, n.nspname AS sequence_schema, c.relname AS sequence_name, format_type(s.seqtypid, NULL) AS data_type,
    CASE s.seqtypid WHEN 21 THEN 16 WHEN 23 THEN 32 ELSE 64 END AS numeric_precision, 2 AS numeric_precision_radix, 0 AS numeric_scale, s.seqstart::text AS start_value,
    s.seqmin::text AS minimum_value, s.seqmax::text AS maximum_value, s.seqincrement::text AS increment, CASE WHEN s.seqcycle THEN 'YES' ELSE 'NO' END AS cycle_option
    FROM pg_catalog.pg_sequence s JOIN pg_catalog.pg_class c ON c.oid = s.seqrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE NOT EXISTS (SELECT 1 FROM pg_catalog.pg_depend d WHERE d.objid = c.oid AND d.deptype = 'i');
CREATE VIEW information_schema.table_constraints AS SELECT current_database() AS constraint_catalog, n.nspname AS constraint_schema, k.conname AS constraint_name,
    current_database() AS table_catalog, n.nspname AS table_schema, c.relname AS table_name,
    CASE k.contype WHEN 'c' THEN 'CHECK' WHEN 'f' THEN 'FOREIGN KEY' WHEN 'p' THEN 'PRIMARY KEY' WHEN 'u' THEN 'UNIQUE' END AS constraint_type,
    CASE WHEN k.condeferrable THEN 'YES' ELSE 'NO' END AS is_deferrable, CASE WHEN k.condeferred THEN 'YES' ELSE 'NO' END AS initially_deferred, 'YES'::text AS enforced, CASE k.contype WHEN 'u' THEN 'YES' END AS nulls_distinct
    FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_class c ON c.oid = k.conrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE k.contype IN ('c', 'f', 'p', 'u')
    UNION ALL SELECT current_database(), n.nspname, n.oid::text || '_' || c.oid::text || '_' || a.attnum::text || '_not_null', current_database(), n.nspname, c.relname,
    'CHECK', 'NO', 'NO', 'YES', NULL FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE a.attnotnull AND a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema');
CREATE VIEW information_schema.key_column_usage AS SELECT current_database() AS constraint_catalog, n.nspname AS constraint_schema, k.conname AS constraint_name,
    current_database() AS table_catalog, n.nspname AS table_schema, c.relname AS table_name, a.attname AS column_name, x.place::integer AS ordinal_position,
    CASE WHEN k.contype = 'f' THEN x.place::integer END AS position_in_unique_constraint
    FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_class c ON c.oid = k.conrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    CROSS JOIN LATERAL unnest(k.conkey) WITH ORDINALITY AS x(attnum, place) JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = x.attnum WHERE k.contype IN ('f', 'p', 'u');
CREATE VIEW information_schema.referential_constraints AS SELECT current_database() AS constraint_catalog, n.nspname AS constraint_schema, k.conname AS constraint_name,
    current_database() AS unique_constraint_catalog, n.nspname AS unique_constraint_schema,
    (SELECT u.conname FROM pg_catalog.pg_constraint u WHERE u.conrelid = k.confrelid AND u.conindid = k.conindid AND u.contype IN ('p', 'u')) AS unique_constraint_name,
    'NONE'::text AS match_option,
    CASE k.confupdtype WHEN 'r' THEN 'RESTRICT' WHEN 'c' THEN 'CASCADE' WHEN 'n' THEN 'SET NULL' WHEN 'd' THEN 'SET DEFAULT' ELSE 'NO ACTION' END AS update_rule,
    CASE k.confdeltype WHEN 'r' THEN 'RESTRICT' WHEN 'c' THEN 'CASCADE' WHEN 'n' THEN 'SET NULL' WHEN 'd' THEN 'SET DEFAULT' ELSE 'NO ACTION' END AS delete_rule
    FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_namespace n ON n.oid = k.connamespace WHERE k.contype = 'f';
CREATE VIEW information_schema.constraint_column_usage AS SELECT current_database() AS table_catalog, n.nspname AS table_schema, c.relname AS table_name, a.attname AS column_name,
    current_database() AS constraint_catalog, n.nspname AS constraint_schema, k.conname AS constraint_name
    FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_class c ON c.oid = CASE WHEN k.contype = 'f' THEN k.confrelid ELSE k.conrelid END
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    CROSS JOIN LATERAL unnest(CASE WHEN k.contype = 'f' THEN k.confkey ELSE k.conkey END) AS x(attnum) JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = x.attnum
    WHERE k.contype IN ('c', 'f', 'p', 'u');
CREATE VIEW information_schema.check_constraints AS SELECT current_database() AS constraint_catalog, n.nspname AS constraint_schema, k.conname AS constraint_name,
    substring(pg_get_constraintdef(k.oid) FROM 8) AS check_clause FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_namespace n ON n.oid = k.connamespace WHERE k.contype = 'c'
    UNION ALL SELECT current_database(), n.nspname, n.oid::text || '_' || c.oid::text || '_' || a.attnum::text || '_not_null', a.attname || ' IS NOT NULL'
    FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE a.attnotnull AND a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema');
CREATE VIEW information_schema.routines AS SELECT current_database() AS specific_catalog, n.nspname AS specific_schema, p.proname || '_' || p.oid::text AS specific_name,
    current_database() AS routine_catalog, n.nspname AS routine_schema, p.proname AS routine_name, CASE p.prokind WHEN 'p' THEN 'PROCEDURE' ELSE 'FUNCTION' END AS routine_type,
    CASE p.prokind WHEN 'p' THEN NULL ELSE pg_get_function_result(p.oid) END AS data_type, 'PLPGSQL'::text AS external_language
    FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace;
