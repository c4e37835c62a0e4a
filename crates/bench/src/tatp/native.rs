//! TATP's transactions as native procedures.
//!
//! Invariants: each SQL statement of the description is a command that finds its rows by an index.

use atoll_kernel::api::{
    Access, AffinityKey, Catalog, ColumnId, Error, IndexEntry, Result, RowId, ScanDirection,
    Statement, TableEntry, WriteOutcome,
};

use super::{Input, Kind, Tatp};
use crate::native::{Commands, Key, Native, Part, RowAccess, columns, lock, missing, tables};
use crate::setting::Setting;
use crate::space::{Each, Need, instance_seconds};
use crate::stored::{int, small};
use crate::workload::Ended;

columns! {
    /// Columns of `subscriber`.
    subscriber {
        S_ID SUB_NBR BIT_1 BIT_2 BIT_3 BIT_4 BIT_5 BIT_6 BIT_7 BIT_8 BIT_9 BIT_10
        HEX_1 HEX_2 HEX_3 HEX_4 HEX_5 HEX_6 HEX_7 HEX_8 HEX_9 HEX_10
        BYTE2_1 BYTE2_2 BYTE2_3 BYTE2_4 BYTE2_5 BYTE2_6 BYTE2_7 BYTE2_8 BYTE2_9 BYTE2_10
        MSC_LOCATION VLR_LOCATION
    }
    /// Columns of `access_info`.
    access_info { S_ID AI_TYPE DATA1 DATA2 DATA3 DATA4 }
    /// Columns of `special_facility`.
    special_facility { S_ID SF_TYPE IS_ACTIVE ERROR_CNTRL DATA_A DATA_B }
    /// Columns of `call_forwarding`.
    call_forwarding { S_ID SF_TYPE START_TIME END_TIME NUMBERX }
}

/// Transactions that an instance may do in a second.
const RATE: u64 = 800_000;

tables! { subscriber access_info special_facility call_forwarding }

/// One client's.
pub struct Terminal {
    tables: Tables,
    access: RowAccess,
    /// All columns of a subscriber.
    whole: Vec<ColumnId>,
    /// What a client would be shown.
    shown: Vec<u8>,
}

impl Terminal {
    /// Reads columns of the row with this primary key and shows them, if it is there.
    fn look(
        &mut self,
        commands: &mut Commands<'_>,
        table: &TableEntry,
        key: &impl Key,
        columns: &[ColumnId],
    ) -> Result<Ended<i64>> {
        let found = self.access.find(&mut commands.read(table)?, table, key, columns)?;
        self.access.show(0, &mut self.shown);
        Ok(found.map_or(Ended::Rollback, |_| Ended::Commit(None)))
    }

    /// Finds a subscriber by number and reads `columns`.
    fn by_number(
        &mut self,
        statement: &mut Statement<'_>,
        number: &str,
        columns: &[ColumnId],
    ) -> Result<RowId> {
        let table = &*self.tables.subscriber;
        let (index, key): (&IndexEntry, _) = (&table.indexes[1], [Part::Text(number)]);
        let RowAccess { key: bytes, row, .. } = &mut self.access;
        key.set(bytes, index);
        let found = statement.index_point(table, index, bytes, columns, row)?;
        found.ok_or_else(|| missing(table, &key))
    }

    /// Where calls are forwarded to that come between these times.
    fn new_destination(
        &mut self,
        commands: &mut Commands<'_>,
        (s_id, sf_type): (i32, i16),
        (start, end): (i16, i16),
    ) -> Result<Ended<i64>> {
        let Tables { special_facility: facilities, call_forwarding: forwardings, .. } =
            self.tables.clone();
        let mut statement = commands.read(&facilities)?;
        lock(&mut statement, &[&forwardings], &[])?;
        let key = [Part::Int(s_id), Part::Small(sf_type)];
        let columns = [special_facility::IS_ACTIVE];
        if self.access.find(&mut statement, &facilities, &key, &columns)?.is_none()
            || small(&self.access.row, 0)? != 1
        {
            return Ok(Ended::Rollback);
        }
        use call_forwarding::{END_TIME, NUMBERX, START_TIME};
        let (at, columns) =
            ((&*forwardings, &*forwardings.indexes[0]), [START_TIME, END_TIME, NUMBERX]);
        let mut cursor = self.access.prefix(&statement, at, &key, ScanDirection::Forward, &columns);
        while cursor.next(&mut statement, &mut self.access.row)?.is_some() {
            if small(&self.access.row, 0)? <= start && end < small(&self.access.row, 1)? {
                self.access.show(0, &mut self.shown);
            }
        }
        Ok(if self.shown.is_empty() { Ended::Rollback } else { Ended::Commit(None) })
    }

    /// Sets one column of the row with this key; none if it is not there.
    fn set(
        &mut self,
        commands: &mut Commands<'_>,
        table: &TableEntry,
        key: &impl Key,
        (column, value): (ColumnId, i16),
    ) -> Result<Option<()>> {
        let mut statement = commands.write(table)?;
        let Some(row) = self.access.find(&mut statement, table, key, &[])? else {
            return Ok(None);
        };
        self.access.must_change(&mut statement, (table, row), &[], &[column], |_, stored| {
            stored.small(value);
            Ok(())
        })?;
        Ok(Some(()))
    }

    fn update_location(
        &mut self,
        commands: &mut Commands<'_>,
        number: &str,
        location: i32,
    ) -> Result<Ended<i64>> {
        let table = self.tables.subscriber.clone();
        let mut statement = commands.write(&table)?;
        let row = self.by_number(&mut statement, number, &[])?;
        let changed = [subscriber::VLR_LOCATION];
        self.access.must_change(&mut statement, (&table, row), &[], &changed, |_, stored| {
            stored.int(location);
            Ok(())
        })?;
        Ok(Ended::Commit(None))
    }

    /// The s_id of a subscriber, by number.
    fn subscriber(&mut self, commands: &mut Commands<'_>, number: &str) -> Result<i32> {
        let table = self.tables.subscriber.clone();
        self.by_number(&mut commands.read(&table)?, number, &[subscriber::S_ID])?;
        int(&self.access.row, 0)
    }

    fn insert_forwarding(
        &mut self,
        commands: &mut Commands<'_>,
        (number, sf_type): (&str, i16),
        (start, end): (i16, i16),
        numberx: &str,
    ) -> Result<Ended<i64>> {
        let s_id = self.subscriber(commands, number)?;
        let Tables { special_facility: facilities, call_forwarding: forwardings, .. } =
            self.tables.clone();
        let mut statement = commands.read(&facilities)?;
        let (at, key) = ((&*facilities, &*facilities.indexes[0]), [Part::Int(s_id)]);
        let columns = [special_facility::SF_TYPE];
        let mut cursor = self.access.prefix(&statement, at, &key, ScanDirection::Forward, &columns);
        let mut is_there = false;
        while cursor.next(&mut statement, &mut self.access.row)?.is_some() {
            is_there |= small(&self.access.row, 0)? == sf_type;
        }
        drop(statement);
        if !is_there {
            return Ok(Ended::Rollback);
        }
        let mut statement = commands.write(&forwardings)?;
        let stored = &mut self.access.stored;
        stored.clear();
        stored.int(s_id);
        stored.small(sf_type);
        stored.small(start);
        stored.small(end);
        stored.raw(numberx.as_bytes());
        match self.access.insert(&mut statement, &forwardings) {
            Ok(_) => Ok(Ended::Commit(Some(1))),
            Err(Error::UniqueViolation { .. }) => Ok(Ended::Rollback),
            Err(error) => Err(error),
        }
    }

    fn delete_forwarding(
        &mut self,
        commands: &mut Commands<'_>,
        (number, sf_type): (&str, i16),
        start: i16,
    ) -> Result<Ended<i64>> {
        let s_id = self.subscriber(commands, number)?;
        let table = self.tables.call_forwarding.clone();
        let key = [Part::Int(s_id), Part::Small(sf_type), Part::Small(start)];
        let mut statement = commands.write(&table)?;
        loop {
            let Some(row) = self.access.find(&mut statement, &table, &key, &[])? else {
                return Ok(Ended::Rollback);
            };
            match statement.delete(&table, row)? {
                WriteOutcome::Done => return Ok(Ended::Commit(Some(-1))),
                // Nobody changes forwardings; locked now, it is deleted the next time.
                WriteOutcome::Changed => {}
                // Somebody else has deleted it.
                _ => return Ok(Ended::Rollback),
            }
        }
    }
}

impl Native for Tatp {
    type Tables = Tables;
    type Terminal = Terminal;

    fn tables(catalog: &Catalog) -> std::result::Result<Tables, String> {
        let tables = Tables::find(catalog)?;
        if tables.subscriber.indexes.len() != 2 {
            return Err("table subscriber has not the indexes it should".to_owned());
        }
        Ok(tables)
    }

    fn terminal(&self, tables: Tables) -> Terminal {
        let columns = tables.subscriber.def.columns.len() as u16;
        let whole = (0..columns).map(ColumnId).collect();
        Terminal { tables, access: RowAccess::default(), whole, shown: Vec::new() }
    }

    fn need(&self, setting: &Setting, instances: u16) -> Need {
        let subscribers = (self.subscribers.into(), Each { pages: 1600, log: 1600 });
        // Four of five only read.
        let transaction = Each { pages: 4, log: 80 };
        Need::of(subscribers, (instance_seconds(setting, instances), RATE), transaction)
    }

    fn access(input: &Input) -> Access {
        match input.kind() {
            Kind::GetSubscriberData | Kind::GetNewDestination | Kind::GetAccessData => {
                Access::ReadOnly
            }
            _ => Access::ReadWrite,
        }
    }

    fn key(input: &Input) -> AffinityKey {
        match input {
            Input::GetSubscriberData { s_id }
            | Input::GetNewDestination { s_id, .. }
            | Input::GetAccessData { s_id, .. }
            | Input::UpdateSubscriberData { s_id, .. } => i64::from(*s_id).into(),
            // The same subscriber's: it is s_id in digits.
            Input::UpdateLocation { sub_nbr, .. }
            | Input::InsertCallForwarding { sub_nbr, .. }
            | Input::DeleteCallForwarding { sub_nbr, .. } => sub_nbr.as_str().into(),
        }
    }

    fn run(
        terminal: &mut Terminal,
        commands: &mut Commands<'_>,
        input: &Input,
    ) -> Result<Ended<i64>> {
        terminal.shown.clear();
        let tables = terminal.tables.clone();
        match *input {
            Input::GetSubscriberData { s_id } => {
                let whole = std::mem::take(&mut terminal.whole);
                let key = [Part::Int(s_id)];
                let ended = terminal.look(commands, &tables.subscriber, &key, &whole);
                terminal.whole = whole;
                ended
            }
            Input::GetNewDestination { s_id, sf_type, start_time, end_time } => {
                terminal.new_destination(commands, (s_id, sf_type), (start_time, end_time))
            }
            Input::GetAccessData { s_id, ai_type } => {
                use access_info::{DATA1, DATA2, DATA3, DATA4};
                let key = [Part::Int(s_id), Part::Small(ai_type)];
                let columns = [DATA1, DATA2, DATA3, DATA4];
                terminal.look(commands, &tables.access_info, &key, &columns)
            }
            Input::UpdateSubscriberData { s_id, bit_1, sf_type, data_a } => {
                let (key, change) = ([Part::Int(s_id)], (subscriber::BIT_1, bit_1));
                if terminal.set(commands, &tables.subscriber, &key, change)?.is_none() {
                    return Err(missing(&tables.subscriber, &key));
                }
                let key = [Part::Int(s_id), Part::Small(sf_type)];
                let change = (special_facility::DATA_A, data_a);
                let set = terminal.set(commands, &tables.special_facility, &key, change)?;
                Ok(set.map_or(Ended::Rollback, |()| Ended::Commit(None)))
            }
            Input::UpdateLocation { ref sub_nbr, vlr_location } => {
                terminal.update_location(commands, sub_nbr, vlr_location)
            }
            Input::InsertCallForwarding {
                ref sub_nbr,
                sf_type,
                start_time,
                end_time,
                ref numberx,
            } => {
                let times = (start_time, end_time);
                terminal.insert_forwarding(commands, (sub_nbr, sf_type), times, numberx)
            }
            Input::DeleteCallForwarding { ref sub_nbr, sf_type, start_time } => {
                terminal.delete_forwarding(commands, (sub_nbr, sf_type), start_time)
            }
        }
    }
}
