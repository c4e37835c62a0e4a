//! Definitions: CREATE, ALTER, DROP, TRUNCATE, LOCK TABLE, VACUUM.
//!
//! Invariants: names, types and defaults are checked here, before the kernel is asked; the
//! kernel makes the change transactional. Notices and errors are PostgreSQL's.

mod alter;
mod create;
mod drop;
mod identity;
mod maintain;
mod names;
mod sequence;

use crate::error::{SqlError, SqlResult, SqlState};
use crate::parse::ast::Name;
use crate::parse::statement::Utility;
use crate::relations::CatalogView;
use crate::session::Session;
use crate::session::client::{Client, Severity};
use atoll_kernel::api::{Context, Error, Oid, Statement, TableLockMode};

/// A notice has no class of errors.
const SUCCESSFUL: SqlState = SqlState::new("00000");

/// What a definition works with.
pub(crate) struct Definer<'d, 't> {
    /// The catalog as the statement began.
    pub view: &'d CatalogView,
    /// The kernel's command.
    pub statement: &'d mut Statement<'t>,
    /// Where notices go.
    pub notices: Vec<SqlError>,
}

impl Definer<'_, '_> {
    fn notice(&mut self, message: String) {
        self.notices.push(SqlError::new(SUCCESSFUL, message));
    }

    /// A notice that something is there already.
    fn notice_exists(&mut self, state: SqlState, message: String) {
        self.notices.push(SqlError::new(state, message));
    }

    /// The catalog with what this statement has changed already.
    fn now(&self) -> CatalogView {
        CatalogView {
            catalog: (**self.statement.catalog()).clone(),
            registry: self.view.registry.clone(),
            path: self.view.path.clone(),
            statistics: self.view.statistics.clone(),
        }
    }
}

impl Session {
    /// Runs a definition; answers its tag. `several`: it is one of several of a simple query.
    pub(crate) fn definition(
        &mut self,
        context: &Context,
        utility: &Utility,
        several: bool,
        client: &mut dyn Client,
    ) -> SqlResult<String> {
        self.ensure_transaction(context)?;
        self.queried = true;
        let tag = tag_of(utility);
        match utility {
            Utility::LockTable { .. } => self.require_block(&tag, several)?,
            _ => self.check_writable(&tag)?,
        }
        let view = self.view();
        self.context.view.borrow_mut().clone_from(&view);
        let Some(transaction) = &mut self.transaction else {
            return Err(SqlError::internal("a definition without a transaction"));
        };
        let mut statement = transaction.statement(&mut self.kernel, context)?;
        let mut definer = Definer { view: &view, statement: &mut statement, notices: Vec::new() };
        let result = define(&mut definer, context, utility);
        let notices = definer.notices;
        for notice in notices {
            self.notice(client, Severity::Notice, &notice);
        }
        result.map(|()| tag)
    }
}

/// Locks a table; that it changed meanwhile does not matter to a definition.
fn lock(statement: &mut Statement<'_>, table: Oid, mode: TableLockMode) -> SqlResult<()> {
    match statement.lock_table(table, mode) {
        Ok(()) | Err(Error::CatalogChanged) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn define(definer: &mut Definer<'_, '_>, context: &Context, utility: &Utility) -> SqlResult<()> {
    match utility {
        Utility::CreateTable(create) => create::table(definer, context, create),
        Utility::CreateIndex(create) => create::index(definer, create),
        Utility::CreateSchema { name, if_not_exists } => {
            create::schema(definer, name, *if_not_exists)
        }
        Utility::Drop { kind, names, if_exists, cascade } => {
            drop::drop(definer, *kind, names, *if_exists, *cascade)
        }
        Utility::AlterTable { table, if_exists, commands } => {
            alter::table(definer, context, table, *if_exists, commands)
        }
        Utility::Rename { kind, relation, if_exists, to } => {
            alter::rename(definer, kind, relation, *if_exists, to)
        }
        Utility::Truncate { tables, restart } => truncate(definer, tables, *restart),
        Utility::CreateSequence { name, if_not_exists, options } => {
            sequence::create(definer, name, *if_not_exists, options)
        }
        Utility::AlterSequence { name, if_exists, options } => {
            sequence::alter(definer, name, *if_exists, options)
        }
        Utility::LockTable { tables, mode, nowait } => lock_tables(definer, tables, *mode, *nowait),
        _ => Err(SqlError::internal("this statement defines nothing")),
    }
}

fn truncate(definer: &mut Definer<'_, '_>, tables: &[Name], restart: bool) -> SqlResult<()> {
    let mut oids: Vec<Oid> = Vec::with_capacity(tables.len());
    for name in tables {
        let info = definer.view.table(name)?;
        if !oids.contains(&Oid(info.oid)) {
            oids.push(Oid(info.oid));
        }
    }
    oids.sort_unstable();
    definer.statement.truncate(&oids)?;
    if restart {
        for table in oids {
            sequence::restart_owned(definer, table)?;
        }
    }
    Ok(())
}

fn lock_tables(
    definer: &mut Definer<'_, '_>,
    tables: &[Name],
    mode: u8,
    nowait: bool,
) -> SqlResult<()> {
    if nowait {
        return Err(SqlError::not_supported("NOWAIT"));
    }
    let mode = match mode {
        1 => TableLockMode::AccessShare,
        2 => TableLockMode::RowShare,
        3 => TableLockMode::RowExclusive,
        4 => TableLockMode::ShareUpdateExclusive,
        5 => TableLockMode::Share,
        6 => TableLockMode::ShareRowExclusive,
        7 => TableLockMode::Exclusive,
        _ => TableLockMode::AccessExclusive,
    };
    for name in tables {
        let info = definer.view.table(name)?;
        lock(definer.statement, Oid(info.oid), mode)?;
    }
    Ok(())
}

fn tag_of(utility: &Utility) -> String {
    use crate::parse::statement::{DropKind, RenameKind};
    match utility {
        Utility::CreateTable(_) => "CREATE TABLE".to_owned(),
        Utility::CreateIndex(_) => "CREATE INDEX".to_owned(),
        Utility::CreateSchema { .. } => "CREATE SCHEMA".to_owned(),
        Utility::Drop { kind, .. } => match kind {
            DropKind::Table => "DROP TABLE".to_owned(),
            DropKind::Index => "DROP INDEX".to_owned(),
            DropKind::Schema => "DROP SCHEMA".to_owned(),
            DropKind::Sequence => "DROP SEQUENCE".to_owned(),
            DropKind::Other(word) => format!("DROP {}", word.to_ascii_uppercase()),
        },
        Utility::Rename { kind: RenameKind::Index, .. } => "ALTER INDEX".to_owned(),
        Utility::CreateSequence { .. } => "CREATE SEQUENCE".to_owned(),
        Utility::AlterSequence { .. } | Utility::Rename { kind: RenameKind::Sequence, .. } => {
            "ALTER SEQUENCE".to_owned()
        }
        Utility::AlterTable { .. } | Utility::Rename { .. } => "ALTER TABLE".to_owned(),
        Utility::Truncate { .. } => "TRUNCATE TABLE".to_owned(),
        Utility::LockTable { .. } => "LOCK TABLE".to_owned(),
        _ => String::new(),
    }
}
