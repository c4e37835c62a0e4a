//! COPY FROM STDIN and COPY TO STDOUT.
//!
//! Invariants: a COPY is one command: all its rows or none. FREEZE follows PostgreSQL's rule: only
//! into a table that this transaction made or truncated (55000).

mod output;

use super::Session;
use super::client::{Announce, Client, CopyInput, Format};
use super::execute::{Answer, Sending};
use crate::copy::{CopyFormat, Decoded, Decoder, Fields, Form};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::exec::Cx;
use crate::exec::gather::{Gathered, Refused};
use crate::exec::program::{Program, Step};
use crate::parse::ast::{At, Body, Expr, ExprKind, FromItem, Name, Query, Select, Target, With};
use crate::parse::statement::{Copy, CopyDirection, Insert, Overriding, Statement};
use crate::plan::{Action, InsertPlan, Modification, ModifyPlan};
use crate::relations::RelationInfo;
use crate::session::cache::CachedStatement;
use crate::types::{Datum, Type, binary, text as text_form};
use atoll_kernel::api::{Context, Error, Frozen, Statement as KernelStatement, TableLockMode};

fn expr(kind: ExprKind) -> Expr {
    Expr { kind, at: At::NONE }
}

fn column(name: &str) -> Expr {
    expr(ExprKind::Column { parts: vec![name.to_owned()], star: false })
}

impl Session {
    /// COPY; answers how many rows went in or out.
    pub(super) fn copy(
        &mut self,
        context: &Context,
        copy: &Copy,
        client: &mut dyn Client,
    ) -> SqlResult<u64> {
        let options = CopyFormat::from_options(&copy.options, copy.direction)?;
        match copy.direction {
            CopyDirection::Out => self.copy_out(context, copy, &options, client),
            CopyDirection::In => self.copy_in(context, copy, &options, client),
        }
    }

    fn copy_out(
        &mut self,
        context: &Context,
        copy: &Copy,
        options: &CopyFormat,
        client: &mut dyn Client,
    ) -> SqlResult<u64> {
        let query = match (&copy.query, &copy.table) {
            (Some(query), _) => context.on_thread_stack(|| query.clone()),
            (None, Some(table)) => {
                let star = expr(ExprKind::Column { parts: Vec::new(), star: true });
                let columns: Vec<Expr> = match copy.columns.as_slice() {
                    [] => vec![star],
                    names => names.iter().map(|name| column(name)).collect(),
                };
                let targets = columns.into_iter().map(|expr| Target { expr, alias: None });
                let from = vec![FromItem::Relation { name: table.clone(), alias: None }];
                plain_query(Select {
                    distinct: None,
                    targets: targets.collect(),
                    from,
                    filter: None,
                    group_by: Vec::new(),
                    having: None,
                })
            }
            (None, None) => return Err(SqlError::internal("COPY of nothing")),
        };
        let view = self.view();
        let relation = match &copy.table {
            Some(table) => Some(view.table(table)?),
            None => None,
        };
        let missing = |column: &str| match (&relation, &copy.table) {
            (Some(info), Some(table)) => missing_column(info, &table.name, column),
            _ => Some(SqlError::new(
                SqlState::UNDEFINED_COLUMN,
                format!("column \"{column}\" does not exist"),
            )),
        };
        if relation.is_some() {
            check_columns(copy, &missing)?;
        }
        let statement = Statement::Query(Box::new(query));
        let cached = CachedStatement::new(Some(statement), false, Vec::new());
        let mut out = output::CopyOut::new(client, options, &missing);
        let sending =
            Sending { announce: Announce::No, formats: &[], rows_max: 0, answer: Answer::Send };
        self.run_planned(context, &cached, &[], sending, &mut out)?;
        out.finish()
    }

    fn copy_in(
        &mut self,
        context: &Context,
        copy: &Copy,
        options: &CopyFormat,
        client: &mut dyn Client,
    ) -> SqlResult<u64> {
        let Some(table) = &copy.table else {
            return Err(SqlError::internal("COPY FROM without a table"));
        };
        self.ensure_transaction(context)?;
        self.queried = true;
        self.check_writable("COPY FROM")?;
        let view = self.view();
        let info = view.table(table)?;
        let names: Vec<String> = match copy.columns.as_slice() {
            [] => info.columns.iter().map(|column| column.name.to_string()).collect(),
            names => names.to_vec(),
        };
        let missing = |column: &str| missing_column(&info, &table.name, column);
        check_columns(copy, &missing)?;
        options.resolve(&names, missing)?;
        let cached = CachedStatement::new(Some(insert_of(table, &names)), false, Vec::new());
        let entry = self.plan(context, &cached)?;
        let Action::Modify(modify) = &entry.planned.action else {
            return Err(SqlError::internal("an INSERT that changes nothing"));
        };
        let Modification::Insert { source: InsertPlan::Values(rows), .. } = &modify.modification
        else {
            return Err(SqlError::internal("an INSERT without VALUES"));
        };
        let Some(transaction) = &mut self.transaction else {
            return Err(SqlError::internal("COPY without a transaction"));
        };
        let mut statement = transaction.statement(&mut self.kernel, context)?;
        lock_for_copy(&mut statement, modify, options)?;
        client.begin_copy_in(names.len(), wire_format(options))?;
        // What came before goes out with this, before the command ends.
        statement.settle();
        let functions = self.context.clone();
        let (pool, allowed) = (&self.local.scratch, &mut self.allowed);
        let mut scratch = pool.lend(allowed);
        let mut cx =
            Cx::begin(&entry.planned, &[], &*functions, &view, &mut statement, &mut scratch);
        let types = names.iter().map(|name| {
            let index = info.column(name).unwrap_or(0);
            info.columns[index].ty
        });
        let mut reader = Reader {
            modify,
            programs: &rows[0],
            names: &names,
            types: types.collect(),
            gathered: Gathered::new(if options.freeze { Frozen::Yes } else { Frozen::No }),
            form: options.form,
            decoder: Decoder::new(options, &names),
            fields: Fields::new(),
            values: Vec::new(),
            rows: 0,
        };
        let result = reader.run(client, &mut cx);
        let count = reader.rows;
        cx.end(&mut scratch);
        pool.give_back(scratch, allowed);
        result.map(|()| count)
    }
}

/// Text and CSV go as text.
fn wire_format(options: &CopyFormat) -> Format {
    if options.form == Form::Binary { Format::Binary } else { Format::Text }
}

/// The error for a name that is no column of the table; none if it is one.
fn missing_column(info: &RelationInfo, table: &str, column: &str) -> Option<SqlError> {
    info.column(column).is_none().then(|| {
        SqlError::new(
            SqlState::UNDEFINED_COLUMN,
            format!("column \"{column}\" of relation \"{table}\" does not exist"),
        )
    })
}

/// The columns that are written must be there, each once (42703, 42701).
fn check_columns(copy: &Copy, missing: &dyn Fn(&str) -> Option<SqlError>) -> SqlResult<()> {
    for (at, column) in copy.columns.iter().enumerate() {
        if let Some(error) = missing(column) {
            return Err(error);
        }
        if copy.columns[..at].contains(column) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_COLUMN,
                format!("column \"{column}\" specified more than once"),
            ));
        }
    }
    Ok(())
}

/// The INSERT that a COPY is, a parameter a column.
fn insert_of(table: &Name, names: &[String]) -> Statement {
    // The values come as parameters; columns that are not named get their defaults.
    let values = (0..names.len()).map(|i| expr(ExprKind::Parameter(i as u16 + 1))).collect();
    let insert = Insert {
        conflict: None,
        with: With::default(),
        table: table.clone(),
        alias: None,
        columns: names.iter().map(|name| (name.clone(), At::NONE)).collect(),
        source: Some(Query {
            with: With::default(),
            body: Body::Values(vec![values]),
            order_by: Vec::new(),
            limit: None,
            offset: None,
            for_update: None,
        }),
        // As PostgreSQL does, COPY gives identity columns what the data say.
        overriding: Overriding::System,
        returning: Vec::new(),
    };
    Statement::Insert(Box::new(insert))
}

/// Locks the table, and checks FREEZE's rule.
fn lock_for_copy(
    statement: &mut KernelStatement<'_>,
    modify: &ModifyPlan,
    options: &CopyFormat,
) -> SqlResult<()> {
    match statement.lock_table(modify.table.def.oid, TableLockMode::RowExclusive) {
        Ok(()) => {}
        Err(Error::CatalogChanged) => {
            return Err(SqlError::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                "the table was redefined while COPY waited for it; try again",
            ));
        }
        Err(error) => return Err(error.into()),
    }
    if options.freeze && !statement.is_new_table(&modify.table) {
        return Err(SqlError::new(
            SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            "cannot perform COPY FREEZE because the table was not created or truncated in the current subtransaction",
        ));
    }
    Ok(())
}

fn plain_query(select: Select) -> Query {
    Query {
        with: With::default(),
        body: Body::Select(Box::new(select)),
        order_by: Vec::new(),
        limit: None,
        offset: None,
        for_update: None,
    }
}

/// COPY FROM at work.
struct Reader<'r> {
    modify: &'r ModifyPlan,
    programs: &'r [Program],
    names: &'r [String],
    types: Vec<Type>,
    gathered: Gathered,
    form: Form,
    decoder: Decoder,
    fields: Fields,
    values: Vec<Datum>,
    rows: u64,
}

impl Reader<'_> {
    fn run(&mut self, client: &mut dyn Client, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        let read = self.read_all(client, cx);
        // What is wrong with a row comes before what is wrong behind it.
        self.flush(cx)?;
        read
    }

    fn read_all(&mut self, client: &mut dyn Client, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        let mut ended = false;
        loop {
            ended = ended || self.take_all(cx)?;
            if ended && self.form == Form::Binary && self.decoder.has_rest() {
                return Err(bad("received copy data after EOF marker").context(self.place(0)));
            }
            match client.read_copy(self.decoder.input())? {
                CopyInput::Data if ended && self.form != Form::Binary => {
                    self.decoder.input().clear();
                }
                CopyInput::Data => {}
                CopyInput::Done => break,
                CopyInput::Fail(message) => {
                    return Err(SqlError::new(
                        SqlState::QUERY_CANCELED,
                        format!("COPY from stdin failed: {message}"),
                    )
                    .context(self.place(1)));
                }
            }
        }
        self.decoder.finish();
        if !ended {
            self.take_all(cx)?;
        }
        Ok(())
    }

    /// Takes the rows that are whole; true if the end's mark was among them.
    fn take_all(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        loop {
            let decoded = self.decoder.next(&mut self.fields);
            match decoded.map_err(|error| match (self.fields.failed(), self.decoder.line()) {
                // Before the first row.
                (_, 0) => error,
                (Some(column), _) => error.context(self.column(column)),
                (None, _) => error.context(self.place_with_line()),
            })? {
                Decoded::NeedsMore => return Ok(false),
                Decoded::End => return Ok(true),
                Decoded::Row => {}
            }
            cx.breathe()?;
            self.take(cx).map_err(|error| match error.fields().context {
                Some(_) => error,
                None => error.context(self.place_with_line()),
            })?;
        }
    }

    fn place(&self, further: u64) -> String {
        format!("COPY {}, line {}", self.modify.info.name, self.decoder.line() + further)
    }

    fn place_with_line(&self) -> String {
        match self.decoder.line_text() {
            Some(line) => format!("{}: \"{}\"", self.place(0), shortened(line)),
            None => self.place(0),
        }
    }

    fn column(&self, number: usize) -> String {
        format!("{}, column {}", self.place(0), self.names[number])
    }

    fn take(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        if self.fields.len() > self.names.len() {
            return Err(bad("extra data after last expected column"));
        }
        if let Some(missing) = self.names.get(self.fields.len()) {
            return Err(bad(format!("missing data for column \"{missing}\"")));
        }
        self.values.clear();
        for program in self.programs {
            let value = match &*program.steps {
                // A conversion of the parameter to the column's modifier is done in reading.
                [Step::Parameter(number), ..] => self.read(*number as usize, cx)?,
                _ => program.eval(cx)?,
            };
            self.values.push(value);
        }
        let place = self.decoder.line();
        let taken = self.gathered.take(self.modify, &self.values, place, cx);
        taken.map_err(|refused| self.refused(refused))?;
        self.rows += 1;
        Ok(())
    }

    /// Inserts what is gathered.
    fn flush(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        self.gathered.flush(self.modify, cx).map_err(|refused| self.refused(refused))
    }

    /// The error of a row, with the line that it comes from.
    fn refused(&self, Refused { error, place }: Refused) -> SqlError {
        let is_here = place == self.decoder.line();
        match error.fields().context {
            Some(_) => error,
            // As PostgreSQL, which by then has gone on to other lines.
            None if error.sqlstate() == SqlState::UNIQUE_VIOLATION || !is_here => {
                error.context(format!("COPY {}, line {place}", self.modify.info.name))
            }
            None => error.context(self.place_with_line()),
        }
    }

    fn read(&self, number: usize, cx: &Cx<'_, '_>) -> SqlResult<Datum> {
        let ty = self.types[number];
        if self.form == Form::Binary {
            let Some(bytes) = self.fields.bytes(number) else { return Ok(Datum::Null) };
            return binary::receive(ty, bytes, cx.functions)
                .map_err(|error| error.context(self.column(number)));
        }
        let Some(field) = self.fields.get(number)? else { return Ok(Datum::Null) };
        text_form::input(ty, field, cx.functions).map_err(|error| {
            error.context(format!("{}: \"{}\"", self.column(number), shortened(field)))
        })
    }
}

/// At most a hundred bytes of what an error shows.
fn shortened(text: &str) -> String {
    const BYTES_MAX: usize = 100;
    if text.len() <= BYTES_MAX {
        return text.to_owned();
    }
    let end = (0..=BYTES_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}...", &text[..end])
}

fn bad(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, message)
}
