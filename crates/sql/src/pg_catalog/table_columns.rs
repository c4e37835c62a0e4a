//! The columns of PostgreSQL's system catalogs.
//!
//! Invariants: names, types, order and NOT NULL are those of PostgreSQL 15's pg_attribute; inet
//! and pg_lsn, which do not exist here, are text.

use crate::relations::{VirtualColumn, column as c, nullable as n};
use crate::types::TypeOid as T;

/// The columns of pg_aggregate.
#[rustfmt::skip]
pub(super) static PG_AGGREGATE: &[VirtualColumn] = &[
    c("aggfnoid", T::REGPROC), c("aggkind", T::CHAR), c("aggnumdirectargs", T::INT2),
    c("aggtransfn", T::REGPROC), c("aggfinalfn", T::REGPROC), c("aggcombinefn", T::REGPROC),
    c("aggserialfn", T::REGPROC), c("aggdeserialfn", T::REGPROC), c("aggmtransfn", T::REGPROC),
    c("aggminvtransfn", T::REGPROC), c("aggmfinalfn", T::REGPROC), c("aggfinalextra", T::BOOL),
    c("aggmfinalextra", T::BOOL), c("aggfinalmodify", T::CHAR), c("aggmfinalmodify", T::CHAR),
    c("aggsortop", T::OID), c("aggtranstype", T::OID), c("aggtransspace", T::INT4),
    c("aggmtranstype", T::OID), c("aggmtransspace", T::INT4), n("agginitval", T::TEXT),
    n("aggminitval", T::TEXT),
];

/// The columns of pg_am.
#[rustfmt::skip]
pub(super) static PG_AM: &[VirtualColumn] = &[
    c("oid", T::OID), c("amname", T::NAME), c("amhandler", T::REGPROC), c("amtype", T::CHAR),
];

/// The columns of pg_amop.
#[rustfmt::skip]
pub(super) static PG_AMOP: &[VirtualColumn] = &[
    c("oid", T::OID), c("amopfamily", T::OID), c("amoplefttype", T::OID),
    c("amoprighttype", T::OID), c("amopstrategy", T::INT2), c("amoppurpose", T::CHAR),
    c("amopopr", T::OID), c("amopmethod", T::OID), c("amopsortfamily", T::OID),
];

/// The columns of pg_amproc.
#[rustfmt::skip]
pub(super) static PG_AMPROC: &[VirtualColumn] = &[
    c("oid", T::OID), c("amprocfamily", T::OID), c("amproclefttype", T::OID),
    c("amprocrighttype", T::OID), c("amprocnum", T::INT2), c("amproc", T::REGPROC),
];

/// The columns of pg_attrdef.
#[rustfmt::skip]
pub(super) static PG_ATTRDEF: &[VirtualColumn] = &[
    c("oid", T::OID), c("adrelid", T::OID), c("adnum", T::INT2), c("adbin", T::PG_NODE_TREE),
];

/// The columns of pg_attribute.
#[rustfmt::skip]
pub(super) static PG_ATTRIBUTE: &[VirtualColumn] = &[
    c("attrelid", T::OID), c("attname", T::NAME), c("atttypid", T::OID),
    c("attstattarget", T::INT4), c("attlen", T::INT2), c("attnum", T::INT2), c("attndims", T::INT4),
    c("attcacheoff", T::INT4), c("atttypmod", T::INT4), c("attbyval", T::BOOL),
    c("attalign", T::CHAR), c("attstorage", T::CHAR), c("attcompression", T::CHAR),
    c("attnotnull", T::BOOL), c("atthasdef", T::BOOL), c("atthasmissing", T::BOOL),
    c("attidentity", T::CHAR), c("attgenerated", T::CHAR), c("attisdropped", T::BOOL),
    c("attislocal", T::BOOL), c("attinhcount", T::INT4), c("attcollation", T::OID),
    n("attacl", T::ACLITEM_ARRAY), n("attoptions", T::TEXT_ARRAY),
    n("attfdwoptions", T::TEXT_ARRAY), n("attmissingval", T::ANYARRAY),
];

/// The columns of pg_auth_members.
#[rustfmt::skip]
pub(super) static PG_AUTH_MEMBERS: &[VirtualColumn] = &[
    c("roleid", T::OID), c("member", T::OID), c("grantor", T::OID), c("admin_option", T::BOOL),
];

/// The columns of pg_authid.
#[rustfmt::skip]
pub(super) static PG_AUTHID: &[VirtualColumn] = &[
    c("oid", T::OID), c("rolname", T::NAME), c("rolsuper", T::BOOL), c("rolinherit", T::BOOL),
    c("rolcreaterole", T::BOOL), c("rolcreatedb", T::BOOL), c("rolcanlogin", T::BOOL),
    c("rolreplication", T::BOOL), c("rolbypassrls", T::BOOL), c("rolconnlimit", T::INT4),
    n("rolpassword", T::TEXT), n("rolvaliduntil", T::TIMESTAMPTZ),
];

/// The columns of pg_cast.
#[rustfmt::skip]
pub(super) static PG_CAST: &[VirtualColumn] = &[
    c("oid", T::OID), c("castsource", T::OID), c("casttarget", T::OID), c("castfunc", T::OID),
    c("castcontext", T::CHAR), c("castmethod", T::CHAR),
];

/// The columns of pg_class.
#[rustfmt::skip]
pub(super) static PG_CLASS: &[VirtualColumn] = &[
    c("oid", T::OID), c("relname", T::NAME), c("relnamespace", T::OID), c("reltype", T::OID),
    c("reloftype", T::OID), c("relowner", T::OID), c("relam", T::OID), c("relfilenode", T::OID),
    c("reltablespace", T::OID), c("relpages", T::INT4), c("reltuples", T::FLOAT4),
    c("relallvisible", T::INT4), c("reltoastrelid", T::OID), c("relhasindex", T::BOOL),
    c("relisshared", T::BOOL), c("relpersistence", T::CHAR), c("relkind", T::CHAR),
    c("relnatts", T::INT2), c("relchecks", T::INT2), c("relhasrules", T::BOOL),
    c("relhastriggers", T::BOOL), c("relhassubclass", T::BOOL), c("relrowsecurity", T::BOOL),
    c("relforcerowsecurity", T::BOOL), c("relispopulated", T::BOOL), c("relreplident", T::CHAR),
    c("relispartition", T::BOOL), c("relrewrite", T::OID), c("relfrozenxid", T::XID),
    c("relminmxid", T::XID), n("relacl", T::ACLITEM_ARRAY), n("reloptions", T::TEXT_ARRAY),
    n("relpartbound", T::PG_NODE_TREE),
];

/// The columns of pg_collation.
#[rustfmt::skip]
pub(super) static PG_COLLATION: &[VirtualColumn] = &[
    c("oid", T::OID), c("collname", T::NAME), c("collnamespace", T::OID), c("collowner", T::OID),
    c("collprovider", T::CHAR), c("collisdeterministic", T::BOOL), c("collencoding", T::INT4),
    n("collcollate", T::TEXT), n("collctype", T::TEXT), n("colliculocale", T::TEXT),
    n("collversion", T::TEXT),
];

/// The columns of pg_constraint.
#[rustfmt::skip]
pub(super) static PG_CONSTRAINT: &[VirtualColumn] = &[
    c("oid", T::OID), c("conname", T::NAME), c("connamespace", T::OID), c("contype", T::CHAR),
    c("condeferrable", T::BOOL), c("condeferred", T::BOOL), c("convalidated", T::BOOL),
    c("conrelid", T::OID), c("contypid", T::OID), c("conindid", T::OID), c("conparentid", T::OID),
    c("confrelid", T::OID), c("confupdtype", T::CHAR), c("confdeltype", T::CHAR),
    c("confmatchtype", T::CHAR), c("conislocal", T::BOOL), c("coninhcount", T::INT4),
    c("connoinherit", T::BOOL), n("conkey", T::INT2_ARRAY), n("confkey", T::INT2_ARRAY),
    n("conpfeqop", T::OID_ARRAY), n("conppeqop", T::OID_ARRAY), n("conffeqop", T::OID_ARRAY),
    n("confdelsetcols", T::INT2_ARRAY), n("conexclop", T::OID_ARRAY), n("conbin", T::PG_NODE_TREE),
];

/// The columns of pg_conversion.
#[rustfmt::skip]
pub(super) static PG_CONVERSION: &[VirtualColumn] = &[
    c("oid", T::OID), c("conname", T::NAME), c("connamespace", T::OID), c("conowner", T::OID),
    c("conforencoding", T::INT4), c("contoencoding", T::INT4), c("conproc", T::REGPROC),
    c("condefault", T::BOOL),
];

/// The columns of pg_database.
#[rustfmt::skip]
pub(super) static PG_DATABASE: &[VirtualColumn] = &[
    c("oid", T::OID), c("datname", T::NAME), c("datdba", T::OID), c("encoding", T::INT4),
    c("datlocprovider", T::CHAR), c("datistemplate", T::BOOL), c("datallowconn", T::BOOL),
    c("datconnlimit", T::INT4), c("datfrozenxid", T::XID), c("datminmxid", T::XID),
    c("dattablespace", T::OID), c("datcollate", T::TEXT), c("datctype", T::TEXT),
    n("daticulocale", T::TEXT), n("datcollversion", T::TEXT), n("datacl", T::ACLITEM_ARRAY),
];

/// The columns of pg_db_role_setting.
#[rustfmt::skip]
pub(super) static PG_DB_ROLE_SETTING: &[VirtualColumn] = &[
    c("setdatabase", T::OID), c("setrole", T::OID), n("setconfig", T::TEXT_ARRAY),
];

/// The columns of pg_default_acl.
#[rustfmt::skip]
pub(super) static PG_DEFAULT_ACL: &[VirtualColumn] = &[
    c("oid", T::OID), c("defaclrole", T::OID), c("defaclnamespace", T::OID),
    c("defaclobjtype", T::CHAR), c("defaclacl", T::ACLITEM_ARRAY),
];

/// The columns of pg_depend.
#[rustfmt::skip]
pub(super) static PG_DEPEND: &[VirtualColumn] = &[
    c("classid", T::OID), c("objid", T::OID), c("objsubid", T::INT4), c("refclassid", T::OID),
    c("refobjid", T::OID), c("refobjsubid", T::INT4), c("deptype", T::CHAR),
];

/// The columns of pg_description.
#[rustfmt::skip]
pub(super) static PG_DESCRIPTION: &[VirtualColumn] = &[
    c("objoid", T::OID), c("classoid", T::OID), c("objsubid", T::INT4), c("description", T::TEXT),
];

/// The columns of pg_enum.
#[rustfmt::skip]
pub(super) static PG_ENUM: &[VirtualColumn] = &[
    c("oid", T::OID), c("enumtypid", T::OID), c("enumsortorder", T::FLOAT4),
    c("enumlabel", T::NAME),
];

/// The columns of pg_event_trigger.
#[rustfmt::skip]
pub(super) static PG_EVENT_TRIGGER: &[VirtualColumn] = &[
    c("oid", T::OID), c("evtname", T::NAME), c("evtevent", T::NAME), c("evtowner", T::OID),
    c("evtfoid", T::OID), c("evtenabled", T::CHAR), n("evttags", T::TEXT_ARRAY),
];

/// The columns of pg_extension.
#[rustfmt::skip]
pub(super) static PG_EXTENSION: &[VirtualColumn] = &[
    c("oid", T::OID), c("extname", T::NAME), c("extowner", T::OID), c("extnamespace", T::OID),
    c("extrelocatable", T::BOOL), c("extversion", T::TEXT), n("extconfig", T::OID_ARRAY),
    n("extcondition", T::TEXT_ARRAY),
];

/// The columns of pg_foreign_data_wrapper.
#[rustfmt::skip]
pub(super) static PG_FOREIGN_DATA_WRAPPER: &[VirtualColumn] = &[
    c("oid", T::OID), c("fdwname", T::NAME), c("fdwowner", T::OID), c("fdwhandler", T::OID),
    c("fdwvalidator", T::OID), n("fdwacl", T::ACLITEM_ARRAY), n("fdwoptions", T::TEXT_ARRAY),
];

/// The columns of pg_foreign_server.
#[rustfmt::skip]
pub(super) static PG_FOREIGN_SERVER: &[VirtualColumn] = &[
    c("oid", T::OID), c("srvname", T::NAME), c("srvowner", T::OID), c("srvfdw", T::OID),
    n("srvtype", T::TEXT), n("srvversion", T::TEXT), n("srvacl", T::ACLITEM_ARRAY),
    n("srvoptions", T::TEXT_ARRAY),
];

/// The columns of pg_foreign_table.
#[rustfmt::skip]
pub(super) static PG_FOREIGN_TABLE: &[VirtualColumn] = &[
    c("ftrelid", T::OID), c("ftserver", T::OID), n("ftoptions", T::TEXT_ARRAY),
];

/// The columns of pg_index.
#[rustfmt::skip]
pub(super) static PG_INDEX: &[VirtualColumn] = &[
    c("indexrelid", T::OID), c("indrelid", T::OID), c("indnatts", T::INT2),
    c("indnkeyatts", T::INT2), c("indisunique", T::BOOL), c("indnullsnotdistinct", T::BOOL),
    c("indisprimary", T::BOOL), c("indisexclusion", T::BOOL), c("indimmediate", T::BOOL),
    c("indisclustered", T::BOOL), c("indisvalid", T::BOOL), c("indcheckxmin", T::BOOL),
    c("indisready", T::BOOL), c("indislive", T::BOOL), c("indisreplident", T::BOOL),
    c("indkey", T::INT2VECTOR), c("indcollation", T::OIDVECTOR), c("indclass", T::OIDVECTOR),
    c("indoption", T::INT2VECTOR), n("indexprs", T::PG_NODE_TREE), n("indpred", T::PG_NODE_TREE),
];

/// The columns of pg_inherits.
#[rustfmt::skip]
pub(super) static PG_INHERITS: &[VirtualColumn] = &[
    c("inhrelid", T::OID), c("inhparent", T::OID), c("inhseqno", T::INT4),
    c("inhdetachpending", T::BOOL),
];

/// The columns of pg_init_privs.
#[rustfmt::skip]
pub(super) static PG_INIT_PRIVS: &[VirtualColumn] = &[
    c("objoid", T::OID), c("classoid", T::OID), c("objsubid", T::INT4), c("privtype", T::CHAR),
    c("initprivs", T::ACLITEM_ARRAY),
];

/// The columns of pg_language.
#[rustfmt::skip]
pub(super) static PG_LANGUAGE: &[VirtualColumn] = &[
    c("oid", T::OID), c("lanname", T::NAME), c("lanowner", T::OID), c("lanispl", T::BOOL),
    c("lanpltrusted", T::BOOL), c("lanplcallfoid", T::OID), c("laninline", T::OID),
    c("lanvalidator", T::OID), n("lanacl", T::ACLITEM_ARRAY),
];

/// The columns of pg_largeobject.
#[rustfmt::skip]
pub(super) static PG_LARGEOBJECT: &[VirtualColumn] = &[
    c("loid", T::OID), c("pageno", T::INT4), c("data", T::BYTEA),
];

/// The columns of pg_largeobject_metadata.
#[rustfmt::skip]
pub(super) static PG_LARGEOBJECT_METADATA: &[VirtualColumn] = &[
    c("oid", T::OID), c("lomowner", T::OID), n("lomacl", T::ACLITEM_ARRAY),
];

/// The columns of pg_namespace.
#[rustfmt::skip]
pub(super) static PG_NAMESPACE: &[VirtualColumn] = &[
    c("oid", T::OID), c("nspname", T::NAME), c("nspowner", T::OID), n("nspacl", T::ACLITEM_ARRAY),
];

/// The columns of pg_opclass.
#[rustfmt::skip]
pub(super) static PG_OPCLASS: &[VirtualColumn] = &[
    c("oid", T::OID), c("opcmethod", T::OID), c("opcname", T::NAME), c("opcnamespace", T::OID),
    c("opcowner", T::OID), c("opcfamily", T::OID), c("opcintype", T::OID), c("opcdefault", T::BOOL),
    c("opckeytype", T::OID),
];

/// The columns of pg_operator.
#[rustfmt::skip]
pub(super) static PG_OPERATOR: &[VirtualColumn] = &[
    c("oid", T::OID), c("oprname", T::NAME), c("oprnamespace", T::OID), c("oprowner", T::OID),
    c("oprkind", T::CHAR), c("oprcanmerge", T::BOOL), c("oprcanhash", T::BOOL),
    c("oprleft", T::OID), c("oprright", T::OID), c("oprresult", T::OID), c("oprcom", T::OID),
    c("oprnegate", T::OID), c("oprcode", T::REGPROC), c("oprrest", T::REGPROC),
    c("oprjoin", T::REGPROC),
];

/// The columns of pg_opfamily.
#[rustfmt::skip]
pub(super) static PG_OPFAMILY: &[VirtualColumn] = &[
    c("oid", T::OID), c("opfmethod", T::OID), c("opfname", T::NAME), c("opfnamespace", T::OID),
    c("opfowner", T::OID),
];

/// The columns of pg_parameter_acl.
#[rustfmt::skip]
pub(super) static PG_PARAMETER_ACL: &[VirtualColumn] = &[
    c("oid", T::OID), c("parname", T::TEXT), n("paracl", T::ACLITEM_ARRAY),
];

/// The columns of pg_partitioned_table.
#[rustfmt::skip]
pub(super) static PG_PARTITIONED_TABLE: &[VirtualColumn] = &[
    c("partrelid", T::OID), c("partstrat", T::CHAR), c("partnatts", T::INT2),
    c("partdefid", T::OID), c("partattrs", T::INT2VECTOR), c("partclass", T::OIDVECTOR),
    c("partcollation", T::OIDVECTOR), n("partexprs", T::PG_NODE_TREE),
];

/// The columns of pg_policy.
#[rustfmt::skip]
pub(super) static PG_POLICY: &[VirtualColumn] = &[
    c("oid", T::OID), c("polname", T::NAME), c("polrelid", T::OID), c("polcmd", T::CHAR),
    c("polpermissive", T::BOOL), c("polroles", T::OID_ARRAY), n("polqual", T::PG_NODE_TREE),
    n("polwithcheck", T::PG_NODE_TREE),
];

/// The columns of pg_proc.
#[rustfmt::skip]
pub(super) static PG_PROC: &[VirtualColumn] = &[
    c("oid", T::OID), c("proname", T::NAME), c("pronamespace", T::OID), c("proowner", T::OID),
    c("prolang", T::OID), c("procost", T::FLOAT4), c("prorows", T::FLOAT4),
    c("provariadic", T::OID), c("prosupport", T::REGPROC), c("prokind", T::CHAR),
    c("prosecdef", T::BOOL), c("proleakproof", T::BOOL), c("proisstrict", T::BOOL),
    c("proretset", T::BOOL), c("provolatile", T::CHAR), c("proparallel", T::CHAR),
    c("pronargs", T::INT2), c("pronargdefaults", T::INT2), c("prorettype", T::OID),
    c("proargtypes", T::OIDVECTOR), n("proallargtypes", T::OID_ARRAY),
    n("proargmodes", T::CHAR_ARRAY), n("proargnames", T::TEXT_ARRAY),
    n("proargdefaults", T::PG_NODE_TREE), n("protrftypes", T::OID_ARRAY), c("prosrc", T::TEXT),
    n("probin", T::TEXT), n("prosqlbody", T::PG_NODE_TREE), n("proconfig", T::TEXT_ARRAY),
    n("proacl", T::ACLITEM_ARRAY),
];

/// The columns of pg_publication.
#[rustfmt::skip]
pub(super) static PG_PUBLICATION: &[VirtualColumn] = &[
    c("oid", T::OID), c("pubname", T::NAME), c("pubowner", T::OID), c("puballtables", T::BOOL),
    c("pubinsert", T::BOOL), c("pubupdate", T::BOOL), c("pubdelete", T::BOOL),
    c("pubtruncate", T::BOOL), c("pubviaroot", T::BOOL),
];

/// The columns of pg_publication_namespace.
#[rustfmt::skip]
pub(super) static PG_PUBLICATION_NAMESPACE: &[VirtualColumn] = &[
    c("oid", T::OID), c("pnpubid", T::OID), c("pnnspid", T::OID),
];

/// The columns of pg_publication_rel.
#[rustfmt::skip]
pub(super) static PG_PUBLICATION_REL: &[VirtualColumn] = &[
    c("oid", T::OID), c("prpubid", T::OID), c("prrelid", T::OID), n("prqual", T::PG_NODE_TREE),
    n("prattrs", T::INT2VECTOR),
];

/// The columns of pg_range.
#[rustfmt::skip]
pub(super) static PG_RANGE: &[VirtualColumn] = &[
    c("rngtypid", T::OID), c("rngsubtype", T::OID), c("rngmultitypid", T::OID),
    c("rngcollation", T::OID), c("rngsubopc", T::OID), c("rngcanonical", T::REGPROC),
    c("rngsubdiff", T::REGPROC),
];

/// The columns of pg_replication_origin.
#[rustfmt::skip]
pub(super) static PG_REPLICATION_ORIGIN: &[VirtualColumn] = &[
    c("roident", T::OID), c("roname", T::TEXT),
];

/// The columns of pg_rewrite.
#[rustfmt::skip]
pub(super) static PG_REWRITE: &[VirtualColumn] = &[
    c("oid", T::OID), c("rulename", T::NAME), c("ev_class", T::OID), c("ev_type", T::CHAR),
    c("ev_enabled", T::CHAR), c("is_instead", T::BOOL), c("ev_qual", T::PG_NODE_TREE),
    c("ev_action", T::PG_NODE_TREE),
];

/// The columns of pg_seclabel.
#[rustfmt::skip]
pub(super) static PG_SECLABEL: &[VirtualColumn] = &[
    c("objoid", T::OID), c("classoid", T::OID), c("objsubid", T::INT4), c("provider", T::TEXT),
    c("label", T::TEXT),
];

/// The columns of pg_sequence.
#[rustfmt::skip]
pub(super) static PG_SEQUENCE: &[VirtualColumn] = &[
    c("seqrelid", T::OID), c("seqtypid", T::OID), c("seqstart", T::INT8),
    c("seqincrement", T::INT8), c("seqmax", T::INT8), c("seqmin", T::INT8), c("seqcache", T::INT8),
    c("seqcycle", T::BOOL),
];

/// The columns of pg_shdepend.
#[rustfmt::skip]
pub(super) static PG_SHDEPEND: &[VirtualColumn] = &[
    c("dbid", T::OID), c("classid", T::OID), c("objid", T::OID), c("objsubid", T::INT4),
    c("refclassid", T::OID), c("refobjid", T::OID), c("deptype", T::CHAR),
];

/// The columns of pg_shdescription.
#[rustfmt::skip]
pub(super) static PG_SHDESCRIPTION: &[VirtualColumn] = &[
    c("objoid", T::OID), c("classoid", T::OID), c("description", T::TEXT),
];

/// The columns of pg_shseclabel.
#[rustfmt::skip]
pub(super) static PG_SHSECLABEL: &[VirtualColumn] = &[
    c("objoid", T::OID), c("classoid", T::OID), c("provider", T::TEXT), c("label", T::TEXT),
];

/// The columns of pg_statistic_ext.
#[rustfmt::skip]
pub(super) static PG_STATISTIC_EXT: &[VirtualColumn] = &[
    c("oid", T::OID), c("stxrelid", T::OID), c("stxname", T::NAME), c("stxnamespace", T::OID),
    c("stxowner", T::OID), c("stxstattarget", T::INT4), c("stxkeys", T::INT2VECTOR),
    c("stxkind", T::CHAR_ARRAY), n("stxexprs", T::PG_NODE_TREE),
];

/// The columns of pg_subscription.
#[rustfmt::skip]
pub(super) static PG_SUBSCRIPTION: &[VirtualColumn] = &[
    c("oid", T::OID), c("subdbid", T::OID), c("subskiplsn", T::TEXT), c("subname", T::NAME),
    c("subowner", T::OID), c("subenabled", T::BOOL), c("subbinary", T::BOOL),
    c("substream", T::BOOL), c("subtwophasestate", T::CHAR), c("subdisableonerr", T::BOOL),
    c("subconninfo", T::TEXT), n("subslotname", T::NAME), c("subsynccommit", T::TEXT),
    c("subpublications", T::TEXT_ARRAY),
];

/// The columns of pg_subscription_rel.
#[rustfmt::skip]
pub(super) static PG_SUBSCRIPTION_REL: &[VirtualColumn] = &[
    c("srsubid", T::OID), c("srrelid", T::OID), c("srsubstate", T::CHAR), n("srsublsn", T::TEXT),
];

/// The columns of pg_tablespace.
#[rustfmt::skip]
pub(super) static PG_TABLESPACE: &[VirtualColumn] = &[
    c("oid", T::OID), c("spcname", T::NAME), c("spcowner", T::OID), n("spcacl", T::ACLITEM_ARRAY),
    n("spcoptions", T::TEXT_ARRAY),
];

/// The columns of pg_transform.
#[rustfmt::skip]
pub(super) static PG_TRANSFORM: &[VirtualColumn] = &[
    c("oid", T::OID), c("trftype", T::OID), c("trflang", T::OID), c("trffromsql", T::REGPROC),
    c("trftosql", T::REGPROC),
];

/// The columns of pg_trigger.
#[rustfmt::skip]
pub(super) static PG_TRIGGER: &[VirtualColumn] = &[
    c("oid", T::OID), c("tgrelid", T::OID), c("tgparentid", T::OID), c("tgname", T::NAME),
    c("tgfoid", T::OID), c("tgtype", T::INT2), c("tgenabled", T::CHAR), c("tgisinternal", T::BOOL),
    c("tgconstrrelid", T::OID), c("tgconstrindid", T::OID), c("tgconstraint", T::OID),
    c("tgdeferrable", T::BOOL), c("tginitdeferred", T::BOOL), c("tgnargs", T::INT2),
    c("tgattr", T::INT2VECTOR), c("tgargs", T::BYTEA), n("tgqual", T::PG_NODE_TREE),
    n("tgoldtable", T::NAME), n("tgnewtable", T::NAME),
];

/// The columns of pg_ts_config.
#[rustfmt::skip]
pub(super) static PG_TS_CONFIG: &[VirtualColumn] = &[
    c("oid", T::OID), c("cfgname", T::NAME), c("cfgnamespace", T::OID), c("cfgowner", T::OID),
    c("cfgparser", T::OID),
];

/// The columns of pg_ts_config_map.
#[rustfmt::skip]
pub(super) static PG_TS_CONFIG_MAP: &[VirtualColumn] = &[
    c("mapcfg", T::OID), c("maptokentype", T::INT4), c("mapseqno", T::INT4), c("mapdict", T::OID),
];

/// The columns of pg_ts_dict.
#[rustfmt::skip]
pub(super) static PG_TS_DICT: &[VirtualColumn] = &[
    c("oid", T::OID), c("dictname", T::NAME), c("dictnamespace", T::OID), c("dictowner", T::OID),
    c("dicttemplate", T::OID), n("dictinitoption", T::TEXT),
];

/// The columns of pg_ts_parser.
#[rustfmt::skip]
pub(super) static PG_TS_PARSER: &[VirtualColumn] = &[
    c("oid", T::OID), c("prsname", T::NAME), c("prsnamespace", T::OID), c("prsstart", T::REGPROC),
    c("prstoken", T::REGPROC), c("prsend", T::REGPROC), c("prsheadline", T::REGPROC),
    c("prslextype", T::REGPROC),
];

/// The columns of pg_ts_template.
#[rustfmt::skip]
pub(super) static PG_TS_TEMPLATE: &[VirtualColumn] = &[
    c("oid", T::OID), c("tmplname", T::NAME), c("tmplnamespace", T::OID), c("tmplinit", T::REGPROC),
    c("tmpllexize", T::REGPROC),
];

/// The columns of pg_type.
#[rustfmt::skip]
pub(super) static PG_TYPE: &[VirtualColumn] = &[
    c("oid", T::OID), c("typname", T::NAME), c("typnamespace", T::OID), c("typowner", T::OID),
    c("typlen", T::INT2), c("typbyval", T::BOOL), c("typtype", T::CHAR), c("typcategory", T::CHAR),
    c("typispreferred", T::BOOL), c("typisdefined", T::BOOL), c("typdelim", T::CHAR),
    c("typrelid", T::OID), c("typsubscript", T::REGPROC), c("typelem", T::OID),
    c("typarray", T::OID), c("typinput", T::REGPROC), c("typoutput", T::REGPROC),
    c("typreceive", T::REGPROC), c("typsend", T::REGPROC), c("typmodin", T::REGPROC),
    c("typmodout", T::REGPROC), c("typanalyze", T::REGPROC), c("typalign", T::CHAR),
    c("typstorage", T::CHAR), c("typnotnull", T::BOOL), c("typbasetype", T::OID),
    c("typtypmod", T::INT4), c("typndims", T::INT4), c("typcollation", T::OID),
    n("typdefaultbin", T::PG_NODE_TREE), n("typdefault", T::TEXT), n("typacl", T::ACLITEM_ARRAY),
];

/// The columns of pg_user_mapping.
#[rustfmt::skip]
pub(super) static PG_USER_MAPPING: &[VirtualColumn] = &[
    c("oid", T::OID), c("umuser", T::OID), c("umserver", T::OID), n("umoptions", T::TEXT_ARRAY),
];
