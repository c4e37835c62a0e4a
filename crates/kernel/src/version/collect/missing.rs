//! Pages that collection is about to need and that are not in memory.
//!
//! Collection visits one record after the other, so it would wait for the disk as often as records need pages. When one
//! needs a page, those that the records behind it need first can be read at the same time.
//!
//! Invariants: changes nothing and waits for nothing; nothing that is found here is believed by a visit, which looks
//! for itself. Long values are not read: a key that has one is left out.

use super::super::access::{TableAccess, Tables};
use super::super::entries::Scratch;
use super::super::record::{Header, Kind};
use super::visit::old_key;
use super::{CollectLimit, InstanceVersions, Visits};
use crate::base::{NeededPage, Outcome, Stop};
use crate::page::overflow::Form;

/// Records that are looked at.
const LOOKS: usize = 48;
/// Pages that are wanted.
const PAGES: usize = 16;

impl InstanceVersions {
    /// The first missing page of each of the next records that are to be visited, those of the next record first; each once,
    /// and not very many.
    pub fn missing_pages(&self, limit: CollectLimit, tables: &dyn Tables) -> Vec<NeededPage> {
        let (mut pages, mut left) = (Vec::new(), LOOKS);
        let mut scratch = self.scratch.take();
        let mut number = self.collected();
        while left > 0
            && pages.len() < PAGES
            && let Some((cts, visits)) = self.ended(number)
            && limit.has_passed(cts)
        {
            left -= 1;
            if visits == Visits::Some
                && let Some((arena, mut next)) = self.records_of(number)
            {
                while next != 0 && left > 0 && pages.len() < PAGES {
                    left -= 1;
                    let record = arena.read(next, &mut scratch.image);
                    if record.needs_visit()
                        && let Some(table) = tables.table(record.tree)
                        && let Err(Stop::NeedPage(page)) = touch(&table, &record, &mut scratch)
                        && !pages.contains(&page)
                    {
                        pages.push(page);
                    }
                    next = record.previous;
                }
            }
            number += 1;
        }
        self.scratch.replace(scratch);
        pages
    }
}

/// Goes where the visit of a record will go.
fn touch(table: &TableAccess, record: &Header, scratch: &mut Scratch) -> Outcome<()> {
    let row = record.row;
    for index in &table.indexes {
        if record.kind == Kind::Delete {
            let buffer = &mut scratch.row;
            let is_there = table.tree.read(row, &mut |leaf| {
                buffer.clear();
                let Some(slot) = leaf.find(row) else { return Ok(false) };
                table.row_at(leaf, row, slot).copy_page(&index.columns, buffer);
                Ok(true)
            })?;
            let is_short = (0..buffer.len()).all(|column| buffer.form(column) == Form::Inline);
            if !is_there || !is_short {
                continue;
            }
            let buffer = &scratch.row;
            index.encode(&mut scratch.key, |column| buffer.column(column));
        } else if !old_key(index, record, (&scratch.image, &[]), &mut scratch.key) {
            continue;
        }
        index.tree.copy_leaf(&scratch.key, |_| Ok(()))?;
    }
    table.tree.read(row, &mut |_| Ok(()))
}
