-- The tables of pg_catalog (the schema is left away), as far as Weir has them. Numbers of objects (oid) are bigint; name, "char" and trees are text;
-- int2vector and oidvector are bigint[]. A column that a row does not give has its default.
CREATE TABLE pg_namespace (oid bigint PRIMARY KEY, nspname text NOT NULL, nspowner bigint NOT NULL DEFAULT 10, nspacl text[]);
CREATE TABLE pg_class (oid bigint PRIMARY KEY, relname text NOT NULL, relnamespace bigint NOT NULL DEFAULT 2200,
    reltype bigint NOT NULL DEFAULT 0, reloftype bigint NOT NULL DEFAULT 0, relowner bigint NOT NULL DEFAULT 10,
    relam bigint NOT NULL DEFAULT 0, relfilenode bigint NOT NULL DEFAULT 0, reltablespace bigint NOT NULL DEFAULT 0,
    relpages integer NOT NULL DEFAULT 0, reltuples real NOT NULL DEFAULT -1, relallvisible integer NOT NULL DEFAULT 0,
    reltoastrelid bigint NOT NULL DEFAULT 0, relhasindex boolean NOT NULL DEFAULT false, relisshared boolean NOT NULL DEFAULT false,
    relpersistence text NOT NULL DEFAULT 'p', relkind text NOT NULL DEFAULT 'r', relnatts smallint NOT NULL DEFAULT 0,
    relchecks smallint NOT NULL DEFAULT 0, relhasrules boolean NOT NULL DEFAULT false, relhastriggers boolean NOT NULL DEFAULT false,
    relhassubclass boolean NOT NULL DEFAULT false, relrowsecurity boolean NOT NULL DEFAULT false,
    relforcerowsecurity boolean NOT NULL DEFAULT false, relispopulated boolean NOT NULL DEFAULT true,
    relreplident text NOT NULL DEFAULT 'd', relispartition boolean NOT NULL DEFAULT false, relrewrite bigint NOT NULL DEFAULT 0,
    relfrozenxid bigint NOT NULL DEFAULT 0, relminmxid bigint NOT NULL DEFAULT 0, relacl text[], reloptions text[], relpartbound text);
CREATE INDEX pg_class_relname ON pg_class (relname);
CREATE TABLE pg_attribute (attrelid bigint NOT NULL, attname text NOT NULL, atttypid bigint NOT NULL DEFAULT 0,
    attstattarget integer NOT NULL DEFAULT -1, attlen smallint NOT NULL DEFAULT -1, attnum smallint NOT NULL, attndims integer NOT NULL DEFAULT 0,
    attcacheoff integer NOT NULL DEFAULT -1, atttypmod integer NOT NULL DEFAULT -1, attbyval boolean NOT NULL DEFAULT false,
    attalign text NOT NULL DEFAULT 'i', attstorage text NOT NULL DEFAULT 'p', attcompression text NOT NULL DEFAULT '',
    attnotnull boolean NOT NULL DEFAULT false, atthasdef boolean NOT NULL DEFAULT false, atthasmissing boolean NOT NULL DEFAULT false,
    attidentity text NOT NULL DEFAULT '', attgenerated text NOT NULL DEFAULT '', attisdropped boolean NOT NULL DEFAULT false,
    attislocal boolean NOT NULL DEFAULT true, attinhcount integer NOT NULL DEFAULT 0, attcollation bigint NOT NULL DEFAULT 0,
    attacl text[], attoptions text[], attfdwoptions text[], attmissingval text[], PRIMARY KEY (attrelid, attnum));
CREATE TABLE pg_type (oid bigint PRIMARY KEY, typname text NOT NULL, typnamespace bigint NOT NULL DEFAULT 11, typowner bigint NOT NULL DEFAULT 10,
    typlen smallint NOT NULL DEFAULT -1, typbyval boolean NOT NULL DEFAULT false, typtype text NOT NULL DEFAULT 'b', typcategory text NOT NULL DEFAULT 'U',
    typispreferred boolean NOT NULL DEFAULT false, typisdefined boolean NOT NULL DEFAULT true, typdelim text NOT NULL DEFAULT ',',
    typrelid bigint NOT NULL DEFAULT 0, typsubscript text NOT NULL DEFAULT '-', typelem bigint NOT NULL DEFAULT 0, typarray bigint NOT NULL DEFAULT 0,
    typinput text NOT NULL DEFAULT '-', typoutput text NOT NULL DEFAULT '-', typreceive text NOT NULL DEFAULT '-', typsend text NOT NULL DEFAULT '-',
    typmodin text NOT NULL DEFAULT '-', typmodout text NOT NULL DEFAULT '-', typanalyze text NOT NULL DEFAULT '-', typalign text NOT NULL DEFAULT 'i',
    typstorage text NOT NULL DEFAULT 'p', typnotnull boolean NOT NULL DEFAULT false, typbasetype bigint NOT NULL DEFAULT 0, typtypmod integer NOT NULL DEFAULT -1,
    typndims integer NOT NULL DEFAULT 0, typcollation bigint NOT NULL DEFAULT 0, typdefaultbin text, typdefault text, typacl text[]);
CREATE TABLE pg_index (indexrelid bigint PRIMARY KEY, indrelid bigint NOT NULL, indnatts smallint NOT NULL, indnkeyatts smallint NOT NULL,
    indisunique boolean NOT NULL DEFAULT false, indnullsnotdistinct boolean NOT NULL DEFAULT false, indisprimary boolean NOT NULL DEFAULT false,
    indisexclusion boolean NOT NULL DEFAULT false, indimmediate boolean NOT NULL DEFAULT true, indisclustered boolean NOT NULL DEFAULT false,
    indisvalid boolean NOT NULL DEFAULT true, indcheckxmin boolean NOT NULL DEFAULT false, indisready boolean NOT NULL DEFAULT true,
    indislive boolean NOT NULL DEFAULT true, indisreplident boolean NOT NULL DEFAULT false, indkey bigint[] NOT NULL,
    indcollation bigint[], indclass bigint[], indoption bigint[] NOT NULL, indexprs text, indpred text);
CREATE INDEX pg_index_indrelid ON pg_index (indrelid);
CREATE TABLE pg_constraint (oid bigint PRIMARY KEY, conname text NOT NULL, connamespace bigint NOT NULL DEFAULT 2200, contype text NOT NULL,
    condeferrable boolean NOT NULL DEFAULT false, condeferred boolean NOT NULL DEFAULT false, convalidated boolean NOT NULL DEFAULT true,
    conrelid bigint NOT NULL DEFAULT 0, contypid bigint NOT NULL DEFAULT 0, conindid bigint NOT NULL DEFAULT 0, conparentid bigint NOT NULL DEFAULT 0,
    confrelid bigint NOT NULL DEFAULT 0, confupdtype text NOT NULL DEFAULT ' ', confdeltype text NOT NULL DEFAULT ' ', confmatchtype text NOT NULL DEFAULT ' ',
    conislocal boolean NOT NULL DEFAULT true, coninhcount integer NOT NULL DEFAULT 0, connoinherit boolean NOT NULL DEFAULT false,
    conkey smallint[], confkey smallint[], conpfeqop bigint[], conppeqop bigint[], conffeqop bigint[], confdelsetcols smallint[], conexclop bigint[], conbin text);
CREATE INDEX pg_constraint_conrelid ON pg_constraint (conrelid);
CREATE TABLE pg_attrdef (oid bigint PRIMARY KEY, adrelid bigint NOT NULL, adnum smallint NOT NULL, adbin text NOT NULL, UNIQUE (adrelid, adnum));
CREATE TABLE pg_proc (oid bigint PRIMARY KEY, proname text NOT NULL, pronamespace bigint NOT NULL DEFAULT 2200, proowner bigint NOT NULL DEFAULT 10,
    prolang bigint NOT NULL DEFAULT 13, procost real NOT NULL DEFAULT 100, prorows real NOT NULL DEFAULT 0, provariadic bigint NOT NULL DEFAULT 0,
    prosupport text NOT NULL DEFAULT '-', prokind text NOT NULL DEFAULT 'f', prosecdef boolean NOT NULL DEFAULT false, proleakproof boolean NOT NULL DEFAULT false,
    proisstrict boolean NOT NULL DEFAULT false, proretset boolean NOT NULL DEFAULT false, provolatile text NOT NULL DEFAULT 'v', proparallel text NOT NULL DEFAULT 'u',
    pronargs smallint NOT NULL DEFAULT 0, pronargdefaults smallint NOT NULL DEFAULT 0, prorettype bigint NOT NULL DEFAULT 2278, proargtypes bigint[] NOT NULL,
    proallargtypes bigint[], proargmodes text[], proargnames text[], proargdefaults text, protrftypes bigint[], prosrc text NOT NULL DEFAULT '', probin text,
    prosqlbody text, proconfig text[], proacl text[]);
CREATE TABLE pg_am (oid bigint PRIMARY KEY, amname text NOT NULL, amhandler text NOT NULL DEFAULT '-', amtype text NOT NULL);
CREATE TABLE pg_description (objoid bigint NOT NULL, classoid bigint NOT NULL, objsubid integer NOT NULL, description text NOT NULL, PRIMARY KEY (objoid, classoid, objsubid));
CREATE TABLE pg_shdescription (objoid bigint NOT NULL, classoid bigint NOT NULL, description text NOT NULL, PRIMARY KEY (objoid, classoid));
CREATE TABLE pg_depend (classid bigint NOT NULL, objid bigint NOT NULL, objsubid integer NOT NULL DEFAULT 0, refclassid bigint NOT NULL,
    refobjid bigint NOT NULL, refobjsubid integer NOT NULL DEFAULT 0, deptype text NOT NULL);
CREATE INDEX pg_depend_objid ON pg_depend (objid);
CREATE TABLE pg_sequence (seqrelid bigint PRIMARY KEY, seqtypid bigint NOT NULL, seqstart bigint NOT NULL, seqincrement bigint NOT NULL,
    seqmax bigint NOT NULL, seqmin bigint NOT NULL, seqcache bigint NOT NULL DEFAULT 1, seqcycle boolean NOT NULL DEFAULT false);
CREATE TABLE pg_enum (oid bigint PRIMARY KEY, enumtypid bigint NOT NULL, enumsortorder real NOT NULL, enumlabel text NOT NULL);
CREATE TABLE pg_range (rngtypid bigint PRIMARY KEY, rngsubtype bigint NOT NULL, rngmultitypid bigint, rngcollation bigint, rngsubopc bigint, rngcanonical text, rngsubdiff text);
CREATE TABLE pg_collation (oid bigint PRIMARY KEY, collname text NOT NULL, collnamespace bigint NOT NULL DEFAULT 11, collowner bigint NOT NULL DEFAULT 10,
    collprovider text NOT NULL DEFAULT 'c', collisdeterministic boolean NOT NULL DEFAULT true, collencoding integer NOT NULL DEFAULT -1,
    collcollate text, collctype text, colliculocale text, collversion text);
CREATE TABLE pg_inherits (inhrelid bigint NOT NULL, inhparent bigint NOT NULL, inhseqno integer NOT NULL, inhdetachpending boolean NOT NULL DEFAULT false);
CREATE TABLE pg_partitioned_table (partrelid bigint PRIMARY KEY, partstrat text, partnatts smallint, partdefid bigint, partattrs smallint[], partclass bigint[], partcollation bigint[], partexprs text);
CREATE TABLE pg_trigger (oid bigint PRIMARY KEY, tgrelid bigint NOT NULL, tgparentid bigint NOT NULL DEFAULT 0, tgname text NOT NULL, tgfoid bigint NOT NULL DEFAULT 0,
    tgtype smallint NOT NULL DEFAULT 0, tgenabled text NOT NULL DEFAULT 'O', tgisinternal boolean NOT NULL DEFAULT false, tgconstrrelid bigint NOT NULL DEFAULT 0,
    tgconstrindid bigint NOT NULL DEFAULT 0, tgconstraint bigint NOT NULL DEFAULT 0, tgdeferrable boolean NOT NULL DEFAULT false, tginitdeferred boolean NOT NULL DEFAULT false,
    tgnargs smallint NOT NULL DEFAULT 0, tgattr smallint[], tgargs bytea, tgqual text, tgoldtable text, tgnewtable text);
CREATE TABLE pg_rewrite (oid bigint PRIMARY KEY, rulename text NOT NULL, ev_class bigint NOT NULL, ev_type text NOT NULL DEFAULT '1',
    ev_enabled text NOT NULL DEFAULT 'O', is_instead boolean NOT NULL DEFAULT true, ev_qual text, ev_action text);
CREATE TABLE pg_policy (oid bigint PRIMARY KEY, polname text, polrelid bigint, polcmd text, polpermissive boolean, polroles bigint[], polqual text, polwithcheck text);
CREATE TABLE pg_publication (oid bigint PRIMARY KEY, pubname text, pubowner bigint, puballtables boolean, pubinsert boolean, pubupdate boolean, pubdelete boolean, pubtruncate boolean, pubviaroot boolean);
CREATE TABLE pg_publication_rel (oid bigint PRIMARY KEY, prpubid bigint, prrelid bigint, prqual text, prattrs smallint[]);
CREATE TABLE pg_publication_namespace (oid bigint PRIMARY KEY, pnpubid bigint, pnnspid bigint);
CREATE TABLE pg_subscription (oid bigint PRIMARY KEY, subdbid bigint, subname text, subowner bigint, subenabled boolean, subbinary boolean, substream boolean,
    subtwophasestate text, subdisableonerr boolean, subconninfo text, subslotname text, subsynccommit text, subpublications text[]);
CREATE TABLE pg_statistic_ext (oid bigint PRIMARY KEY, stxrelid bigint, stxname text, stxnamespace bigint, stxowner bigint, stxstattarget integer, stxkeys smallint[], stxkind text[], stxexprs text);
CREATE TABLE pg_extension (oid bigint PRIMARY KEY, extname text, extowner bigint, extnamespace bigint, extrelocatable boolean, extversion text, extconfig bigint[], extcondition text[]);
CREATE TABLE pg_tablespace (oid bigint PRIMARY KEY, spcname text NOT NULL, spcowner bigint NOT NULL DEFAULT 10, spcacl text[], spcoptions text[]);
CREATE TABLE pg_language (oid bigint PRIMARY KEY, lanname text NOT NULL, lanowner bigint NOT NULL DEFAULT 10, lanispl boolean NOT NULL DEFAULT false,
    lanpltrusted boolean NOT NULL DEFAULT true, lanplcallfoid bigint NOT NULL DEFAULT 0, laninline bigint NOT NULL DEFAULT 0, lanvalidator bigint NOT NULL DEFAULT 0, lanacl text[]);
CREATE TABLE pg_auth_members (roleid bigint, member bigint, grantor bigint, admin_option boolean);
CREATE TABLE pg_foreign_table (ftrelid bigint PRIMARY KEY, ftserver bigint, ftoptions text[]);
CREATE TABLE pg_foreign_server (oid bigint PRIMARY KEY, srvname text, srvowner bigint, srvfdw bigint, srvtype text, srvversion text, srvacl text[], srvoptions text[]);
CREATE TABLE pg_foreign_data_wrapper (oid bigint PRIMARY KEY, fdwname text, fdwowner bigint, fdwhandler bigint, fdwvalidator bigint, fdwacl text[], fdwoptions text[]);
CREATE TABLE pg_event_trigger (oid bigint PRIMARY KEY, evtname text, evtevent text, evtowner bigint, evtfoid bigint, evtenabled text, evttags text[]);
CREATE TABLE pg_db_role_setting (setdatabase bigint, setrole bigint, setconfig text[]);
CREATE TABLE pg_init_privs (objoid bigint, classoid bigint, objsubid integer, privtype text, initprivs text[]);
CREATE TABLE pg_operator (oid bigint PRIMARY KEY, oprname text, oprnamespace bigint, oprowner bigint, oprkind text, oprcanmerge boolean, oprcanhash boolean,
    oprleft bigint, oprright bigint, oprresult bigint, oprcom bigint, oprnegate bigint, oprcode text, oprrest text, oprjoin text);
CREATE TABLE pg_opclass (oid bigint PRIMARY KEY, opcmethod bigint NOT NULL DEFAULT 403, opcname text, opcnamespace bigint NOT NULL DEFAULT 11,
    opcowner bigint NOT NULL DEFAULT 10, opcfamily bigint NOT NULL DEFAULT 0, opcintype bigint, opcdefault boolean NOT NULL DEFAULT true,
    opckeytype bigint NOT NULL DEFAULT 0);
CREATE TABLE pg_opfamily (oid bigint PRIMARY KEY, opfmethod bigint, opfname text, opfnamespace bigint, opfowner bigint);
CREATE TABLE pg_amop (oid bigint PRIMARY KEY, amopfamily bigint, amoplefttype bigint, amoprighttype bigint, amopstrategy smallint, amoppurpose text,
    amopopr bigint, amopmethod bigint, amopsortfamily bigint);
CREATE TABLE pg_amproc (oid bigint PRIMARY KEY, amprocfamily bigint, amproclefttype bigint, amprocrighttype bigint, amprocnum smallint, amproc text);
CREATE TABLE pg_cast (oid bigint PRIMARY KEY, castsource bigint, casttarget bigint, castfunc bigint, castcontext text, castmethod text);
CREATE TABLE pg_conversion (oid bigint PRIMARY KEY, conname text, connamespace bigint, conowner bigint, conforencoding integer, contoencoding integer,
    conproc text, condefault boolean);
CREATE TABLE pg_transform (oid bigint PRIMARY KEY, trftype bigint, trflang bigint, trffromsql bigint, trftosql bigint);
CREATE TABLE pg_ts_config (oid bigint PRIMARY KEY, cfgname text, cfgnamespace bigint, cfgowner bigint, cfgparser bigint);
CREATE TABLE pg_ts_dict (oid bigint PRIMARY KEY, dictname text, dictnamespace bigint, dictowner bigint, dicttemplate bigint, dictinitoption text);
CREATE TABLE pg_ts_parser (oid bigint PRIMARY KEY, prsname text, prsnamespace bigint, prsstart text, prstoken text, prsend text, prsheadline text,
    prslextype text);
CREATE TABLE pg_ts_template (oid bigint PRIMARY KEY, tmplname text, tmplnamespace bigint, tmplinit text, tmpllexize text);
CREATE TABLE pg_default_acl (oid bigint PRIMARY KEY, defaclrole bigint, defaclnamespace bigint, defaclobjtype text, defaclacl text[]);
CREATE TABLE pg_seclabel (objoid bigint, classoid bigint, objsubid integer, provider text, label text);
CREATE TABLE pg_shseclabel (objoid bigint, classoid bigint, provider text, label text);
CREATE TABLE pg_aggregate (aggfnoid text, aggkind text, aggnumdirectargs smallint, aggtransfn text, aggfinalfn text, aggcombinefn text, aggserialfn text,
    aggdeserialfn text, aggmtransfn text, aggminvtransfn text, aggmfinalfn text, aggfinalextra boolean, aggmfinalextra boolean, aggfinalmodify text,
    aggmfinalmodify text, aggsortop bigint, aggtranstype bigint, aggtransspace integer, aggmtranstype bigint, aggmtransspace integer, agginitval text,
    aggminitval text);
CREATE TABLE pg_largeobject_metadata (oid bigint PRIMARY KEY, lomowner bigint, lomacl text[]);
CREATE TABLE pg_user_mapping (oid bigint PRIMARY KEY, umuser bigint, umserver bigint, umoptions text[]);
-- Weir's own: what the functions pg_get_…def and format_type say of an object, or of the part of it of that number.
CREATE TABLE weir_definitions (oid bigint NOT NULL, part integer NOT NULL, plain text NOT NULL, pretty text NOT NULL, PRIMARY KEY (oid, part));
CREATE TABLE weir_type_names (oid bigint PRIMARY KEY, name text NOT NULL, suffix text NOT NULL, element bigint NOT NULL);
-- What a server does at the moment, and has done: whoever is asked fills these in when it is (VOLATILE).
CREATE TABLE pg_stat_activity (datid bigint DEFAULT 5, datname text, pid integer NOT NULL, leader_pid integer, usesysid bigint DEFAULT 10, usename text,
    application_name text, client_addr text, client_hostname text, client_port integer, backend_start timestamptz, xact_start timestamptz,
    query_start timestamptz, state_change timestamptz, wait_event_type text, wait_event text, state text, backend_xid bigint, backend_xmin bigint,
    query_id bigint, query text, backend_type text DEFAULT 'client backend');
CREATE TABLE pg_stat_statements (userid bigint DEFAULT 10, dbid bigint DEFAULT 5, toplevel boolean DEFAULT true, queryid bigint NOT NULL, query text NOT NULL,
    calls bigint NOT NULL, total_exec_time double precision NOT NULL, min_exec_time double precision NOT NULL, max_exec_time double precision NOT NULL,
    mean_exec_time double precision NOT NULL, rows bigint NOT NULL);
CREATE TABLE pg_stat_database (datid bigint DEFAULT 5, datname text, numbackends integer NOT NULL, xact_commit bigint NOT NULL, xact_rollback bigint NOT NULL,
    blks_read bigint DEFAULT 0, blks_hit bigint DEFAULT 0, tup_returned bigint NOT NULL, tup_fetched bigint NOT NULL, tup_inserted bigint NOT NULL,
    tup_updated bigint NOT NULL, tup_deleted bigint NOT NULL, conflicts bigint DEFAULT 0, temp_files bigint DEFAULT 0, temp_bytes bigint DEFAULT 0,
    deadlocks bigint NOT NULL, stats_reset timestamptz);
CREATE TABLE pg_locks (locktype text DEFAULT 'transactionid', database bigint DEFAULT 5, relation bigint, page integer, tuple smallint, virtualxid text,
    transactionid bigint, classid bigint, objid bigint, objsubid smallint, virtualtransaction text, pid integer, mode text NOT NULL,
    granted boolean NOT NULL, fastpath boolean DEFAULT false, waitstart timestamptz);
CREATE TABLE weir_sequence_values (seqrelid bigint NOT NULL, last_value bigint NOT NULL, is_called boolean NOT NULL);
CREATE TABLE weir_placement (relid bigint NOT NULL, columns text[], placed text NOT NULL);
