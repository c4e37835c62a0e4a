//! Every relation's rows against its own columns, and what they say of a small schema.

use super::{constraint_definition, index_definition, relations};
use crate::functions::{ConstantContext, Qualified};
use crate::relations::{CatalogView, Registry, VirtualRelation};
use crate::types::{Datum, TypeOid, text};
use atoll_kernel::api::{
    Access, ColumnDef, ColumnType, Context, Database, Direction, IndexColumn, IndexKind, Isolation,
    NewIndex, NewTable, Nulls, Options, PUBLIC_NAMESPACE, Session, Target,
};
use std::collections::HashSet;
use std::sync::Arc;

fn column(name: &str, physical: ColumnType, type_oid: TypeOid, type_modifier: i32) -> ColumnDef {
    let plain = ColumnDef::plain(name, physical);
    ColumnDef { type_oid: type_oid.0, type_modifier, ..plain }
}

/// `t (id int primary key, a varchar(10) not null default 'x', "B" numeric(10,2), unique (a))`
/// with `create index ti on t ("B" desc, a nulls first)`.
fn define(context: &Context) -> atoll_kernel::api::Result<()> {
    let mut session = Session::new(context.instance());
    let mut transaction = session.begin(context, Isolation::ReadCommitted, Access::ReadWrite)?;
    let mut statement = transaction.statement(&mut session, context)?;
    let mut id = column("id", ColumnType::Int4, TypeOid::INT4, -1);
    id.not_null = true;
    let mut a = column("a", ColumnType::Bytes, TypeOid::VARCHAR, 14);
    a.not_null = true;
    a.default = Some("'x'::character varying".to_owned());
    let b = column("B", ColumnType::Ordered { trailer: 2 }, TypeOid::NUMERIC, (10 << 16 | 2) + 4);
    let table = statement.create_table(NewTable {
        namespace: PUBLIC_NAMESPACE,
        name: "t".to_owned(),
        columns: vec![id, a, b],
        options: vec!["fillfactor=70".to_owned()],
    })?;
    let key = |column: u16, direction, nulls| IndexColumn {
        column: atoll_kernel::api::ColumnId(column),
        direction,
        nulls,
    };
    let up = |column| key(column, Direction::Ascending, Nulls::Last);
    let mut index = |name: &str, columns, kind| {
        statement.create_index(NewIndex { table, name: name.to_owned(), columns, kind })
    };
    index("t_pkey", vec![up(0)], IndexKind::Primary)?;
    index("t_a_key", vec![up(1)], IndexKind::UniqueConstraint)?;
    let first = key(1, Direction::Ascending, Nulls::First);
    index("ti", vec![key(2, Direction::Descending, Nulls::First), first], IndexKind::Plain)?;
    drop(statement);
    transaction.commit(&mut session, context).map(drop)
}

pub(super) fn view() -> CatalogView {
    let database = Database::open_in_memory(Options::default()).expect("in memory");
    database.run(Target::Any, define).expect("no panic").expect("the schema is made");
    let catalog = database.catalog();
    database.close().expect("closed");
    let path = Arc::new([Arc::from("public")]);
    CatalogView {
        catalog,
        registry: Arc::new(Registry::standard()),
        path,
        statistics: Arc::default(),
    }
}

fn relation(name: &str) -> &'static dyn VirtualRelation {
    relations().find(|relation| relation.name() == name).expect("a relation of that name")
}

fn show(value: &Datum, ty: TypeOid) -> String {
    match value {
        Datum::Null => "NULL".to_owned(),
        value => text::output_string(ty, value, &ConstantContext).to_string(),
    }
}

/// The columns named in `columns` of the rows where column `by` prints as `is`.
#[track_caller]
fn check(view: &CatalogView, name: &str, by: &str, is: &str, columns: &str, expect: &[&str]) {
    let relation = relation(name);
    let at = |column: &str| {
        let found = relation.columns().iter().position(|it| it.name == column);
        found.unwrap_or_else(|| panic!("{name} has no column {column}"))
    };
    let rows = relation.rows(view).map(|row| row.expect("computed"));
    let print = |row: &[Datum], column: usize| show(&row[column], relation.columns()[column].ty);
    let found: Vec<String> = rows
        .filter(|row| print(row, at(by)) == is)
        .map(|row| {
            let cells = columns.split_whitespace().map(|column| print(&row, at(column)));
            cells.collect::<Vec<_>>().join(" | ")
        })
        .collect();
    assert_eq!(found, expect, "{name} where {by} = {is}");
}

fn fits(value: &Datum, ty: TypeOid) -> bool {
    match value {
        Datum::Null => true,
        Datum::Bool(_) => ty == TypeOid::BOOL,
        Datum::Char(_) => ty == TypeOid::CHAR,
        Datum::Int2(_) => ty == TypeOid::INT2,
        Datum::Int4(_) => ty == TypeOid::INT4,
        Datum::Int8(_) => ty == TypeOid::INT8,
        Datum::Float4(_) => ty == TypeOid::FLOAT4,
        Datum::Oid(_) => matches!(ty, TypeOid::OID | TypeOid::REGPROC | TypeOid::XID),
        Datum::Text(_) => {
            matches!(ty, TypeOid::NAME | TypeOid::TEXT | TypeOid::VARCHAR | TypeOid::PG_NODE_TREE)
        }
        Datum::Array(array) => ty.element_type() == Some(array.element),
        _ => false,
    }
}

#[test]
fn rows_fit_their_columns_and_look_ups_agree_with_scans() {
    let view = view();
    let (mut names, mut oids) = (HashSet::new(), HashSet::new());
    for relation in relations() {
        let name = relation.name();
        assert!(oids.insert(VirtualRelation::oid(relation)), "{name}'s oid is taken");
        assert!(names.insert((VirtualRelation::schema(relation), name)), "{name} is there twice");
        let columns = VirtualRelation::columns(relation);
        let print = |row: &[Datum]| -> Vec<String> {
            row.iter().zip(columns).map(|(value, column)| show(value, column.ty)).collect()
        };
        let rows: Vec<Vec<Datum>> =
            VirtualRelation::rows(relation, &view).map(|row| row.expect("computed")).collect();
        for row in &rows {
            assert_eq!(row.len(), columns.len(), "{name}");
            for (value, column) in row.iter().zip(columns) {
                let full = format!("{name}.{} = {value:?}", column.name);
                assert!(fits(value, column.ty), "{full} is no {}", column.ty);
                assert!(!(column.not_null && value.is_null()), "{full}");
            }
        }
        for &lookup in VirtualRelation::lookups(relation) {
            for row in rows.iter().step_by(7) {
                let value = &row[lookup];
                let wanted = format!("{value:?}");
                let same = |row: &Vec<Datum>| format!("{:?}", row[lookup]) == wanted;
                let found = relation.rows_where(&view, lookup, value).map(|row| row.expect("row"));
                let mut found: Vec<_> = found.filter(&same).map(|row| print(&row)).collect();
                let mut scanned: Vec<_> =
                    rows.iter().filter(|row| same(row)).map(|row| print(row)).collect();
                found.sort_unstable();
                scanned.sort_unstable();
                assert_eq!(found, scanned, "{name}.{}", columns[lookup].name);
            }
        }
    }
}

#[test]
fn tables_indexes_and_columns_are_described_as_in_postgresql() {
    let view = view();
    let class = "relnamespace relam relkind relnatts relhasindex relreplident reloptions";
    check(
        &view,
        "pg_class",
        "relname",
        "t",
        class,
        &["2200 | 2 | r | 3 | t | d | {fillfactor=70}"],
    );
    check(&view, "pg_class", "relname", "ti", class, &["2200 | 403 | i | 2 | f | n | NULL"]);
    check(&view, "pg_class", "oid", "1259", "relname relkind", &["pg_class | r"]);
    let attribute = "attnum atttypid atttypmod attlen attnotnull atthasdef attstorage attcollation";
    check(
        &view,
        "pg_attribute",
        "attname",
        "B",
        attribute,
        &["3 | 1700 | 655366 | -1 | f | f | m | 0", "1 | 1700 | 655366 | -1 | f | f | m | 0"],
    );
    check(&view, "pg_attrdef", "adnum", "2", "adbin", &["'x'::character varying"]);
    let index = "indkey indclass indoption indcollation indisunique";
    check(&view, "pg_index", "indisprimary", "t", index, &["1 | 1978 | 0 | 0 | t"]);
    check(&view, "pg_index", "indisunique", "f", index, &["3 2 | 3125 3126 | 3 2 | 0 100 | f"]);
    check(&view, "pg_constraint", "contype", "u", "conname conkey", &["t_a_key | {2}"]);
    check(&view, "pg_depend", "deptype", "n", "refclassid refobjid", &["2615 | 2200"]);
    check(&view, "pg_tables", "tablename", "t", "schemaname hasindexes", &["public | t"]);
    let indexes = ["CREATE INDEX ti ON public.t USING btree (\"B\" DESC, a NULLS FIRST)"];
    check(&view, "pg_indexes", "indexname", "ti", "indexdef", &indexes);
}

#[test]
fn the_standard_views_agree() {
    let view = view();
    let columns = "data_type character_maximum_length character_octet_length numeric_precision \
                   numeric_scale is_nullable udt_name column_default";
    check(
        &view,
        "columns",
        "column_name",
        "id",
        columns,
        &["integer | NULL | NULL | 32 | 0 | NO | int4 | NULL"],
    );
    check(
        &view,
        "columns",
        "column_name",
        "B",
        columns,
        &["numeric | NULL | NULL | 10 | 2 | YES | numeric | NULL"],
    );
    check(
        &view,
        "columns",
        "column_name",
        "a",
        columns,
        &["character varying | 10 | 40 | NULL | NULL | NO | varchar | 'x'::character varying"],
    );
    let rows = ["t_pkey | PRIMARY KEY", "t_a_key | UNIQUE"];
    let kinds = "constraint_name constraint_type";
    for row in rows {
        let name = row.split(' ').next().expect("a name");
        check(&view, "table_constraints", "constraint_name", name, kinds, &[row]);
    }
    check(&view, "key_column_usage", "constraint_name", "t_a_key", "column_name", &["a"]);
    check(
        &view,
        "tables",
        "table_name",
        "t",
        "table_type is_insertable_into",
        &["BASE TABLE | YES"],
    );
}

#[test]
fn definitions_are_postgresqls_text() {
    let view = view();
    let oid = |name: &str| match view.catalog.relation(PUBLIC_NAMESPACE, name) {
        Some(atoll_kernel::api::Relation::Index(index)) => index.def.oid.0,
        _ => panic!("{name} is no index"),
    };
    let define = |name: &str, column, form| index_definition(&view, oid(name), column, form);
    let text = |value: &str| Some(value.to_owned());
    let unique = "CREATE UNIQUE INDEX t_pkey ON t USING btree (id)";
    assert_eq!(define("t_pkey", 0, Qualified::IfNeeded), text(unique));
    assert_eq!(define("ti", 1, Qualified::Always), text("\"B\""));
    assert_eq!(define("ti", 2, Qualified::Always), text("a"));
    assert_eq!(define("ti", 3, Qualified::Always), text(""));
    assert_eq!(index_definition(&view, 1259, 0, Qualified::Always), None);
    assert_eq!(constraint_definition(&view, oid("t_pkey")), text("PRIMARY KEY (id)"));
    assert_eq!(constraint_definition(&view, oid("t_a_key")), text("UNIQUE (a)"));
    assert_eq!(constraint_definition(&view, oid("ti")), None);
}
