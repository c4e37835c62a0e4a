//! VACUUM and ANALYZE.
//!
//! The kernel collects old versions by itself, all the time; VACUUM waits until everything that no
//! snapshot needs is collected, on every instance and of every table. ANALYZE reads the tables and
//! keeps what it found for the planner ([`crate::statistics`]). Invariants: the tables named are
//! locked so that nobody redefines them meanwhile, and reads and writes go on; what ANALYZE found
//! counts at once, whatever becomes of its transaction.

use super::lock;
use crate::error::{SqlError, SqlResult};
use crate::functions::FunctionContext;
use crate::parse::ast::Name;
use crate::relations::RelationInfo;
use crate::session::Session;
use crate::session::client::Client;
use crate::statistics::gather;
use atoll_kernel::api::{Context, Error, Oid, TableLockMode};

impl Session {
    /// Runs VACUUM, ANALYZE or both, over these tables or all; answers the tag.
    pub(crate) fn vacuum(
        &mut self,
        context: &Context,
        vacuum: bool,
        analyze: bool,
        tables: &[Name],
        several: bool,
        _client: &mut dyn Client,
    ) -> SqlResult<String> {
        let tag = if vacuum { "VACUUM" } else { "ANALYZE" };
        if vacuum {
            self.forbid_block(tag, several)?;
        }
        self.ensure_transaction(context)?;
        let view = self.view();
        let mut oids = Vec::new();
        for name in tables {
            let info = view.relation(name)?;
            oids.extend(info.table().map(|_| Oid(info.oid)));
        }
        if tables.is_empty() {
            oids.extend(view.catalog.tables().map(|table| table.def.oid));
        }
        oids.sort_unstable();
        oids.dedup();
        let Some(transaction) = &mut self.transaction else {
            return Err(SqlError::internal("VACUUM without a transaction"));
        };
        let engine = self.local.engine.clone();
        let mut statement = transaction.statement(&mut self.kernel, context)?;
        let mut found = Vec::new();
        for &oid in &oids {
            match lock(&mut statement, oid, TableLockMode::ShareUpdateExclusive) {
                Ok(()) => {}
                // Dropped meanwhile, and nobody named it.
                Err(_) if tables.is_empty() && statement.table(oid).is_err() => continue,
                Err(error) => return Err(error),
            }
            let table = match statement.table(oid) {
                Ok(table) => table,
                Err(Error::NotFound { .. }) if tables.is_empty() => continue,
                Err(error) => return Err(error.into()),
            };
            if analyze {
                let info = RelationInfo::of_table(&table, "");
                let seed = self.context.random_u64();
                found.push((oid.0, gather(&mut statement, &info, &table, seed)?));
            }
        }
        drop(statement);
        let now = self.context.clock_timestamp();
        if analyze {
            let catalog = &view.catalog;
            let exists = |oid| catalog.tables().any(|table| table.def.oid.0 == oid);
            engine.statistics.analyzed(found, now, exists);
        }
        if vacuum {
            self.kernel.collect(context)?;
            let oids: Vec<u32> = oids.iter().map(|oid| oid.0).collect();
            engine.statistics.vacuumed(&oids, now);
        }
        Ok(tag.to_owned())
    }
}
