//! Conversion of CREATE TABLE, CREATE INDEX, ALTER TABLE and RENAME.
//!
//! Invariants: a clause that has no place in our tree is refused by name, never dropped.

use super::Converter;
use super::ast::{At, TypeName};
use super::names::{constant, name_of_parts, option_text, relation, strings, type_name};
use super::sequence::{options, serial};
use super::statement::{
    AlterTable, ColumnDefinition, CreateIndex, CreateTable, Generated, IndexElement, KeyConstraint,
    RenameKind, Serial, Utility,
};
use crate::error::{SqlError, SqlResult, SqlState};
use pg_raw_parse::list::NodeList;
use pg_raw_parse::raw::{
    AlterTableType as At_, ConstrType, DropBehavior, ObjectType, OnCommitAction, SortByDir,
    SortByNulls,
};
use pg_raw_parse::{ConstValue, Node, nodes};

fn refuse<T>(what: impl std::fmt::Display) -> SqlResult<T> {
    Err(SqlError::not_supported(what))
}

impl Converter {
    /// CREATE TABLE.
    pub(super) fn create_table(&self, create: &nodes::CreateStmt) -> SqlResult<CreateTable> {
        if create.partspec().is_some() {
            return refuse("PARTITION BY");
        }
        if create.partbound().is_some() {
            return refuse("PARTITION OF");
        }
        if !create.inh_relations().is_empty() {
            return refuse("INHERITS");
        }
        if create.of_typename().is_some() {
            return refuse("CREATE TABLE OF");
        }
        if create.oncommit != OnCommitAction::ONCOMMIT_NOOP {
            return refuse("ON COMMIT");
        }
        if let Some(space) = create.tablespacename().filter(|space| *space != "pg_default") {
            return refuse(format!("the tablespace \"{space}\""));
        }
        if let Some(method) = create.access_method().filter(|method| *method != "heap") {
            return refuse(format!("the table access method \"{method}\""));
        }
        let mut table = CreateTable {
            name: relation(create.relation())?,
            if_not_exists: create.if_not_exists,
            columns: Vec::new(),
            keys: Vec::new(),
            options: options_of(create.options())?,
        };
        for element in create.table_elts() {
            match element {
                Node::ColumnDef(column) => self.column(column, &mut table)?,
                Node::Constraint(constraint) => self.table_constraint(constraint, &mut table)?,
                Node::TableLikeClause(_) => return refuse("LIKE in CREATE TABLE"),
                other => return Err(super::expression::refused(other)),
            }
        }
        Ok(table)
    }

    fn column(&self, column: &nodes::ColumnDef, table: &mut CreateTable) -> SqlResult<()> {
        let at = At::from_offset(column.location);
        let name = column.colname().unwrap_or_default().to_owned();
        let mut type_name = type_name(column.type_name())?;
        let serial = serial_type(&mut type_name)?;
        if let Some(collation) = column.coll_clause() {
            let collation = strings(collation.collname()).pop().unwrap_or_default();
            if !matches!(collation.as_str(), "default" | "C" | "POSIX") {
                let what = format!("the collation \"{collation}\"");
                return Err(SqlError::not_supported(what).at(at.position()));
            }
        }
        let mut definition = ColumnDefinition {
            name: name.clone(),
            type_name,
            collated: column.coll_clause().is_some(),
            not_null: serial.is_some(),
            default: None,
            serial,
            identity: None,
            at,
        };
        let mut said_null = None;
        for constraint in column.constraints() {
            let Node::Constraint(constraint) = constraint else { continue };
            let wrong = |what: &str| Err(contradiction(what, &name, &table.name.name, constraint));
            match constraint.contype {
                ConstrType::CONSTR_NULL | ConstrType::CONSTR_NOTNULL => {
                    let not_null = constraint.contype == ConstrType::CONSTR_NOTNULL;
                    if said_null.replace(not_null).is_some_and(|before| before != not_null) {
                        return wrong("conflicting NULL/NOT NULL declarations");
                    }
                    definition.not_null = not_null;
                }
                ConstrType::CONSTR_DEFAULT => {
                    if definition.identity.is_some() {
                        return wrong("both default and identity specified");
                    }
                    if definition.default.is_some() || definition.serial.is_some() {
                        return wrong("multiple default values specified");
                    }
                    definition.default = Some(self.expr(constraint.raw_expr())?);
                }
                ConstrType::CONSTR_PRIMARY | ConstrType::CONSTR_UNIQUE => {
                    table.keys.push(key_of(constraint, vec![name.clone()])?);
                }
                ConstrType::CONSTR_IDENTITY => identity(constraint, &mut definition, table)?,
                _ => refuse_constraint(constraint)?,
            }
        }
        table.columns.push(definition);
        Ok(())
    }

    fn table_constraint(
        &self,
        constraint: &nodes::Constraint,
        table: &mut CreateTable,
    ) -> SqlResult<()> {
        match constraint.contype {
            ConstrType::CONSTR_PRIMARY | ConstrType::CONSTR_UNIQUE => {
                let columns = strings(constraint.keys());
                table.keys.push(key_of(constraint, columns)?);
                Ok(())
            }
            ConstrType::CONSTR_NOTNULL => {
                for column in strings(constraint.keys()) {
                    match table.columns.iter_mut().find(|other| other.name == column) {
                        Some(definition) => definition.not_null = true,
                        None => return refuse("a NOT NULL constraint before its column"),
                    }
                }
                Ok(())
            }
            _ => refuse_constraint(constraint),
        }
    }

    /// ALTER TABLE and ALTER INDEX.
    pub(super) fn alter_table(&self, alter: &nodes::AlterTableStmt) -> SqlResult<Utility> {
        if alter.objtype != ObjectType::OBJECT_TABLE {
            return refuse("ALTER of this kind of relation");
        }
        let mut commands = Vec::new();
        for command in alter.cmds() {
            let Node::AlterTableCmd(command) = command else { continue };
            commands.push(self.alter_command(command)?);
        }
        let table = relation(alter.relation())?;
        Ok(Utility::AlterTable { table, if_exists: alter.missing_ok, commands })
    }

    fn alter_command(&self, command: &nodes::AlterTableCmd) -> SqlResult<AlterTable> {
        let name = command.name().unwrap_or_default().to_owned();
        if command.behavior == DropBehavior::DROP_CASCADE
            && command.subtype != At_::AT_DropConstraint
        {
            return refuse("ALTER TABLE .. CASCADE");
        }
        Ok(match command.subtype {
            At_::AT_AddConstraint => match command.def() {
                Node::Constraint(constraint)
                    if matches!(
                        constraint.contype,
                        ConstrType::CONSTR_PRIMARY | ConstrType::CONSTR_UNIQUE
                    ) =>
                {
                    AlterTable::AddKey(key_of(constraint, strings(constraint.keys()))?)
                }
                Node::Constraint(constraint)
                    if constraint.contype == ConstrType::CONSTR_NOTNULL =>
                {
                    AlterTable::NotNull(strings(constraint.keys()).pop().unwrap_or_default(), true)
                }
                Node::Constraint(constraint) => {
                    refuse_constraint(constraint)?;
                    return refuse("this constraint");
                }
                other => return Err(super::expression::refused(other)),
            },
            At_::AT_DropConstraint => AlterTable::DropConstraint(name, command.missing_ok),
            At_::AT_SetNotNull => AlterTable::NotNull(name, true),
            At_::AT_DropNotNull => AlterTable::NotNull(name, false),
            At_::AT_ColumnDefault => AlterTable::Default(name, self.optional(command.def())?),
            At_::AT_SetRelOptions => {
                let options = options_of(command.def().expect_node_list())?;
                AlterTable::Options(options.into_iter().map(|(n, v)| (n, Some(v))).collect())
            }
            At_::AT_ResetRelOptions => {
                let options = options_of(command.def().expect_node_list())?;
                AlterTable::Options(options.into_iter().map(|(name, _)| (name, None)).collect())
            }
            At_::AT_AddColumn => return refuse("ALTER TABLE ADD COLUMN"),
            At_::AT_DropColumn => return refuse("ALTER TABLE DROP COLUMN"),
            At_::AT_AlterColumnType => return refuse("ALTER COLUMN TYPE"),
            At_::AT_ChangeOwner => return refuse("ALTER TABLE OWNER TO"),
            At_::AT_AddIdentity => add_identity(name, command.def())?,
            At_::AT_SetIdentity => set_identity(name, command.def().expect_node_list())?,
            At_::AT_DropIdentity => AlterTable::DropIdentity(name, command.missing_ok),
            At_::AT_AttachPartition | At_::AT_DetachPartition => return refuse("a partition"),
            At_::AT_AddInherit | At_::AT_DropInherit => return refuse("INHERIT"),
            At_::AT_EnableRowSecurity
            | At_::AT_DisableRowSecurity
            | At_::AT_ForceRowSecurity
            | At_::AT_NoForceRowSecurity => return refuse("ROW LEVEL SECURITY"),
            At_::AT_SetStatistics => return refuse("ALTER COLUMN SET STATISTICS"),
            At_::AT_SetStorage => return refuse("ALTER COLUMN SET STORAGE"),
            At_::AT_ClusterOn | At_::AT_DropCluster => return refuse("ALTER TABLE CLUSTER"),
            At_::AT_ReplicaIdentity => return refuse("REPLICA IDENTITY"),
            At_::AT_SetTableSpace => return refuse("ALTER TABLE SET TABLESPACE"),
            At_::AT_SetLogged | At_::AT_SetUnLogged => return refuse("ALTER TABLE SET LOGGED"),
            At_::AT_ValidateConstraint => return refuse("VALIDATE CONSTRAINT"),
            At_::AT_AddIndexConstraint => return refuse("ADD CONSTRAINT USING INDEX"),
            other => return refuse(format!("this form of ALTER TABLE ({other})")),
        })
    }
}

/// Two constraints of a column that do not go together.
fn contradiction(
    what: &str,
    column: &str,
    table: &str,
    constraint: &nodes::Constraint,
) -> SqlError {
    let message = format!("{what} for column \"{column}\" of table \"{table}\"");
    let at = At::from_offset(constraint.location);
    SqlError::new(SqlState::SYNTAX_ERROR, message).at(at.position())
}

/// Puts the type in the place of a serial type that stands for it.
fn serial_type(name: &mut TypeName) -> SqlResult<Option<Serial>> {
    let Some(serial) = serial(&name.name) else { return Ok(None) };
    if name.array_dimensions > 0 {
        let error = SqlError::not_supported_message("array of serial is not implemented");
        return Err(error.at(name.name.at.position()));
    }
    let stands_for = match serial {
        Serial::Small => "int2",
        Serial::Plain => "int4",
        Serial::Big => "int8",
    };
    name.name.schema = Some("pg_catalog".to_owned());
    name.name.name = stands_for.to_owned();
    Ok(Some(serial))
}

/// GENERATED .. AS IDENTITY of a column.
fn identity(
    constraint: &nodes::Constraint,
    definition: &mut ColumnDefinition,
    table: &CreateTable,
) -> SqlResult<()> {
    let what = match (&definition.identity, &definition.default, definition.serial) {
        (Some(_), ..) => Some("multiple identity specifications"),
        (None, None, None) => None,
        _ => Some("both default and identity specified"),
    };
    if let Some(what) = what {
        return Err(contradiction(what, &definition.name, &table.name.name, constraint));
    }
    definition.not_null = true;
    definition.identity =
        Some((generated(constraint.generated_when), options(constraint.options())?));
    Ok(())
}

fn generated(when: std::ffi::c_char) -> Generated {
    if when as u8 == b'a' { Generated::Always } else { Generated::ByDefault }
}

/// ADD GENERATED .. AS IDENTITY.
fn add_identity(column: String, definition: Node<'_>) -> SqlResult<AlterTable> {
    let Node::Constraint(constraint) = definition else {
        return Err(super::expression::refused(definition));
    };
    let when = generated(constraint.generated_when);
    Ok(AlterTable::AddIdentity(column, when, options(constraint.options())?))
}

/// SET GENERATED, SET and RESTART of an identity column.
fn set_identity(column: String, list: &NodeList) -> SqlResult<AlterTable> {
    let mut when = None;
    for option in list {
        if let Node::DefElem(option) = option
            && option.defname() == Some("generated")
        {
            let code = match constant(option.arg()) {
                Some(ConstValue::Integer(code)) => code,
                _ => return refuse("this form of SET GENERATED"),
            };
            when = Some(generated(code as std::ffi::c_char));
        }
    }
    Ok(AlterTable::SetIdentity(column, when, options(list)?))
}

fn key_of(constraint: &nodes::Constraint, columns: Vec<String>) -> SqlResult<KeyConstraint> {
    if constraint.deferrable || constraint.initdeferred {
        return refuse("a deferrable constraint");
    }
    if constraint.nulls_not_distinct {
        return refuse("NULLS NOT DISTINCT");
    }
    if constraint.without_overlaps {
        return refuse("WITHOUT OVERLAPS");
    }
    if !constraint.including().is_empty() {
        return refuse("INCLUDE");
    }
    if constraint.indexname().is_some() {
        return refuse("ADD CONSTRAINT USING INDEX");
    }
    Ok(KeyConstraint {
        name: constraint.conname().map(str::to_owned),
        primary: constraint.contype == ConstrType::CONSTR_PRIMARY,
        columns,
        at: At::from_offset(constraint.location),
    })
}

fn refuse_constraint(constraint: &nodes::Constraint) -> SqlResult<()> {
    let what = match constraint.contype {
        ConstrType::CONSTR_CHECK => "a CHECK constraint",
        ConstrType::CONSTR_FOREIGN => "a FOREIGN KEY constraint",
        ConstrType::CONSTR_EXCLUSION => "an EXCLUDE constraint",
        ConstrType::CONSTR_IDENTITY => "an identity constraint of a table",
        ConstrType::CONSTR_GENERATED => "a generated column",
        ConstrType::CONSTR_ATTR_NOT_DEFERRABLE | ConstrType::CONSTR_ATTR_IMMEDIATE => return Ok(()),
        ConstrType::CONSTR_ATTR_DEFERRABLE | ConstrType::CONSTR_ATTR_DEFERRED => {
            "a deferrable constraint"
        }
        _ => "this constraint",
    };
    Err(SqlError::not_supported(what).at(At::from_offset(constraint.location).position()))
}

fn options_of(list: &NodeList) -> SqlResult<Vec<(String, String)>> {
    let mut options = Vec::new();
    for option in list {
        let Node::DefElem(option) = option else { continue };
        let name = option.defname().unwrap_or_default();
        if option.defnamespace().is_some() {
            return refuse(format!("the storage parameter \"{name}\" of TOAST tables"));
        }
        if name == "oids" {
            return refuse("a table with OIDs");
        }
        let value = option_text(option)?.unwrap_or_else(|| "true".to_owned());
        options.push((name.to_owned(), value));
    }
    Ok(options)
}

/// CREATE INDEX.
pub(super) fn create_index(index: &nodes::IndexStmt) -> SqlResult<Utility> {
    if index.concurrent {
        return refuse("CREATE INDEX CONCURRENTLY");
    }
    if !matches!(index.where_clause(), Node::None) {
        return refuse("a partial index");
    }
    if !index.index_including_params().is_empty() {
        return refuse("INCLUDE");
    }
    if index.nulls_not_distinct {
        return refuse("NULLS NOT DISTINCT");
    }
    if let Some(method) = index.access_method().filter(|method| *method != "btree") {
        return refuse(format!("the index access method \"{method}\""));
    }
    if let Some(space) = index.table_space().filter(|space| *space != "pg_default") {
        return refuse(format!("the tablespace \"{space}\""));
    }
    for option in index.options() {
        let name = option.defname().unwrap_or_default();
        if name != "fillfactor" {
            return refuse(format!("the index storage parameter \"{name}\""));
        }
    }
    let columns = index.index_params().iter().map(index_element).collect::<SqlResult<_>>()?;
    Ok(Utility::CreateIndex(CreateIndex {
        name: index.idxname().map(str::to_owned),
        table: relation(index.relation())?,
        unique: index.unique,
        if_not_exists: index.if_not_exists,
        columns,
    }))
}

fn index_element(element: &nodes::IndexElem) -> SqlResult<IndexElement> {
    let Some(column) = element.name() else { return refuse("an index on an expression") };
    if let Some(collation) = strings(element.collation()).pop()
        && !matches!(collation.as_str(), "default" | "C" | "POSIX")
    {
        return refuse(format!("the collation \"{collation}\""));
    }
    if !element.opclass().is_empty() {
        return refuse("an operator class in CREATE INDEX");
    }
    let descending = element.ordering == SortByDir::SORTBY_DESC;
    let nulls_first = match element.nulls_ordering {
        SortByNulls::SORTBY_NULLS_FIRST => true,
        SortByNulls::SORTBY_NULLS_LAST => false,
        _ => descending,
    };
    Ok(IndexElement { column: column.to_owned(), descending, nulls_first })
}

/// ALTER .. RENAME.
pub(super) fn rename(rename: &nodes::RenameStmt) -> SqlResult<Utility> {
    let sub = || rename.subname().unwrap_or_default().to_owned();
    let kind = match rename.rename_type {
        ObjectType::OBJECT_TABLE => RenameKind::Table,
        ObjectType::OBJECT_INDEX => RenameKind::Index,
        ObjectType::OBJECT_SEQUENCE => RenameKind::Sequence,
        ObjectType::OBJECT_COLUMN => RenameKind::Column(sub()),
        ObjectType::OBJECT_TABCONSTRAINT => RenameKind::Constraint(sub()),
        ObjectType::OBJECT_SCHEMA => return refuse("ALTER SCHEMA .. RENAME"),
        _ => return refuse("RENAME of this kind of object"),
    };
    let relation = match rename.relation() {
        Some(range) => relation(Some(range))?,
        None => name_of_parts(Vec::new(), At::NONE)?,
    };
    let to = rename.newname().unwrap_or_default().to_owned();
    Ok(Utility::Rename { kind, relation, if_exists: rename.missing_ok, to })
}
