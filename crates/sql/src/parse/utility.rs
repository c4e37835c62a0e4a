//! Conversion of statements: the choice by kind, and the utility statements.
//!
//! Invariants: every statement PostgreSQL has is either converted or refused by its name.

use super::Converter;
use super::ast::{At, Name};
use super::names::{
    constant, name_of_parts, option_text, option_true, relation, strings, type_name,
};
use super::statement::{
    Copy, CopyDirection, CopyOption, DropKind, Explain, ExplainOptions, IsolationName, SetValue,
    Statement, TransactionModes, Utility,
};
use crate::error::{SqlError, SqlResult, SqlState};
use pg_raw_parse::list::NodeList;
use pg_raw_parse::raw::{
    DiscardMode, DropBehavior, ObjectType, TransactionStmtKind as Kind, VariableSetKind,
};
use pg_raw_parse::{ConstValue, Node, nodes};

impl Converter {
    /// Any statement.
    pub(super) fn statement(&self, node: Node<'_>) -> SqlResult<Statement> {
        Ok(match node {
            Node::SelectStmt(select) => Statement::Query(Box::new(self.query(select)?)),
            Node::InsertStmt(insert) => Statement::Insert(Box::new(self.insert(insert)?)),
            Node::UpdateStmt(update) => Statement::Update(Box::new(self.update(update)?)),
            Node::DeleteStmt(delete) => Statement::Delete(Box::new(self.delete(delete)?)),
            other => Statement::Utility(Box::new(self.utility(other)?)),
        })
    }

    fn utility(&self, node: Node<'_>) -> SqlResult<Utility> {
        match node {
            Node::TransactionStmt(transaction) => transaction_of(transaction),
            Node::VariableSetStmt(set) => set_of(set),
            Node::VariableShowStmt(show) => {
                Ok(Utility::Show(show.name().unwrap_or_default().to_owned()))
            }
            Node::CreateStmt(create) => self.create_table(create).map(Utility::CreateTable),
            Node::IndexStmt(index) => super::definition::create_index(index),
            Node::CreateSeqStmt(create) => super::sequence::create(create),
            Node::AlterSeqStmt(alter) => super::sequence::alter(alter),
            Node::CreateSchemaStmt(schema) => create_schema(schema),
            Node::DropStmt(drop) => drop_of(drop),
            Node::AlterTableStmt(alter) => self.alter_table(alter),
            Node::RenameStmt(rename) => super::definition::rename(rename),
            Node::TruncateStmt(truncate) => truncate_of(truncate),
            Node::VacuumStmt(vacuum) => vacuum_of(vacuum),
            Node::CheckPointStmt(_) => Ok(Utility::Checkpoint),
            Node::CallStmt(call) => call_of(call),
            Node::CopyStmt(copy) => self.copy(copy).map(Box::new).map(Utility::Copy),
            Node::PrepareStmt(prepare) => self.prepare(prepare),
            Node::ExecuteStmt(execute) => Ok(Utility::Execute {
                name: execute.name().unwrap_or_default().to_owned(),
                arguments: self.exprs(execute.params())?,
            }),
            Node::DeallocateStmt(deallocate) => {
                Ok(Utility::Deallocate(deallocate.name().map(str::to_owned)))
            }
            Node::ExplainStmt(explain) => {
                let statement = self.statement(explain.query())?;
                let options = explain_options(explain)?;
                Ok(Utility::Explain(Box::new(Explain { options, statement })))
            }
            Node::DeclareCursorStmt(declare) => super::cursor::declare(self, declare),
            Node::FetchStmt(fetch) => Ok(super::cursor::fetch(fetch)),
            Node::ClosePortalStmt(close) => {
                Ok(Utility::Close(close.portalname().map(str::to_owned)))
            }
            Node::DiscardStmt(discard) => Ok(Utility::Discard(match discard.target {
                DiscardMode::DISCARD_ALL => "ALL",
                DiscardMode::DISCARD_PLANS => "PLANS",
                DiscardMode::DISCARD_SEQUENCES => "SEQUENCES",
                _ => "TEMP",
            })),
            Node::LockStmt(lock) => Ok(Utility::LockTable {
                tables: relations(lock.relations())?,
                mode: u8::try_from(lock.mode).unwrap_or(8),
                nowait: lock.nowait,
            }),
            other => Err(SqlError::not_supported(command_of(other))),
        }
    }

    fn prepare(&self, prepare: &nodes::PrepareStmt) -> SqlResult<Utility> {
        let types = prepare.argtypes().iter().map(|ty| type_name(Some(ty)));
        Ok(Utility::Prepare {
            name: prepare.name().unwrap_or_default().to_owned(),
            types: types.collect::<SqlResult<_>>()?,
            statement: Box::new(self.statement(prepare.query())?),
        })
    }

    fn copy(&self, copy: &nodes::CopyStmt) -> SqlResult<Copy> {
        if copy.is_program {
            return Err(SqlError::not_supported("COPY with PROGRAM"));
        }
        if copy.filename().is_some() {
            return Err(SqlError::not_supported("COPY with a file of the server"));
        }
        if !matches!(copy.where_clause(), Node::None) {
            return Err(SqlError::not_supported("COPY FROM .. WHERE"));
        }
        let query = match copy.query() {
            Node::None => None,
            Node::SelectStmt(select) => Some(self.query(select)?),
            _ => return Err(SqlError::not_supported("COPY of a data-modifying statement")),
        };
        let mut options = Vec::new();
        for option in copy.options() {
            let at = At::from_offset(option.location);
            let value = match option.arg() {
                Node::None => CopyOption::None,
                Node::A_Star(_) => CopyOption::Star,
                Node::NodeList(list) => CopyOption::List(strings(list)),
                _ => CopyOption::Text(option_text(option)?.unwrap_or_default()),
            };
            options.push((option.defname().unwrap_or_default().to_owned(), value, at));
        }
        Ok(Copy {
            table: copy.relation().map(|range| relation(Some(range))).transpose()?,
            columns: strings(copy.attlist()),
            query,
            direction: if copy.is_from { CopyDirection::In } else { CopyDirection::Out },
            options,
        })
    }
}

fn explain_options(explain: &nodes::ExplainStmt) -> SqlResult<ExplainOptions> {
    let mut options = ExplainOptions {
        analyze: false,
        verbose: false,
        costs: true,
        timing: true,
        summary: false,
        json: false,
    };
    let (mut summary, mut timing) = (None, None);
    for option in explain.options() {
        let at = At::from_offset(option.location).position();
        match option.defname().unwrap_or_default() {
            "analyze" => options.analyze = option_true(option)?,
            "verbose" => options.verbose = option_true(option)?,
            "costs" => options.costs = option_true(option)?,
            "timing" => timing = Some(option_true(option)?),
            "summary" => summary = Some(option_true(option)?),
            "format" => match option_text(option)?.unwrap_or_default().as_str() {
                "text" => options.json = false,
                "json" => options.json = true,
                other => {
                    let what = format!("EXPLAIN (FORMAT {})", other.to_uppercase());
                    return Err(SqlError::not_supported(what).at(at));
                }
            },
            other
                if matches!(other, "buffers" | "wal" | "settings" | "memory" | "generic_plan")
                    && !option_true(option)? => {}
            "serialize" if option_text(option)?.as_deref() == Some("none") => {}
            other => {
                let what = format!("EXPLAIN ({})", other.to_uppercase());
                return Err(SqlError::not_supported(what).at(at));
            }
        }
    }
    if timing == Some(true) && !options.analyze {
        return Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            "EXPLAIN option TIMING requires ANALYZE",
        ));
    }
    options.timing = timing.unwrap_or(true);
    options.summary = summary.unwrap_or(options.analyze);
    Ok(options)
}

/// The names of a list of tables.
pub(super) fn relations(list: &NodeList) -> SqlResult<Vec<Name>> {
    list.iter()
        .map(|node| match node {
            Node::RangeVar(range) => relation(Some(range)),
            other => Err(super::expression::refused(other)),
        })
        .collect()
}

fn modes_of(options: &NodeList) -> SqlResult<TransactionModes> {
    let mut modes = TransactionModes::default();
    for option in options {
        let Node::DefElem(option) = option else { continue };
        let value = constant(option.arg());
        match option.defname().unwrap_or_default() {
            "transaction_isolation" => {
                let text = value.map(|value| value.to_string()).unwrap_or_default();
                modes.isolation = Some(match text.as_str() {
                    "read uncommitted" => IsolationName::ReadUncommitted,
                    "read committed" => IsolationName::ReadCommitted,
                    "repeatable read" => IsolationName::RepeatableRead,
                    _ => IsolationName::Serializable,
                });
            }
            "transaction_read_only" => modes.read_only = value.map(is_on),
            "transaction_deferrable" => modes.deferrable = value.map(is_on),
            other => return Err(SqlError::not_supported(format!("SET TRANSACTION {other}"))),
        }
    }
    Ok(modes)
}

fn is_on(value: ConstValue<'_>) -> bool {
    match value {
        ConstValue::Integer(value) => value != 0,
        ConstValue::Boolean(value) => value,
        other => matches!(other.to_string().as_str(), "on" | "true"),
    }
}

fn transaction_of(transaction: &nodes::TransactionStmt) -> SqlResult<Utility> {
    let refuse = |what: &str| Err(SqlError::not_supported(what));
    let savepoint = || transaction.savepoint_name().unwrap_or_default().to_owned();
    match transaction.kind {
        Kind::TRANS_STMT_BEGIN | Kind::TRANS_STMT_START => Ok(Utility::Begin {
            start: transaction.kind == Kind::TRANS_STMT_START,
            modes: modes_of(transaction.options())?,
        }),
        Kind::TRANS_STMT_COMMIT => Ok(Utility::Commit { chain: transaction.chain }),
        Kind::TRANS_STMT_ROLLBACK => Ok(Utility::Rollback { chain: transaction.chain }),
        Kind::TRANS_STMT_SAVEPOINT => Ok(Utility::Savepoint(savepoint())),
        Kind::TRANS_STMT_RELEASE => Ok(Utility::Release(savepoint())),
        Kind::TRANS_STMT_ROLLBACK_TO => Ok(Utility::RollbackTo(savepoint())),
        Kind::TRANS_STMT_PREPARE => Err(SqlError::new(
            SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            "prepared transactions are disabled",
        )
        .hint("Set \"max_prepared_transactions\" to a nonzero value.")),
        Kind::TRANS_STMT_COMMIT_PREPARED | Kind::TRANS_STMT_ROLLBACK_PREPARED => {
            let gid = transaction.gid().unwrap_or_default();
            Err(SqlError::new(
                SqlState::UNDEFINED_OBJECT,
                format!("prepared transaction with identifier \"{gid}\" does not exist"),
            ))
        }
        _ => refuse("this transaction command"),
    }
}

fn set_of(set: &nodes::VariableSetStmt) -> SqlResult<Utility> {
    let name = set.name().unwrap_or_default().to_owned();
    let value = match set.kind {
        VariableSetKind::VAR_RESET_ALL => return Ok(Utility::ResetAll),
        VariableSetKind::VAR_SET_MULTI => {
            return match name.as_str() {
                "TRANSACTION" | "SESSION CHARACTERISTICS" => Ok(Utility::SetTransaction {
                    session: name == "SESSION CHARACTERISTICS",
                    modes: modes_of(set.args())?,
                }),
                _ => Err(SqlError::not_supported(format!("SET {name}"))),
            };
        }
        VariableSetKind::VAR_SET_CURRENT => {
            return Err(SqlError::not_supported("SET .. FROM CURRENT"));
        }
        VariableSetKind::VAR_SET_VALUE => SetValue::Values(set_values(set.args())?),
        _ => SetValue::Default,
    };
    let reset = set.kind == VariableSetKind::VAR_RESET;
    Ok(Utility::Set { name, local: set.is_local, value, reset })
}

fn set_values(arguments: &NodeList) -> SqlResult<Vec<String>> {
    let mut values = Vec::new();
    for argument in arguments {
        match argument {
            // SET TIME ZONE INTERVAL '..' is a cast.
            Node::TypeCast(cast) => match constant(cast.arg()) {
                Some(value) => values.push(value.to_string()),
                None => return Err(SqlError::not_supported("this value of SET")),
            },
            node => match constant(node) {
                Some(value) => values.push(value.to_string()),
                None => return Err(SqlError::not_supported("this value of SET")),
            },
        }
    }
    Ok(values)
}

fn create_schema(schema: &nodes::CreateSchemaStmt) -> SqlResult<Utility> {
    if !schema.schema_elts().is_empty() {
        return Err(SqlError::not_supported("CREATE SCHEMA with elements"));
    }
    match (schema.schemaname(), schema.authrole()) {
        (Some(name), None) => {
            Ok(Utility::CreateSchema { name: name.to_owned(), if_not_exists: schema.if_not_exists })
        }
        _ => Err(SqlError::not_supported("CREATE SCHEMA AUTHORIZATION")),
    }
}

fn drop_of(drop: &nodes::DropStmt) -> SqlResult<Utility> {
    if drop.concurrent {
        return Err(SqlError::not_supported("DROP INDEX CONCURRENTLY"));
    }
    let kind = match drop.remove_type {
        ObjectType::OBJECT_TABLE => DropKind::Table,
        ObjectType::OBJECT_INDEX => DropKind::Index,
        ObjectType::OBJECT_SCHEMA => DropKind::Schema,
        ObjectType::OBJECT_VIEW => DropKind::Other("view"),
        ObjectType::OBJECT_MATVIEW => DropKind::Other("materialized view"),
        ObjectType::OBJECT_SEQUENCE => DropKind::Sequence,
        ObjectType::OBJECT_TYPE => DropKind::Other("type"),
        ObjectType::OBJECT_EXTENSION => DropKind::Other("extension"),
        other => {
            return Err(SqlError::not_supported(format!("DROP of this kind of object ({other})")));
        }
    };
    let mut names = Vec::new();
    for object in drop.objects() {
        let parts = match object {
            Node::NodeList(parts) => strings(parts),
            Node::TypeName(name) => {
                name.names().iter().filter_map(|part| part.sval().map(str::to_owned)).collect()
            }
            node => node.as_str().map(str::to_owned).into_iter().collect(),
        };
        names.push(name_of_parts(parts, At::NONE)?);
    }
    let cascade = drop.behavior == DropBehavior::DROP_CASCADE;
    Ok(Utility::Drop { kind, names, if_exists: drop.missing_ok, cascade })
}

fn truncate_of(truncate: &nodes::TruncateStmt) -> SqlResult<Utility> {
    // No table is referenced by another: CASCADE has nothing to do.
    let tables = relations(truncate.relations())?;
    Ok(Utility::Truncate { tables, restart: truncate.restart_seqs })
}

fn vacuum_of(vacuum: &nodes::VacuumStmt) -> SqlResult<Utility> {
    let mut analyze = !vacuum.is_vacuumcmd;
    for option in vacuum.options() {
        let name = option.defname().unwrap_or_default();
        match (vacuum.is_vacuumcmd, name) {
            (true, "analyze") => analyze = option_true(option)?,
            (_, "verbose" | "skip_locked" | "buffer_usage_limit") => {}
            (true, "freeze" | "full" | "disable_page_skipping" | "index_cleanup" | "truncate") => {}
            (true, "parallel" | "process_main" | "process_toast" | "skip_database_stats") => {}
            _ => {
                let command = if vacuum.is_vacuumcmd { "VACUUM" } else { "ANALYZE" };
                return Err(SqlError::new(
                    SqlState::SYNTAX_ERROR,
                    format!("unrecognized {command} option \"{name}\""),
                )
                .at(At::from_offset(option.location).position()));
            }
        }
    }
    let mut tables = Vec::new();
    for table in vacuum.rels() {
        if table.va_cols().into_iter().next().is_some() {
            return Err(SqlError::not_supported("ANALYZE of some columns"));
        }
        tables.push(relation(table.relation())?);
    }
    Ok(Utility::Vacuum { vacuum: vacuum.is_vacuumcmd, analyze, tables })
}

/// The one procedure that can be called.
fn call_of(call: &nodes::CallStmt) -> SqlResult<Utility> {
    let refused = || SqlError::not_supported("CALL of another procedure than atoll_backup");
    let call = call.funccall().ok_or_else(refused)?;
    if strings(call.funcname()) != ["atoll_backup"] {
        return Err(refused());
    }
    let mut arguments = call.args().iter();
    match (arguments.next().and_then(constant), arguments.next()) {
        (Some(ConstValue::String(directory)), None) => Ok(Utility::Backup(directory.to_string())),
        _ => Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            "atoll_backup takes one argument, a directory as a constant",
        )),
    }
}

/// PostgreSQL's name for a command that we refuse.
fn command_of(node: Node<'_>) -> String {
    let text = format!("{node:?}");
    let kind: String = text.chars().take_while(|c| c.is_ascii_alphanumeric()).collect();
    let known = match kind.as_str() {
        "ViewStmt" => "CREATE VIEW",
        "CreateTableAsStmt" => "CREATE TABLE AS",
        "CreateFunctionStmt" => "CREATE FUNCTION",
        "CreateTrigStmt" => "CREATE TRIGGER",
        "CreateRoleStmt" => "CREATE ROLE",
        "AlterRoleStmt" => "ALTER ROLE",
        "DropRoleStmt" => "DROP ROLE",
        "GrantStmt" => "GRANT and REVOKE",
        "GrantRoleStmt" => "GRANT and REVOKE of roles",
        "CreatedbStmt" => "CREATE DATABASE",
        "DropdbStmt" => "DROP DATABASE",
        "ListenStmt" => "LISTEN",
        "NotifyStmt" => "NOTIFY",
        "UnlistenStmt" => "UNLISTEN",
        "CommentStmt" => "COMMENT",
        "DoStmt" => "DO",
        "CallStmt" => "CALL",
        "MergeStmt" => "MERGE",
        "CreateDomainStmt" => "CREATE DOMAIN",
        "CreateEnumStmt" | "CompositeTypeStmt" | "DefineStmt" => "CREATE TYPE",
        "CreateExtensionStmt" => "CREATE EXTENSION",
        "ReindexStmt" => "REINDEX",
        "ClusterStmt" => "CLUSTER",
        "ConstraintsSetStmt" => "SET CONSTRAINTS",
        "RefreshMatViewStmt" => "REFRESH MATERIALIZED VIEW",
        "AlterOwnerStmt" => "ALTER .. OWNER TO",
        "AlterObjectSchemaStmt" => "ALTER .. SET SCHEMA",
        "AlterSystemStmt" => "ALTER SYSTEM",
        "AlterDatabaseSetStmt" | "AlterDatabaseStmt" => "ALTER DATABASE",
        "AlterRoleSetStmt" => "ALTER ROLE .. SET",
        "CreatePublicationStmt" => "CREATE PUBLICATION",
        "CreateSubscriptionStmt" => "CREATE SUBSCRIPTION",
        "CreatePolicyStmt" => "CREATE POLICY",
        "RuleStmt" => "CREATE RULE",
        "CreateStatsStmt" => "CREATE STATISTICS",
        "CreateTableSpaceStmt" => "CREATE TABLESPACE",
        "LoadStmt" => "LOAD",
        "DropOwnedStmt" => "DROP OWNED",
        other => return other.trim_end_matches("Stmt").to_owned(),
    };
    known.to_owned()
}
