//! Rows of one INSERT or COPY, gathered so that the kernel inserts several at once.
//!
//! Invariants: rows reach the kernel in their order, and all before the statement ends. An error is
//! that of the first row that has one, as if rows went one by one: what was gathered goes first
//! when a later row cannot be made. Nothing is gathered where somebody looks at a row as soon as it
//! is there (RETURNING, ON CONFLICT).

use super::modify::{check_not_null, complete};
use super::{Cx, Encoder};
use crate::error::{SqlError, SqlResult};
use crate::plan::ModifyPlan;
use crate::types::{Datum, storage};
use atoll_kernel::api::{ColumnId, Error, Frozen, RowId, RowValues};

/// About a page or two of rows.
const ROWS_MAX: usize = 64;
const BYTES_MAX: usize = 16 << 10;

/// Rows that wait to be inserted.
pub struct Gathered {
    frozen: Frozen,
    encoder: Encoder,
    /// Of each row, where its maker says that it comes from.
    places: Vec<u64>,
    ids: Vec<RowId>,
}

/// An error, and where the row comes from that it is about.
#[derive(Debug)]
pub struct Refused {
    /// What is wrong.
    pub error: SqlError,
    /// As its maker said.
    pub place: u64,
}

impl From<Refused> for SqlError {
    fn from(refused: Refused) -> SqlError {
        refused.error
    }
}

impl Gathered {
    /// None yet.
    pub fn new(frozen: Frozen) -> Gathered {
        Gathered { frozen, encoder: Encoder::default(), places: Vec::new(), ids: Vec::new() }
    }

    /// Takes a row that comes from `place`; if there are many now, inserts them all.
    pub fn take(
        &mut self,
        plan: &ModifyPlan,
        values: &[Datum],
        place: u64,
        cx: &mut Cx<'_, '_>,
    ) -> Result<(), Refused> {
        let before = self.encoder.len();
        if let Err(error) = self.encode(plan, values, cx) {
            self.encoder.truncate(before);
            self.flush(plan, cx)?;
            return Err(Refused { error, place });
        }
        self.places.push(place);
        if self.places.len() >= ROWS_MAX || self.encoder.byte_len() >= BYTES_MAX {
            self.flush(plan, cx)?;
        }
        Ok(())
    }

    fn encode(
        &mut self,
        plan: &ModifyPlan,
        values: &[Datum],
        cx: &mut Cx<'_, '_>,
    ) -> SqlResult<()> {
        check_not_null(plan, values, cx)?;
        for (value, column) in values.iter().zip(&plan.table.def.columns) {
            self.encoder.push(column.physical, value)?;
        }
        Ok(())
    }

    /// Inserts what is gathered; then nothing is, failed or not.
    pub fn flush(&mut self, plan: &ModifyPlan, cx: &mut Cx<'_, '_>) -> Result<(), Refused> {
        if self.places.is_empty() {
            return Ok(());
        }
        let Gathered { frozen, encoder, places, ids } = self;
        let done = encoder.with_values(|values| {
            let rows = RowValues::new(values, places.len());
            let together = cx.statement.insert_rows(&plan.table, (rows, *frozen), ids);
            match together {
                Err(Error::UniqueViolation { .. } | Error::KeyTooLong { .. }) => {
                    one_by_one(plan, (rows, *frozen), ids, cx)
                        .map_err(|(row, error)| (places[row], error))
                }
                other => other.map_err(|error| (places[0], error.into())),
            }
        });
        self.encoder.clear();
        self.places.clear();
        done.map_err(|(place, error)| Refused { error, place })
    }
}

/// Inserts rows that could not be inserted together, to find the one that is in the way; answers
/// its number and the whole error.
#[cold]
fn one_by_one(
    plan: &ModifyPlan,
    (rows, frozen): (RowValues<'_>, Frozen),
    ids: &mut Vec<RowId>,
    cx: &mut Cx<'_, '_>,
) -> Result<(), (usize, SqlError)> {
    for number in 0..rows.len() {
        let values = rows.row(number);
        let done = cx.statement.insert_rows(&plan.table, (rows.only(number), frozen), ids);
        if let Err(error) = done {
            let value = |column: ColumnId| {
                let (ty, bytes) = (plan.types[column.index()].oid, values[column.index()]);
                bytes.and_then(|bytes| storage::decode(ty, bytes).ok()).unwrap_or(Datum::Null)
            };
            return Err((number, complete(error, &plan.table, value, cx)));
        }
    }
    // Who was in the way has gone meanwhile.
    Ok(())
}
