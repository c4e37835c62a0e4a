//! One conversation: a task that answers all messages that have arrived, then ends.
//!
//! Invariants: it holds the session's backend while it runs and gives it back at its end; between
//! conversations a session has no stack. After an error in the extended protocol everything up to
//! Sync is skipped. Responses are handed to the link after the backend has settled: at the end of
//! the input, or earlier when much is encoded. Names and texts are checked for UTF-8 here.

use atoll_kernel::runtime::{InstanceState, Parker};
use atoll_kernel::txn::Unsettled;
use atoll_sql::session::client::{Client, TransactionStatus};
use atoll_sql::{SqlError, SqlResult, SqlState};

use crate::backend::{Backend, BindNames};
use crate::codec::{Bind, Decoded, DescribeTarget, ErrorSeverity, Frontend, Parse, decode};

use super::link::{Link, Receiving};
use super::wire::Wire;

/// Encoded bytes after which a pipeline's answers are sent before its end.
const PIPELINE_BYTES_MAX: usize = 16 * 1024;

/// What follows a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The session waits for more input.
    Open,
    /// The same once what is encoded has settled, by the instance's own log: no stack is needed to
    /// wait for that.
    Settle,
    /// The session has ended; what was said is to be sent, then the socket closed.
    Close,
}

/// Whether messages are answered or skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) enum Mode {
    /// Answered.
    #[default]
    Normal,
    /// Skipped until Sync, after an error.
    Skip,
}

/// Where a session stands in the protocol between conversations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) mode: Mode,
    // Messages of the extended protocol came since the last Sync: an implicit transaction may be
    // open, so the next conversation continues it (kernel rule 2.4).
    pub(super) since_sync: bool,
}

enum Step {
    Go,
    Wait,
    Query,
    Execute(i32),
    Sync,
    Flush,
    Fatal(SqlError),
    Close,
}

/// A running conversation.
pub(super) struct Conversation<'c, S: InstanceState, B: Backend<S>> {
    pub(super) backend: &'c mut B,
    pub(super) wire: Wire<'c, S>,
    pub(super) progress: &'c mut Progress,
    // A copy of the query's text or the portal's name: COPY reads on in the input meanwhile.
    pub(super) scratch: Vec<u8>,
}

impl<S: InstanceState, B: Backend<S>> Conversation<'_, S, B> {
    /// Answers everything that has arrived.
    pub(super) fn run(&mut self) -> Verdict {
        loop {
            match self.step() {
                Step::Go => {}
                Step::Wait if self.wire.link.receiving() == Receiving::Ended => {
                    // It may still read: what it asked for before is answered.
                    let verdict = self.finish(Verdict::Close);
                    let _ = self.wire.flush();
                    return verdict;
                }
                Step::Wait => return self.finish(Verdict::Open),
                Step::Close => return self.finish(Verdict::Close),
                Step::Query => {
                    if let Some(fatal) = self.query() {
                        return self.fatal(&fatal);
                    }
                }
                Step::Execute(rows_max) => {
                    if let Some(fatal) = self.execute(rows_max) {
                        return self.fatal(&fatal);
                    }
                }
                Step::Sync => self.sync(),
                Step::Flush => {
                    if let Err(error) = self.settle_and_hand_over() {
                        return self.fatal(&error);
                    }
                }
                Step::Fatal(error) => return self.fatal(&error),
            }
            if self.wire.out.bytes.len() > PIPELINE_BYTES_MAX
                && let Err(error) = self.settle_and_hand_over()
            {
                return self.fatal(&error);
            }
            // Others run between two messages of a long pipeline.
            if self.wire.context.should_yield() {
                self.wire.context.yield_now();
            }
        }
    }

    /// Takes one message; those that need the input no longer are left to the caller.
    fn step(&mut self) -> Step {
        let link: &Link = self.wire.link;
        let input = link.input.borrow();
        let (message, taken) = match decode(input.unread(), self.wire.limits) {
            Ok(Decoded::Message(message, taken)) => (message, taken),
            Ok(Decoded::Incomplete(_)) => return Step::Wait,
            Ok(Decoded::Bad { tag, why, taken }) => {
                drop(input);
                link.input.borrow_mut().consume(taken);
                return self.bad(tag, SqlError::new(SqlState::PROTOCOL_VIOLATION, why.0));
            }
            Err(bad) => return Step::Fatal(SqlError::new(SqlState::PROTOCOL_VIOLATION, bad.0)),
        };
        let skip = self.progress.mode == Mode::Skip;
        let step = match message {
            Frontend::Terminate => Step::Close,
            Frontend::Sync => Step::Sync,
            _ if skip => Step::Go,
            Frontend::Query(text) => self.keep(text, Step::Query),
            Frontend::Execute { portal, rows_max } => self.keep(portal, Step::Execute(rows_max)),
            Frontend::Flush => Step::Flush,
            Frontend::Parse(parse) => {
                let done = self.parse(parse);
                self.extended(done)
            }
            Frontend::Bind(bind) => {
                let done = self.bind(bind);
                self.extended(done)
            }
            Frontend::Describe(target) => {
                let done = self.describe(target);
                self.extended(done)
            }
            Frontend::Close(target) => {
                let done = self.close(target);
                self.extended(done)
            }
            // Left over from a COPY that has failed.
            Frontend::CopyData(_) | Frontend::CopyDone | Frontend::CopyFail(_) => Step::Go,
            Frontend::Password(_) => Step::Fatal(SqlError::new(
                SqlState::PROTOCOL_VIOLATION,
                "unexpected password message",
            )),
            Frontend::FunctionCall(_) => {
                self.refuse(&SqlError::not_supported("the function call protocol"));
                Step::Go
            }
        };
        drop(input);
        link.input.borrow_mut().consume(taken);
        step
    }

    /// A whole message whose body is wrong: where the next one begins is known, so the session goes on.
    fn bad(&mut self, tag: u8, error: SqlError) -> Step {
        match tag {
            b'Q' if self.progress.mode == Mode::Normal => {
                self.refuse(&error);
                Step::Go
            }
            b'P' | b'B' | b'D' | b'E' | b'C' if self.progress.mode == Mode::Normal => {
                self.extended(Err(error))
            }
            b'Q' | b'P' | b'B' | b'D' | b'E' | b'C' | b'd' | b'c' | b'f' => Step::Go,
            _ => Step::Fatal(error),
        }
    }

    fn keep(&mut self, bytes: &[u8], step: Step) -> Step {
        self.scratch.clear();
        self.scratch.extend_from_slice(bytes);
        step
    }

    /// A message of the extended protocol was answered or has failed.
    fn extended(&mut self, done: SqlResult<()>) -> Step {
        self.progress.since_sync = true;
        if let Err(error) = done {
            self.wire.error(ErrorSeverity::Error, &error);
            self.backend.fail(self.wire.context);
            self.progress.mode = Mode::Skip;
        }
        Step::Go
    }

    fn parse(&mut self, parse: Parse<'_>) -> SqlResult<()> {
        let (name, text) = (utf8(parse.name)?, utf8(parse.text)?);
        let types: Vec<u32> = parse.types.iter().collect();
        self.backend.parse(self.wire.context, name, text, &types)?;
        self.wire.out.parse_complete();
        Ok(())
    }

    fn bind(&mut self, bind: Bind<'_>) -> SqlResult<()> {
        let (portal, statement) = (utf8(bind.portal)?, utf8(bind.statement)?);
        let Bind { formats, parameters, results, .. } = bind;
        let names = BindNames { portal, statement, formats, parameters, results };
        self.backend.bind(self.wire.context, &names)?;
        self.wire.out.bind_complete();
        Ok(())
    }

    fn describe(&mut self, target: DescribeTarget<'_>) -> SqlResult<()> {
        match target {
            DescribeTarget::Statement(name) => {
                let name = utf8(name)?;
                let description = self.backend.describe_statement(self.wire.context, name)?;
                self.wire.describe_statement(&description);
            }
            DescribeTarget::Portal(name) => {
                let name = utf8(name)?;
                match self.backend.describe_portal(self.wire.context, name)? {
                    Some((columns, formats)) => self.wire.describe_columns(&columns, &formats),
                    None => self.wire.out.no_data(),
                }
            }
        }
        Ok(())
    }

    fn close(&mut self, target: DescribeTarget<'_>) -> SqlResult<()> {
        match target {
            DescribeTarget::Statement(name) => {
                self.backend.close_statement(self.wire.context, utf8(name)?);
            }
            DescribeTarget::Portal(name) => {
                self.backend.close_portal(self.wire.context, utf8(name)?);
            }
        }
        self.wire.out.close_complete();
        Ok(())
    }

    /// A simple query; answers the error that ends the session, if one does.
    fn query(&mut self) -> Option<SqlError> {
        let scratch = std::mem::take(&mut self.scratch);
        let done = match utf8(&scratch) {
            Ok(text) => self.backend.simple_query(self.wire.context, text, &mut self.wire),
            Err(error) => {
                self.backend.fail(self.wire.context);
                Err(error)
            }
        };
        self.scratch = scratch;
        if let Err(error) = done {
            if ends_session(&error) {
                return Some(error);
            }
            self.wire.error(ErrorSeverity::Error, &error);
        }
        self.ready();
        None
    }

    /// Execute; answers the error that ends the session, if one does.
    fn execute(&mut self, rows_max: i32) -> Option<SqlError> {
        let scratch = std::mem::take(&mut self.scratch);
        let done = utf8(&scratch).and_then(|portal| {
            self.backend.execute(self.wire.context, portal, rows_max, &mut self.wire)
        });
        self.scratch = scratch;
        match done {
            Err(error) if ends_session(&error) => Some(error),
            done => {
                self.extended(done);
                None
            }
        }
    }

    fn sync(&mut self) {
        if let Err(error) = self.backend.sync(self.wire.context, &mut self.wire) {
            self.wire.error(ErrorSeverity::Error, &error);
        }
        *self.progress = Progress::default();
        self.ready();
    }

    /// A message that has failed as a query does: it is answered, and no Sync is waited for.
    fn refuse(&mut self, error: &SqlError) {
        self.wire.error(ErrorSeverity::Error, error);
        self.backend.fail(self.wire.context);
        self.ready();
    }

    fn ready(&mut self) {
        // What came before is over: a cancel that comes too late for it is not meant for what follows.
        self.backend.interrupt().clear();
        self.wire.out.ready_for_query(self.backend.status().letter());
    }

    fn settle_and_hand_over(&mut self) -> SqlResult<()> {
        if self.wire.out.bytes.is_empty() {
            return Ok(());
        }
        // What an open transaction has read is told before it ends; then it counts.
        if self.backend.status() == TransactionStatus::Idle && !self.progress.since_sync {
            let (context, backend) = (self.wire.context, &mut *self.backend);
            context.uncounted(|| backend.settle(context))?;
        } else {
            self.backend.settle(self.wire.context)?;
        }
        if self.wire.link.all_sent() {
            self.wire.hand_over();
            Ok(())
        } else {
            // The client reads slowly: the next response waits for the last one to leave.
            self.wire.flush()
        }
    }

    fn finish(&mut self, verdict: Verdict) -> Verdict {
        if verdict == Verdict::Open && self.may_settle_later() {
            return Verdict::Settle;
        }
        match self.settle_and_hand_over() {
            Ok(()) => verdict,
            Err(error) => self.fatal(&error),
        }
    }

    fn may_settle_later(&mut self) -> bool {
        !self.wire.out.bytes.is_empty()
            && self.backend.status() == TransactionStatus::Idle
            && !self.progress.since_sync
            && self.wire.link.all_sent()
            && self.backend.unsettled() == Unsettled::OwnLog
    }

    /// Ends the session with an error. What was encoded before it may not be settled, so it is
    /// not sent (kernel rule 7.6).
    fn fatal(&mut self, error: &SqlError) -> Verdict {
        if self.backend.settle(self.wire.context).is_err() {
            self.wire.out.bytes.clear();
        }
        if std::mem::take(&mut self.wire.lost) {
            // As PostgreSQL does when a message of another kind interrupts COPY.
            self.wire.error(ErrorSeverity::Error, error);
            let message = "terminating connection because protocol synchronization was lost";
            let error = SqlError::new(SqlState::PROTOCOL_VIOLATION, message);
            self.wire.error(ErrorSeverity::Fatal, &error);
        } else {
            self.wire.error(ErrorSeverity::Fatal, error);
        }
        self.wire.hand_over();
        Verdict::Close
    }
}

/// Errors after which the client cannot be talked to any more, or must not.
fn ends_session(error: &SqlError) -> bool {
    matches!(
        error.sqlstate(),
        SqlState::PROTOCOL_VIOLATION
            | SqlState::CONNECTION_FAILURE
            | SqlState::ADMIN_SHUTDOWN
            | SqlState::CRASH_SHUTDOWN
    )
}

/// Text as the client sent it.
pub(super) fn utf8(bytes: &[u8]) -> SqlResult<&str> {
    std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        let end = error.error_len().map_or(bytes.len(), |length| at + length).min(at + 4);
        let shown: Vec<String> =
            bytes[at..end].iter().map(|byte| format!("0x{byte:02x}")).collect();
        SqlError::new(
            SqlState::CHARACTER_NOT_IN_REPERTOIRE,
            format!("invalid byte sequence for encoding \"UTF8\": {}", shown.join(" ")),
        )
    })
}
