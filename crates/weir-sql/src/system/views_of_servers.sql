-- Views of pg_catalog and information_schema over what a schema has none of, or what nobody counts here: a count is NULL, and not 0.
CREATE VIEW pg_catalog.pg_stat_all_tables AS SELECT c.oid AS relid, n.nspname AS schemaname, c.relname AS relname, NULL::bigint AS seq_scan,
    NULL::bigint AS seq_tup_read, NULL::bigint AS idx_scan, NULL::bigint AS idx_tup_fetch, NULL::bigint AS n_tup_ins, NULL::bigint AS n_tup_upd,
    NULL::bigint AS n_tup_del, NULL::bigint AS n_tup_hot_upd, NULL::bigint AS n_live_tup, NULL::bigint AS n_dead_tup, NULL::bigint AS
    n_mod_since_analyze, NULL::bigint AS n_ins_since_vacuum, NULL::timestamptz AS last_vacuum, NULL::timestamptz AS last_autovacuum, NULL::timestamptz
    AS last_analyze, NULL::timestamptz AS last_autoanalyze, NULL::bigint AS vacuum_count, NULL::bigint AS autovacuum_count, NULL::bigint AS
    analyze_count, NULL::bigint AS autoanalyze_count FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE
    c.relkind IN ('r', 'p', 'm');
CREATE VIEW pg_catalog.pg_stat_xact_all_tables AS SELECT c.oid AS relid, n.nspname AS schemaname, c.relname AS relname, NULL::bigint AS seq_scan,
    NULL::bigint AS seq_tup_read, NULL::bigint AS idx_scan, NULL::bigint AS idx_tup_fetch, NULL::bigint AS n_tup_ins, NULL::bigint AS n_tup_upd,
    NULL::bigint AS n_tup_del, NULL::bigint AS n_tup_hot_upd FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE
    c.relkind IN ('r', 'p', 'm');
CREATE VIEW pg_catalog.pg_statio_all_tables AS SELECT c.oid AS relid, n.nspname AS schemaname, c.relname AS relname, NULL::bigint AS heap_blks_read,
    NULL::bigint AS heap_blks_hit, NULL::bigint AS idx_blks_read, NULL::bigint AS idx_blks_hit, NULL::bigint AS toast_blks_read, NULL::bigint AS
    toast_blks_hit, NULL::bigint AS tidx_blks_read, NULL::bigint AS tidx_blks_hit FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid =
    c.relnamespace WHERE c.relkind IN ('r', 'p', 'm');
CREATE VIEW pg_catalog.pg_stat_all_indexes AS SELECT c.oid AS relid, i.oid AS indexrelid, n.nspname AS schemaname, c.relname AS relname, i.relname AS
    indexrelname, NULL::bigint AS idx_scan, NULL::bigint AS idx_tup_read, NULL::bigint AS idx_tup_fetch FROM pg_catalog.pg_index x JOIN
    pg_catalog.pg_class c ON c.oid = x.indrelid JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid JOIN pg_catalog.pg_namespace n ON n.oid =
    c.relnamespace WHERE c.relkind IN ('r', 'p', 'm');
CREATE VIEW pg_catalog.pg_statio_all_indexes AS SELECT c.oid AS relid, i.oid AS indexrelid, n.nspname AS schemaname, c.relname AS relname, i.relname
    AS indexrelname, NULL::bigint AS idx_blks_read, NULL::bigint AS idx_blks_hit FROM pg_catalog.pg_index x JOIN pg_catalog.pg_class c ON c.oid =
    x.indrelid JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r',
    'p', 'm');
CREATE VIEW pg_catalog.pg_statio_all_sequences AS SELECT c.oid AS relid, n.nspname AS schemaname, c.relname AS relname, NULL::bigint AS blks_read,
    NULL::bigint AS blks_hit FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'S';
CREATE VIEW pg_catalog.pg_stat_user_tables AS SELECT c.oid AS relid, n.nspname AS schemaname, c.relname AS relname, NULL::bigint AS seq_scan,
    NULL::bigint AS seq_tup_read, NULL::bigint AS idx_scan, NULL::bigint AS idx_tup_fetch, NULL::bigint AS n_tup_ins, NULL::bigint AS n_tup_upd,
    NULL::bigint AS n_tup_del, NULL::bigint AS n_tup_hot_upd, NULL::bigint AS n_live_tup, NULL::bigint AS n_dead_tup, NULL::bigint AS
    n_mod_since_analyze, NULL::bigint AS n_ins_since_vacuum, NULL::timestamptz AS last_vacuum, NULL::timestamptz AS last_autovacuum, NULL::timestamptz
    AS last_analyze, NULL::timestamptz AS last_autoanalyze, NULL::bigint AS vacuum_count, NULL::bigint AS autovacuum_count, NULL::bigint AS
    analyze_count, NULL::bigint AS autoanalyze_count FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE
    c.relkind IN ('r', 'p', 'm') AND n.nspname NOT IN ('pg_catalog', 'information_schema');
CREATE VIEW pg_catalog.pg_stat_xact_user_tables AS SELECT c.oid AS relid, n.nspname AS schemaname, c.relname AS relname, NULL::bigint AS seq_scan,
    NULL::bigint AS seq_tup_read, NULL::bigint AS idx_scan, NULL::bigint AS idx_tup_fetch, NULL::bigint AS n_tup_ins, NULL::bigint AS n_tup_upd,
    NULL::bigint AS n_tup_del, NULL::bigint AS n_tup_hot_upd FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE
    c.relkind IN ('r', 'p', 'm') AND n.nspname NOT IN ('pg_catalog', 'information_schema');
CREATE VIEW pg_catalog.pg_statio_user_tables AS SELECT c.oid AS relid, n.nspname AS schemaname, c.relname AS relname, NULL::bigint AS heap_blks_read,
    NULL::bigint AS heap_blks_hit, NULL::bigint AS idx_blks_read, NULL::bigint AS idx_blks_hit, NULL::bigint AS toast_blks_read, NULL::bigint AS
    toast_blks_hit, NULL::bigint AS tidx_blks_read, NULL::bigint AS tidx_blks_hit FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid =
    c.relnamespace WHERE c.relkind IN ('r', 'p', 'm') AND n.nspname NOT IN ('pg_catalog', 'information_schema');
CREATE VIEW pg_catalog.pg_stat_user_indexes AS SELECT c.oid AS relid, i.oid AS indexrelid, n.nspname AS schemaname, c.relname AS relname, i.relname AS
    indexrelname, NULL::bigint AS idx_scan, NULL::bigint AS idx_tup_read, NULL::bigint AS idx_tup_fetch FROM pg_catalog.pg_index x JOIN
    pg_catalog.pg_class c ON c.oid = x.indrelid JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid JOIN pg_catalog.pg_namespace n ON n.oid =
    c.relnamespace WHERE c.relkind IN ('r', 'p', 'm') AND n.nspname NOT IN ('pg_catalog', 'information_schema');
CREATE VIEW pg_catalog.pg_statio_user_indexes AS SELECT c.oid AS relid, i.oid AS indexrelid, n.nspname AS schemaname, c.relname AS relname, i.relname
    AS indexrelname, NULL::bigint AS idx_blks_read, NULL::bigint AS idx_blks_hit FROM pg_catalog.pg_index x JOIN pg_catalog.pg_class c ON c.oid =
    x.indrelid JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r',
    'p', 'm') AND n.nspname NOT IN ('pg_catalog', 'information_schema');
CREATE VIEW pg_catalog.pg_statio_user_sequences AS SELECT c.oid AS relid, n.nspname AS schemaname, c.relname AS relname, NULL::bigint AS blks_read,
    NULL::bigint AS blks_hit FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'S' AND n.nspname
    NOT IN ('pg_catalog', 'information_schema');
CREATE VIEW pg_catalog.pg_stat_sys_tables AS SELECT c.oid AS relid, n.nspname AS schemaname, c.relname AS relname, NULL::bigint AS seq_scan,
    NULL::bigint AS seq_tup_read, NULL::bigint AS idx_scan, NULL::bigint AS idx_tup_fetch, NULL::bigint AS n_tup_ins, NULL::bigint AS n_tup_upd,
    NULL::bigint AS n_tup_del, NULL::bigint AS n_tup_hot_upd, NULL::bigint AS n_live_tup, NULL::bigint AS n_dead_tup, NULL::bigint AS
    n_mod_since_analyze, NULL::bigint AS n_ins_since_vacuum, NULL::timestamptz AS last_vacuum, NULL::timestamptz AS last_autovacuum, NULL::timestamptz
    AS last_analyze, NULL::timestamptz AS last_autoanalyze, NULL::bigint AS vacuum_count, NULL::bigint AS autovacuum_count, NULL::bigint AS
    analyze_count, NULL::bigint AS autoanalyze_count FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE
    c.relkind IN ('r', 'p', 'm') AND n.nspname IN ('pg_catalog', 'information_schema');
CREATE VIEW pg_catalog.pg_stat_xact_sys_tables AS SELECT c.oid AS relid, n.nspname AS schemaname, c.relname AS relname, NULL::bigint AS seq_scan,
    NULL::bigint AS seq_tup_read, NULL::bigint AS idx_scan, NULL::bigint AS idx_tup_fetch, NULL::bigint AS n_tup_ins, NULL::bigint AS n_tup_upd,
    NULL::bigint AS n_tup_del, NULL::bigint AS n_tup_hot_upd FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE
    c.relkind IN ('r', 'p', 'm') AND n.nspname IN ('pg_catalog', 'information_schema');
CREATE VIEW pg_catalog.pg_statio_sys_tables AS SELECT c.oid AS relid, n.nspname AS schemaname, c.relname AS relname, NULL::bigint AS heap_blks_read,
    NULL::bigint AS heap_blks_hit, NULL::bigint AS idx_blks_read, NULL::bigint AS idx_blks_hit, NULL::bigint AS toast_blks_read, NULL::bigint AS
    toast_blks_hit, NULL::bigint AS tidx_blks_read, NULL::bigint AS tidx_blks_hit FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid =
    c.relnamespace WHERE c.relkind IN ('r', 'p', 'm') AND n.nspname IN ('pg_catalog', 'information_schema');
CREATE VIEW pg_catalog.pg_stat_sys_indexes AS SELECT c.oid AS relid, i.oid AS indexrelid, n.nspname AS schemaname, c.relname AS relname, i.relname AS
    indexrelname, NULL::bigint AS idx_scan, NULL::bigint AS idx_tup_read, NULL::bigint AS idx_tup_fetch FROM pg_catalog.pg_index x JOIN
    pg_catalog.pg_class c ON c.oid = x.indrelid JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid JOIN pg_catalog.pg_namespace n ON n.oid =
    c.relnamespace WHERE c.relkind IN ('r', 'p', 'm') AND n.nspname IN ('pg_catalog', 'information_schema');
CREATE VIEW pg_catalog.pg_statio_sys_indexes AS SELECT c.oid AS relid, i.oid AS indexrelid, n.nspname AS schemaname, c.relname AS relname, i.relname
    AS indexrelname, NULL::bigint AS idx_blks_read, NULL::bigint AS idx_blks_hit FROM pg_catalog.pg_index x JOIN pg_catalog.pg_class c ON c.oid =
    x.indrelid JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r',
    'p', 'm') AND n.nspname IN ('pg_catalog', 'information_schema');
CREATE VIEW pg_catalog.pg_statio_sys_sequences AS SELECT c.oid AS relid, n.nspname AS schemaname, c.relname AS relname, NULL::bigint AS blks_read,
    NULL::bigint AS blks_hit FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'S' AND n.nspname
    IN ('pg_catalog', 'information_schema');
CREATE VIEW pg_catalog.pg_policies AS SELECT NULL::text AS schemaname, NULL::text AS tablename, NULL::text AS policyname, NULL::text AS permissive,
    NULL::text[] AS roles, NULL::text AS cmd, NULL::text AS qual, NULL::text AS with_check WHERE false;
CREATE VIEW pg_catalog.pg_cursors AS SELECT NULL::text AS name, NULL::text AS statement, NULL::boolean AS is_holdable, NULL::boolean AS is_binary,
    NULL::boolean AS is_scrollable, NULL::timestamptz AS creation_time WHERE false;
CREATE VIEW pg_catalog.pg_prepared_statements AS SELECT NULL::text AS name, NULL::text AS statement, NULL::timestamptz AS prepare_time, NULL::text[]
    AS parameter_types, NULL::boolean AS from_sql, NULL::bigint AS generic_plans, NULL::bigint AS custom_plans WHERE false;
CREATE VIEW pg_catalog.pg_prepared_xacts AS SELECT NULL::bigint AS transaction, NULL::text AS gid, NULL::timestamptz AS prepared, NULL::text AS owner,
    NULL::text AS database WHERE false;
CREATE VIEW pg_catalog.pg_publication_tables AS SELECT NULL::text AS pubname, NULL::text AS schemaname, NULL::text AS tablename, NULL::text[] AS
    attnames, NULL::text AS rowfilter WHERE false;
CREATE VIEW pg_catalog.pg_replication_slots AS SELECT NULL::text AS slot_name, NULL::text AS plugin, NULL::text AS slot_type, NULL::bigint AS datoid,
    NULL::text AS database, NULL::boolean AS temporary, NULL::boolean AS active, NULL::integer AS active_pid, NULL::bigint AS xmin, NULL::bigint AS
    catalog_xmin, NULL::text AS restart_lsn, NULL::text AS confirmed_flush_lsn, NULL::text AS wal_status, NULL::bigint AS safe_wal_size, NULL::boolean
    AS two_phase WHERE false;
CREATE VIEW pg_catalog.pg_replication_origin AS SELECT NULL::bigint AS roident, NULL::text AS roname WHERE false;
CREATE VIEW pg_catalog.pg_replication_origin_status AS SELECT NULL::bigint AS local_id, NULL::text AS external_id, NULL::text AS remote_lsn,
    NULL::text AS local_lsn WHERE false;
CREATE VIEW pg_catalog.pg_user_mappings AS SELECT NULL::bigint AS umid, NULL::bigint AS srvid, NULL::text AS srvname, NULL::bigint AS umuser,
    NULL::text AS usename, NULL::text[] AS umoptions WHERE false;
CREATE VIEW pg_catalog.pg_shdepend AS SELECT NULL::bigint AS dbid, NULL::bigint AS classid, NULL::bigint AS objid, NULL::integer AS objsubid,
    NULL::bigint AS refclassid, NULL::bigint AS refobjid, NULL::text AS deptype WHERE false;
CREATE VIEW pg_catalog.pg_largeobject AS SELECT NULL::bigint AS loid, NULL::integer AS pageno, NULL::bytea AS data WHERE false;
CREATE VIEW pg_catalog.pg_parameter_acl AS SELECT NULL::bigint AS oid, NULL::text AS parname, NULL::text[] AS paracl WHERE false;
CREATE VIEW pg_catalog.pg_subscription_rel AS SELECT NULL::bigint AS srsubid, NULL::bigint AS srrelid, NULL::text AS srsubstate, NULL::text AS
    srsublsn WHERE false;
CREATE VIEW pg_catalog.pg_stat_user_functions AS SELECT NULL::bigint AS funcid, NULL::text AS schemaname, NULL::text AS funcname, NULL::bigint AS
    calls, NULL::double precision AS total_time, NULL::double precision AS self_time WHERE false;
CREATE VIEW pg_catalog.pg_stat_xact_user_functions AS SELECT NULL::bigint AS funcid, NULL::text AS schemaname, NULL::text AS funcname, NULL::bigint AS
    calls, NULL::double precision AS total_time, NULL::double precision AS self_time WHERE false;
CREATE VIEW pg_catalog.pg_stat_replication AS SELECT NULL::integer AS pid, NULL::bigint AS usesysid, NULL::text AS usename, NULL::text AS
    application_name, NULL::text AS client_addr, NULL::text AS client_hostname, NULL::integer AS client_port, NULL::timestamptz AS backend_start,
    NULL::bigint AS backend_xmin, NULL::text AS state, NULL::text AS sent_lsn, NULL::text AS write_lsn, NULL::text AS flush_lsn, NULL::text AS
    replay_lsn, NULL::interval AS write_lag, NULL::interval AS flush_lag, NULL::interval AS replay_lag, NULL::integer AS sync_priority, NULL::text AS
    sync_state, NULL::timestamptz AS reply_time WHERE false;
CREATE VIEW pg_catalog.pg_stat_replication_slots AS SELECT NULL::text AS slot_name, NULL::bigint AS spill_txns, NULL::bigint AS spill_count,
    NULL::bigint AS spill_bytes, NULL::bigint AS stream_txns, NULL::bigint AS stream_count, NULL::bigint AS stream_bytes, NULL::bigint AS total_txns,
    NULL::bigint AS total_bytes, NULL::timestamptz AS stats_reset WHERE false;
CREATE VIEW pg_catalog.pg_stat_wal_receiver AS SELECT NULL::integer AS pid, NULL::text AS status, NULL::text AS receive_start_lsn, NULL::integer AS
    receive_start_tli, NULL::text AS written_lsn, NULL::text AS flushed_lsn, NULL::integer AS received_tli, NULL::timestamptz AS last_msg_send_time,
    NULL::timestamptz AS last_msg_receipt_time, NULL::text AS latest_end_lsn, NULL::timestamptz AS latest_end_time, NULL::text AS slot_name,
    NULL::text AS sender_host, NULL::integer AS sender_port, NULL::text AS conninfo WHERE false;
CREATE VIEW pg_catalog.pg_stat_subscription AS SELECT NULL::bigint AS subid, NULL::text AS subname, NULL::integer AS pid, NULL::bigint AS relid,
    NULL::text AS received_lsn, NULL::timestamptz AS last_msg_send_time, NULL::timestamptz AS last_msg_receipt_time, NULL::text AS latest_end_lsn,
    NULL::timestamptz AS latest_end_time WHERE false;
CREATE VIEW pg_catalog.pg_stat_subscription_stats AS SELECT NULL::bigint AS subid, NULL::text AS subname, NULL::bigint AS apply_error_count,
    NULL::bigint AS sync_error_count, NULL::timestamptz AS stats_reset WHERE false;
CREATE VIEW pg_catalog.pg_stat_progress_vacuum AS SELECT NULL::integer AS pid, NULL::bigint AS datid, NULL::text AS datname, NULL::bigint AS relid,
    NULL::text AS phase, NULL::bigint AS heap_blks_total, NULL::bigint AS heap_blks_scanned, NULL::bigint AS heap_blks_vacuumed, NULL::bigint AS
    index_vacuum_count, NULL::bigint AS max_dead_tuples, NULL::bigint AS num_dead_tuples WHERE false;
CREATE VIEW pg_catalog.pg_stat_progress_create_index AS SELECT NULL::integer AS pid, NULL::bigint AS datid, NULL::text AS datname, NULL::bigint AS
    relid, NULL::bigint AS index_relid, NULL::text AS command, NULL::text AS phase, NULL::bigint AS lockers_total, NULL::bigint AS lockers_done,
    NULL::bigint AS current_locker_pid, NULL::bigint AS blocks_total, NULL::bigint AS blocks_done, NULL::bigint AS tuples_total, NULL::bigint AS
    tuples_done, NULL::bigint AS partitions_total, NULL::bigint AS partitions_done WHERE false;
CREATE VIEW pg_catalog.pg_stat_progress_analyze AS SELECT NULL::integer AS pid, NULL::bigint AS datid, NULL::text AS datname, NULL::bigint AS relid,
    NULL::text AS phase, NULL::bigint AS sample_blks_total, NULL::bigint AS sample_blks_scanned, NULL::bigint AS ext_stats_total, NULL::bigint AS
    ext_stats_computed, NULL::bigint AS child_tables_total, NULL::bigint AS child_tables_done, NULL::bigint AS current_child_table_relid WHERE false;
CREATE VIEW pg_catalog.pg_stat_progress_cluster AS SELECT NULL::integer AS pid, NULL::bigint AS datid, NULL::text AS datname, NULL::bigint AS relid,
    NULL::text AS command, NULL::text AS phase, NULL::bigint AS cluster_index_relid, NULL::bigint AS heap_tuples_scanned, NULL::bigint AS
    heap_tuples_written, NULL::bigint AS heap_blks_total, NULL::bigint AS heap_blks_scanned, NULL::bigint AS index_rebuild_count WHERE false;
CREATE VIEW pg_catalog.pg_stat_progress_copy AS SELECT NULL::integer AS pid, NULL::bigint AS datid, NULL::text AS datname, NULL::bigint AS relid,
    NULL::text AS command, NULL::text AS type, NULL::bigint AS bytes_processed, NULL::bigint AS bytes_total, NULL::bigint AS tuples_processed,
    NULL::bigint AS tuples_excluded WHERE false;
CREATE VIEW pg_catalog.pg_stat_progress_basebackup AS SELECT NULL::integer AS pid, NULL::text AS phase, NULL::bigint AS backup_total, NULL::bigint AS
    backup_streamed, NULL::bigint AS tablespaces_total, NULL::bigint AS tablespaces_streamed WHERE false;
CREATE VIEW pg_catalog.pg_stats AS SELECT NULL::text AS schemaname, NULL::text AS tablename, NULL::text AS attname, NULL::boolean AS inherited,
    NULL::real AS null_frac, NULL::integer AS avg_width, NULL::real AS n_distinct, NULL::text AS most_common_vals, NULL::real[] AS most_common_freqs,
    NULL::text AS histogram_bounds, NULL::real AS correlation, NULL::text AS most_common_elems, NULL::real[] AS most_common_elem_freqs, NULL::real[]
    AS elem_count_histogram WHERE false;
CREATE VIEW pg_catalog.pg_stats_ext AS SELECT NULL::text AS schemaname, NULL::text AS tablename, NULL::text AS statistics_schemaname, NULL::text AS
    statistics_name, NULL::text AS statistics_owner, NULL::text[] AS attnames, NULL::text[] AS exprs, NULL::text[] AS kinds, NULL::boolean AS
    inherited, NULL::text AS n_distinct, NULL::text AS dependencies, NULL::text[] AS most_common_vals, NULL::boolean[] AS most_common_val_nulls,
    NULL::double precision[] AS most_common_freqs, NULL::double precision[] AS most_common_base_freqs WHERE false;
CREATE VIEW pg_catalog.pg_stats_ext_exprs AS SELECT NULL::text AS schemaname, NULL::text AS tablename, NULL::text AS statistics_schemaname, NULL::text
    AS statistics_name, NULL::text AS statistics_owner, NULL::text AS expr, NULL::boolean AS inherited, NULL::real AS null_frac, NULL::integer AS
    avg_width, NULL::real AS n_distinct, NULL::text AS most_common_vals, NULL::real[] AS most_common_freqs, NULL::text AS histogram_bounds, NULL::real
    AS correlation, NULL::text AS most_common_elems, NULL::real[] AS most_common_elem_freqs, NULL::real[] AS elem_count_histogram WHERE false;
CREATE VIEW pg_catalog.pg_statistic AS SELECT NULL::bigint AS starelid, NULL::smallint AS staattnum, NULL::boolean AS stainherit, NULL::real AS
    stanullfrac, NULL::integer AS stawidth, NULL::real AS stadistinct, NULL::smallint AS stakind1, NULL::smallint AS stakind2, NULL::smallint AS
    stakind3, NULL::smallint AS stakind4, NULL::smallint AS stakind5, NULL::bigint AS staop1, NULL::bigint AS staop2, NULL::bigint AS staop3,
    NULL::bigint AS staop4, NULL::bigint AS staop5, NULL::bigint AS stacoll1, NULL::bigint AS stacoll2, NULL::bigint AS stacoll3, NULL::bigint AS
    stacoll4, NULL::bigint AS stacoll5, NULL::real[] AS stanumbers1, NULL::real[] AS stanumbers2, NULL::real[] AS stanumbers3, NULL::real[] AS
    stanumbers4, NULL::real[] AS stanumbers5, NULL::text AS stavalues1, NULL::text AS stavalues2, NULL::text AS stavalues3, NULL::text AS stavalues4,
    NULL::text AS stavalues5 WHERE false;
CREATE VIEW pg_catalog.pg_statistic_ext_data AS SELECT NULL::bigint AS stxoid, NULL::boolean AS stxdinherit, NULL::text AS stxdndistinct, NULL::text
    AS stxddependencies, NULL::text AS stxdmcv, NULL::text[] AS stxdexpr WHERE false;
CREATE VIEW pg_catalog.pg_ts_config_map AS SELECT NULL::bigint AS mapcfg, NULL::integer AS maptokentype, NULL::integer AS mapseqno, NULL::bigint AS
    mapdict WHERE false;
CREATE VIEW pg_catalog.pg_hba_file_rules AS SELECT NULL::integer AS line_number, NULL::text AS type, NULL::text[] AS database, NULL::text[] AS
    user_name, NULL::text AS address, NULL::text AS netmask, NULL::text AS auth_method, NULL::text[] AS options, NULL::text AS error WHERE false;
CREATE VIEW pg_catalog.pg_ident_file_mappings AS SELECT NULL::integer AS line_number, NULL::text AS map_name, NULL::text AS sys_name, NULL::text AS
    pg_username, NULL::text AS error WHERE false;
CREATE VIEW pg_catalog.pg_file_settings AS SELECT NULL::text AS sourcefile, NULL::integer AS sourceline, NULL::integer AS seqno, NULL::text AS name,
    NULL::text AS setting, NULL::boolean AS applied, NULL::text AS error WHERE false;
CREATE VIEW pg_catalog.pg_rules AS SELECT n.nspname AS schemaname, c.relname AS tablename, r.rulename AS rulename, pg_get_ruledef(r.oid) AS definition
    FROM pg_catalog.pg_rewrite r JOIN pg_catalog.pg_class c ON c.oid = r.ev_class JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE
    r.rulename <> '_RETURN';
CREATE VIEW pg_catalog.pg_shadow AS SELECT u.usename AS usename, u.usesysid AS usesysid, u.usecreatedb AS usecreatedb, u.usesuper AS usesuper,
    u.userepl AS userepl, u.usebypassrls AS usebypassrls, NULL::text AS passwd, NULL::timestamptz AS valuntil, NULL::text[] AS useconfig FROM
    pg_catalog.pg_user u;
CREATE VIEW pg_catalog.pg_available_extensions AS SELECT a.name AS name, a.version AS default_version, e.extversion AS installed_version, a.comment AS
    comment FROM (VALUES ('plpgsql', '1.0', 'PL/pgSQL procedural language'), ('pgcrypto', '1.3', 'cryptographic functions'), ('uuid-ossp', '1.1',
    'generate universally unique identifiers (UUIDs)')) AS a(name, version, comment) LEFT JOIN pg_catalog.pg_extension e ON e.extname = a.name;
CREATE VIEW pg_catalog.pg_timezone_names AS SELECT 'UTC'::text AS name, 'UTC'::text AS abbrev, interval '0' AS utc_offset, false AS is_dst ;
CREATE VIEW information_schema.information_schema_catalog_name AS SELECT current_database() AS catalog_name ;
CREATE VIEW information_schema.enabled_roles AS SELECT r.rolname AS role_name FROM pg_catalog.pg_roles r;
CREATE VIEW information_schema.foreign_tables AS SELECT NULL::text AS foreign_table_catalog, NULL::text AS foreign_table_schema, NULL::text AS
    foreign_table_name, NULL::text AS foreign_server_catalog, NULL::text AS foreign_server_name WHERE false;
CREATE VIEW information_schema.foreign_servers AS SELECT NULL::text AS foreign_server_catalog, NULL::text AS foreign_server_name, NULL::text AS
    foreign_data_wrapper_catalog, NULL::text AS foreign_data_wrapper_name, NULL::text AS foreign_server_type, NULL::text AS foreign_server_version,
    NULL::text AS authorization_identifier WHERE false;
CREATE VIEW information_schema.foreign_data_wrappers AS SELECT NULL::text AS foreign_data_wrapper_catalog, NULL::text AS foreign_data_wrapper_name,
    NULL::text AS authorization_identifier, NULL::text AS library_name, NULL::text AS foreign_data_wrapper_language WHERE false;
CREATE VIEW information_schema.foreign_table_options AS SELECT NULL::text AS foreign_table_catalog, NULL::text AS foreign_table_schema, NULL::text AS
    foreign_table_name, NULL::text AS option_name, NULL::text AS option_value WHERE false;
CREATE VIEW information_schema.foreign_server_options AS SELECT NULL::text AS foreign_server_catalog, NULL::text AS foreign_server_name, NULL::text AS
    option_name, NULL::text AS option_value WHERE false;
CREATE VIEW information_schema.foreign_data_wrapper_options AS SELECT NULL::text AS foreign_data_wrapper_catalog, NULL::text AS
    foreign_data_wrapper_name, NULL::text AS option_name, NULL::text AS option_value WHERE false;
CREATE VIEW information_schema.user_mappings AS SELECT NULL::text AS authorization_identifier, NULL::text AS foreign_server_catalog, NULL::text AS
    foreign_server_name WHERE false;
CREATE VIEW information_schema.user_mapping_options AS SELECT NULL::text AS authorization_identifier, NULL::text AS foreign_server_catalog, NULL::text
    AS foreign_server_name, NULL::text AS option_name, NULL::text AS option_value WHERE false;
CREATE VIEW information_schema.column_options AS SELECT NULL::text AS table_catalog, NULL::text AS table_schema, NULL::text AS table_name, NULL::text
    AS column_name, NULL::text AS option_name, NULL::text AS option_value WHERE false;
CREATE VIEW information_schema.administrable_role_authorizations AS SELECT NULL::text AS grantee, NULL::text AS role_name, NULL::text AS is_grantable
    WHERE false;
CREATE VIEW information_schema.attributes AS SELECT NULL::text AS udt_catalog, NULL::text AS udt_schema, NULL::text AS udt_name, NULL::text AS
    attribute_name, NULL::integer AS ordinal_position, NULL::text AS attribute_default, NULL::text AS is_nullable, NULL::text AS data_type,
    NULL::integer AS character_maximum_length, NULL::integer AS character_octet_length, NULL::text AS character_set_catalog, NULL::text AS
    character_set_schema, NULL::text AS character_set_name, NULL::text AS collation_catalog, NULL::text AS collation_schema, NULL::text AS
    collation_name, NULL::integer AS numeric_precision, NULL::integer AS numeric_precision_radix, NULL::integer AS numeric_scale, NULL::integer AS
    datetime_precision, NULL::text AS interval_type, NULL::integer AS interval_precision, NULL::text AS attribute_udt_catalog, NULL::text AS
    attribute_udt_schema, NULL::text AS attribute_udt_name, NULL::text AS scope_catalog, NULL::text AS scope_schema, NULL::text AS scope_name,
    NULL::integer AS maximum_cardinality, NULL::text AS dtd_identifier, NULL::text AS is_derived_reference_attribute WHERE false;
CREATE VIEW information_schema.user_defined_types AS SELECT NULL::text AS user_defined_type_catalog, NULL::text AS user_defined_type_schema,
    NULL::text AS user_defined_type_name, NULL::text AS user_defined_type_category, NULL::text AS is_instantiable, NULL::text AS is_final, NULL::text
    AS ordering_form, NULL::text AS ordering_category, NULL::text AS ordering_routine_catalog, NULL::text AS ordering_routine_schema, NULL::text AS
    ordering_routine_name, NULL::text AS reference_type, NULL::text AS data_type, NULL::integer AS character_maximum_length, NULL::integer AS
    character_octet_length, NULL::text AS character_set_catalog, NULL::text AS character_set_schema, NULL::text AS character_set_name, NULL::text AS
    collation_catalog, NULL::text AS collation_schema, NULL::text AS collation_name, NULL::integer AS numeric_precision, NULL::integer AS
    numeric_precision_radix, NULL::integer AS numeric_scale, NULL::integer AS datetime_precision, NULL::text AS interval_type, NULL::integer AS
    interval_precision, NULL::text AS source_dtd_identifier, NULL::text AS ref_dtd_identifier WHERE false;
CREATE VIEW information_schema.transforms AS SELECT NULL::text AS udt_catalog, NULL::text AS udt_schema, NULL::text AS udt_name, NULL::text AS
    specific_catalog, NULL::text AS specific_schema, NULL::text AS specific_name, NULL::text AS group_name, NULL::text AS transform_type WHERE false;
CREATE VIEW information_schema.applicable_roles AS SELECT NULL::text AS grantee, NULL::text AS role_name, NULL::text AS is_grantable WHERE false;
CREATE VIEW information_schema.role_udt_grants AS SELECT NULL::text AS grantor, NULL::text AS grantee, NULL::text AS udt_catalog, NULL::text AS
    udt_schema, NULL::text AS udt_name, NULL::text AS privilege_type, NULL::text AS is_grantable WHERE false;
CREATE VIEW information_schema.udt_privileges AS SELECT NULL::text AS grantor, NULL::text AS grantee, NULL::text AS udt_catalog, NULL::text AS
    udt_schema, NULL::text AS udt_name, NULL::text AS privilege_type, NULL::text AS is_grantable WHERE false;
CREATE VIEW information_schema.table_privileges AS SELECT current_user AS grantor, current_user AS grantee, current_database() AS table_catalog,
    n.nspname AS table_schema, c.relname AS table_name, p.kind AS privilege_type, 'YES'::text AS is_grantable, CASE WHEN p.kind = 'SELECT' THEN 'YES'
    ELSE 'NO' END AS with_hierarchy FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace CROSS JOIN (VALUES ('INSERT'),
    ('SELECT'), ('UPDATE'), ('DELETE'), ('TRUNCATE'), ('REFERENCES'), ('TRIGGER')) AS p(kind) WHERE c.relkind IN ('r', 'v', 'p');
CREATE VIEW information_schema.role_table_grants AS SELECT current_user AS grantor, current_user AS grantee, current_database() AS table_catalog,
    n.nspname AS table_schema, c.relname AS table_name, p.kind AS privilege_type, 'YES'::text AS is_grantable, CASE WHEN p.kind = 'SELECT' THEN 'YES'
    ELSE 'NO' END AS with_hierarchy FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace CROSS JOIN (VALUES ('INSERT'),
    ('SELECT'), ('UPDATE'), ('DELETE'), ('TRUNCATE'), ('REFERENCES'), ('TRIGGER')) AS p(kind) WHERE c.relkind IN ('r', 'v', 'p');
CREATE VIEW information_schema.column_privileges AS SELECT current_user AS grantor, current_user AS grantee, current_database() AS table_catalog,
    n.nspname AS table_schema, c.relname AS table_name, a.attname AS column_name, p.kind AS privilege_type, 'YES'::text AS is_grantable FROM
    pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum >
    0 CROSS JOIN (VALUES ('INSERT'), ('SELECT'), ('UPDATE'), ('REFERENCES')) AS p(kind) WHERE c.relkind IN ('r', 'v', 'p');
CREATE VIEW information_schema.domains AS SELECT current_database() AS domain_catalog, n.nspname AS domain_schema, t.typname AS domain_name, CASE WHEN
    b.typelem <> 0 THEN 'ARRAY' WHEN b.typnamespace = 11 THEN format_type(t.typbasetype, NULL) ELSE 'USER-DEFINED' END AS data_type, CASE WHEN
    t.typbasetype IN (1042, 1043) AND t.typtypmod > 4 THEN t.typtypmod - 4 END AS character_maximum_length, CASE WHEN t.typbasetype IN (25, 1042,
    1043) THEN CASE WHEN t.typbasetype IN (1042, 1043) AND t.typtypmod > 4 THEN (t.typtypmod - 4) * 4 ELSE 1073741824 END END AS
    character_octet_length, NULL::text AS character_set_catalog, NULL::text AS character_set_schema, NULL::text AS character_set_name, NULL::text AS
    collation_catalog, NULL::text AS collation_schema, NULL::text AS collation_name, CASE t.typbasetype WHEN 21 THEN 16 WHEN 23 THEN 32 WHEN 20 THEN
    64 WHEN 700 THEN 24 WHEN 701 THEN 53 WHEN 1700 THEN CASE WHEN t.typtypmod > 4 THEN (t.typtypmod - 4) / 65536 END END AS numeric_precision, CASE
    WHEN t.typbasetype IN (21, 23, 20, 700, 701) THEN 2 WHEN t.typbasetype = 1700 THEN 10 END AS numeric_precision_radix, CASE WHEN t.typbasetype IN
    (21, 23, 20) THEN 0 WHEN t.typbasetype = 1700 AND t.typtypmod > 4 THEN (t.typtypmod - 4) % 65536 END AS numeric_scale, CASE WHEN t.typbasetype =
    1082 THEN 0 WHEN t.typbasetype IN (1114, 1184, 1186) THEN 6 END AS datetime_precision, NULL::text AS interval_type, NULL::integer AS
    interval_precision, t.typdefault AS domain_default, current_database() AS udt_catalog, bn.nspname AS udt_schema, b.typname AS udt_name, NULL::text
    AS scope_catalog, NULL::text AS scope_schema, NULL::text AS scope_name, NULL::integer AS maximum_cardinality, '1'::text AS dtd_identifier FROM
    pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace JOIN pg_catalog.pg_type b ON b.oid = t.typbasetype JOIN
    pg_catalog.pg_namespace bn ON bn.oid = b.typnamespace WHERE t.typtype = 'd';
CREATE VIEW information_schema.domain_constraints AS SELECT current_database() AS constraint_catalog, n.nspname AS constraint_schema, k.conname AS
    constraint_name, current_database() AS domain_catalog, n.nspname AS domain_schema, t.typname AS domain_name, 'NO'::text AS is_deferrable,
    'NO'::text AS initially_deferred FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_type t ON t.oid = k.contypid JOIN pg_catalog.pg_namespace n ON
    n.oid = t.typnamespace;
CREATE VIEW information_schema.column_domain_usage AS SELECT current_database() AS domain_catalog, tn.nspname AS domain_schema, t.typname AS
    domain_name, current_database() AS table_catalog, n.nspname AS table_schema, c.relname AS table_name, a.attname AS column_name FROM
    pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum >
    0 JOIN pg_catalog.pg_type t ON t.oid = a.atttypid JOIN pg_catalog.pg_namespace tn ON tn.oid = t.typnamespace WHERE t.typtype = 'd' AND c.relkind
    IN ('r', 'v', 'p');
CREATE VIEW information_schema.column_udt_usage AS SELECT current_database() AS udt_catalog, tn.nspname AS udt_schema, coalesce(b.typname, t.typname)
    AS udt_name, current_database() AS table_catalog, n.nspname AS table_schema, c.relname AS table_name, a.attname AS column_name FROM
    pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum >
    0 JOIN pg_catalog.pg_type t ON t.oid = a.atttypid LEFT JOIN pg_catalog.pg_type b ON t.typtype = 'd' AND b.oid = t.typbasetype JOIN
    pg_catalog.pg_namespace tn ON tn.oid = coalesce(b.typnamespace, t.typnamespace) WHERE c.relkind IN ('r', 'v', 'p');
CREATE VIEW information_schema.element_types AS SELECT current_database() AS object_catalog, n.nspname AS object_schema, c.relname AS object_name,
    CASE WHEN c.relkind = 'v' THEN 'VIEW' ELSE 'TABLE' END AS object_type, a.attnum::text AS collection_type_identifier, CASE WHEN e.typnamespace = 11
    THEN format_type(e.oid, NULL) ELSE 'USER-DEFINED' END AS data_type, NULL::integer AS character_maximum_length, NULL::integer AS
    character_octet_length, NULL::text AS character_set_catalog, NULL::text AS character_set_schema, NULL::text AS character_set_name, NULL::text AS
    collation_catalog, NULL::text AS collation_schema, NULL::text AS collation_name, NULL::integer AS numeric_precision, NULL::integer AS
    numeric_precision_radix, NULL::integer AS numeric_scale, NULL::integer AS datetime_precision, NULL::text AS interval_type, NULL::integer AS
    interval_precision, NULL::text AS domain_default, current_database() AS udt_catalog, en.nspname AS udt_schema, e.typname AS udt_name, NULL::text
    AS scope_catalog, NULL::text AS scope_schema, NULL::text AS scope_name, NULL::integer AS maximum_cardinality, 'a' || a.attnum::text AS
    dtd_identifier FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace JOIN pg_catalog.pg_attribute a ON a.attrelid =
    c.oid AND a.attnum > 0 JOIN pg_catalog.pg_type t ON t.oid = a.atttypid JOIN pg_catalog.pg_type e ON e.oid = t.typelem JOIN pg_catalog.pg_namespace
    en ON en.oid = e.typnamespace WHERE c.relkind IN ('r', 'v', 'p') AND t.typcategory = 'A';
CREATE VIEW information_schema.constraint_table_usage AS SELECT current_database() AS table_catalog, n.nspname AS table_schema, c.relname AS
    table_name, current_database() AS constraint_catalog, n.nspname AS constraint_schema, k.conname AS constraint_name FROM pg_catalog.pg_constraint k
    JOIN pg_catalog.pg_class c ON c.oid = CASE WHEN k.contype = 'f' THEN k.confrelid ELSE k.conrelid END JOIN pg_catalog.pg_namespace n ON n.oid =
    c.relnamespace WHERE k.contype IN ('f', 'p', 'u');
CREATE VIEW information_schema.view_table_usage AS SELECT current_database() AS view_catalog, vn.nspname AS view_schema, v.relname AS view_name,
    current_database() AS table_catalog, n.nspname AS table_schema, c.relname AS table_name FROM pg_catalog.pg_rewrite r JOIN pg_catalog.pg_class v ON
    v.oid = r.ev_class AND v.relkind = 'v' JOIN pg_catalog.pg_namespace vn ON vn.oid = v.relnamespace JOIN pg_catalog.pg_depend d ON d.objid = r.oid
    AND d.deptype = 'n' JOIN pg_catalog.pg_class c ON c.oid = d.refobjid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace;
CREATE VIEW information_schema.triggers AS SELECT current_database() AS trigger_catalog, n.nspname AS trigger_schema, t.tgname AS trigger_name, e.word
    AS event_manipulation, current_database() AS event_object_catalog, n.nspname AS event_object_schema, c.relname AS event_object_table,
    (row_number() OVER (PARTITION BY t.tgrelid, e.bit, t.tgtype & 1, t.tgtype & 66 ORDER BY t.tgname))::integer AS action_order,
    substring(pg_get_triggerdef(t.oid) FROM 'WHEN \((.*)\) EXECUTE') AS action_condition, substring(pg_get_triggerdef(t.oid) FROM 'EXECUTE .*$') AS
    action_statement, CASE WHEN t.tgtype & 1 = 1 THEN 'ROW' ELSE 'STATEMENT' END AS action_orientation, CASE t.tgtype & 66 WHEN 2 THEN 'BEFORE' WHEN
    64 THEN 'INSTEAD OF' ELSE 'AFTER' END AS action_timing, NULL::text AS action_reference_old_table, NULL::text AS action_reference_new_table,
    NULL::text AS action_reference_old_row, NULL::text AS action_reference_new_row, NULL::timestamptz AS created FROM pg_catalog.pg_trigger t JOIN
    pg_catalog.pg_class c ON c.oid = t.tgrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace JOIN (VALUES (4, 'INSERT'), (8, 'DELETE'),
    (16, 'UPDATE')) AS e(bit, word) ON t.tgtype & e.bit <> 0 WHERE NOT t.tgisinternal;
CREATE VIEW information_schema.parameters AS SELECT current_database() AS specific_catalog, n.nspname AS specific_schema, p.proname || '_' ||
    p.oid::text AS specific_name, x.place::integer AS ordinal_position, CASE coalesce(p.proargmodes[x.place::integer], 'i') WHEN 'i' THEN 'IN' WHEN
    'o' THEN 'OUT' WHEN 'b' THEN 'INOUT' WHEN 'v' THEN 'IN' WHEN 't' THEN 'OUT' END AS parameter_mode, 'NO'::text AS is_result, 'NO'::text AS
    as_locator, nullif(p.proargnames[x.place::integer], '') AS parameter_name, CASE WHEN t.typcategory = 'A' THEN 'ARRAY' WHEN t.typnamespace = 11
    THEN format_type(t.oid, NULL) ELSE 'USER-DEFINED' END AS data_type, NULL::integer AS character_maximum_length, NULL::integer AS
    character_octet_length, NULL::text AS character_set_catalog, NULL::text AS character_set_schema, NULL::text AS character_set_name, NULL::text AS
    collation_catalog, NULL::text AS collation_schema, NULL::text AS collation_name, NULL::integer AS numeric_precision, NULL::integer AS
    numeric_precision_radix, NULL::integer AS numeric_scale, NULL::integer AS datetime_precision, NULL::text AS interval_type, NULL::integer AS
    interval_precision, current_database() AS udt_catalog, tn.nspname AS udt_schema, t.typname AS udt_name, NULL::text AS scope_catalog, NULL::text AS
    scope_schema, NULL::text AS scope_name, NULL::integer AS maximum_cardinality, x.place::text AS dtd_identifier, NULL::text AS parameter_default
    FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace CROSS JOIN LATERAL unnest(coalesce(p.proallargtypes,
    p.proargtypes)) WITH ORDINALITY AS x(of, place) JOIN pg_catalog.pg_type t ON t.oid = x.of JOIN pg_catalog.pg_namespace tn ON tn.oid =
    t.typnamespace;
