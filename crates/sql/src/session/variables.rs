//! SET, SHOW, RESET, DISCARD.
//!
//! Invariants: `transaction_isolation` and `transaction_read_only` are the running transaction's,
//! not kept values.

use super::client::{Client, ColumnDescription, Room};
use super::execute::{Done, Sending};
use super::settings::READ_FROM;
use super::{Phase, Session};
use crate::error::{SqlError, SqlResult};
use crate::parse::statement::{IsolationName, SetValue, TransactionModes};
use crate::types::{Datum, Type, TypeOid};
use atoll_kernel::api::{Access, Context, Isolation};
use std::sync::Arc;

fn column(name: &str) -> ColumnDescription {
    ColumnDescription { name: name.into(), ty: Type::new(TypeOid::TEXT), table: 0, number: 0 }
}

impl Session {
    /// SET and RESET of one parameter.
    pub(super) fn set(
        &mut self,
        context: &Context,
        name: &str,
        value: &SetValue,
        local: bool,
        client: &mut dyn Client,
    ) -> SqlResult<()> {
        let lower = name.to_ascii_lowercase();
        if let SetValue::Values(values) = value
            && matches!(lower.as_str(), "transaction_isolation" | "transaction_read_only")
        {
            let value = values.join(" ").to_ascii_lowercase();
            let mut modes = TransactionModes::default();
            if lower == "transaction_isolation" {
                modes.isolation = Some(match value.as_str() {
                    "serializable" => IsolationName::Serializable,
                    "repeatable read" => IsolationName::RepeatableRead,
                    "read committed" => IsolationName::ReadCommitted,
                    "read uncommitted" => IsolationName::ReadUncommitted,
                    _ => {
                        return Err(SqlError::new(
                            crate::SqlState::INVALID_PARAMETER_VALUE,
                            format!("invalid value for parameter \"{lower}\": \"{value}\""),
                        ));
                    }
                });
            } else {
                modes.read_only = Some(matches!(value.as_str(), "on" | "true" | "1" | "yes"));
            }
            return self.set_transaction(context, modes, client);
        }
        if lower == "default_transaction_isolation"
            && matches!(value, SetValue::Values(values) if values.join(" ").eq_ignore_ascii_case("serializable"))
        {
            return Err(SqlError::not_supported("the isolation level SERIALIZABLE"));
        }
        let is_read_from = lower == READ_FROM;
        if is_read_from {
            self.check_may_read_anew()?;
        }
        if self.phase == Phase::Idle {
            // What is set outlives the statement only if it succeeds.
            self.phase = Phase::Implicit;
        }
        let result = {
            let mut settings = self.context.settings.borrow_mut();
            match value {
                SetValue::Values(values) => settings.set(name, values, local),
                SetValue::Default => settings.reset(name, local),
            }
        };
        result?;
        self.apply_settings();
        if is_read_from { self.read_anew(context) } else { Ok(()) }
    }

    /// RESET ALL.
    pub(super) fn reset_all(&mut self) {
        self.context.settings.borrow_mut().reset_all();
        self.apply_settings();
    }

    /// SHOW's value.
    fn shown(&self, name: &str) -> SqlResult<(String, String)> {
        let lower = name.to_ascii_lowercase();
        if let Some(transaction) = &self.transaction {
            if lower == "transaction_isolation" {
                let value = match transaction.isolation() {
                    Isolation::RepeatableRead => "repeatable read",
                    _ => "read committed",
                };
                return Ok((lower, value.to_owned()));
            }
            if lower == "transaction_read_only" {
                let on = transaction.access() == Access::ReadOnly;
                return Ok((lower, if on { "on" } else { "off" }.to_owned()));
            }
        }
        if matches!(lower.as_str(), "transaction_isolation" | "transaction_read_only") {
            let settings = self.context.settings.borrow();
            let value = settings.known(&format!("default_{lower}"));
            return Ok((lower, value));
        }
        self.context.settings.borrow().show(name)
    }

    /// SHOW's columns.
    pub(super) fn show_columns(&self, name: &str) -> SqlResult<Arc<[ColumnDescription]>> {
        if name.eq_ignore_ascii_case("all") {
            return Ok(["name", "setting", "description"].map(column).into_iter().collect());
        }
        let (shown, _) = self.shown(name)?;
        Ok([column(&shown)].into_iter().collect())
    }

    /// SHOW.
    pub(super) fn show(
        &mut self,
        name: &str,
        sending: Sending<'_>,
        client: &mut dyn Client,
    ) -> SqlResult<Done> {
        let columns = self.show_columns(name)?;
        let rows: Vec<Vec<Datum>> = if name.eq_ignore_ascii_case("all") {
            let all = self.context.settings.borrow().all().into_iter();
            all.map(|(name, value)| vec![name.into(), value.into(), "".into()]).collect()
        } else {
            vec![vec![self.shown(name)?.1.into()]]
        };
        client.begin_rows(&columns, sending.formats, sending.announce);
        for row in rows {
            if client.row((&row[..]).into(), &*self.context)? == Room::Full {
                client.flush()?;
            }
        }
        Done::all("SHOW")
    }

    /// DISCARD.
    pub(super) fn discard(&mut self, what: &str, several: bool) -> SqlResult<String> {
        match what {
            "ALL" => {
                self.forbid_block("DISCARD ALL", several)?;
                self.portals.clear();
                self.prepared.clear();
                self.context.forget_sequences();
                self.reset_all();
            }
            "PLANS" => self.local.cache.clear(),
            "SEQUENCES" => self.context.forget_sequences(),
            // There are no temporary tables to forget.
            _ => {}
        }
        Ok(format!("DISCARD {what}"))
    }
}
