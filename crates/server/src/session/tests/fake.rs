//! A backend that understands a handful of words, on instances without a database.

use std::collections::HashMap;
use std::sync::Arc;

use atoll_kernel::base::InstanceId;
use atoll_kernel::io::Completion;
use atoll_kernel::runtime::{Instance, InstanceState, Parker, Poll, TaskContext};
use atoll_kernel::sync::{AtomicUsize, Ordering};
use atoll_kernel::txn::{Interrupt, Reason};
use atoll_sql::functions::ConstantContext;
use atoll_sql::session::client::{
    Announce, Client, ColumnDescription, CopyInput, Room, StatementDescription, TransactionStatus,
};
use atoll_sql::types::{Datum, Type, TypeOid};
use atoll_sql::{SqlError, SqlResult, SqlState};

use crate::backend::{Backend, BindNames, ClientStart, PortalDescription};

/// What the fake sessions of one server count.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) ended: AtomicUsize,
    pub(super) settled: AtomicUsize,
    pub(super) departed: AtomicUsize,
    pub(super) waits: AtomicUsize,
}

pub(super) struct Fake {
    counts: Arc<Counts>,
    interrupt: Arc<Interrupt>,
    status: TransactionStatus,
    statements: HashMap<String, String>,
    portals: HashMap<String, String>,
    // Where it had rather be, and whether it may not.
    wanted: Option<InstanceId>,
    stuck: bool,
}

/// A fake session between two instances.
pub(super) struct MovingFake {
    counts: Arc<Counts>,
    interrupt: Arc<Interrupt>,
    statements: HashMap<String, String>,
}

fn columns() -> Arc<[ColumnDescription]> {
    let ty = Type::new(TypeOid(23));
    Arc::from([ColumnDescription { name: "n".into(), ty, table: 0, number: 0 }])
}

impl Fake {
    fn run(
        &mut self,
        context: &TaskContext<Nothing>,
        text: &str,
        announce: Announce,
        client: &mut dyn Client,
    ) -> SqlResult<()> {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        match word {
            "" => client.empty_query(),
            "begin" => self.status = TransactionStatus::InBlock,
            "commit" => self.status = TransactionStatus::Idle,
            "go" => self.wanted = Some(InstanceId(rest.parse().unwrap())),
            "stick" => self.stuck = true,
            "where" => {
                client.complete(&format!("AT {}", context.instance().id()));
                return Ok(());
            }
            "interrupted" if self.interrupt.reason().is_some() => {
                return Err(SqlError::new(SqlState::QUERY_CANCELED, "cancelled"));
            }
            "interrupted" => {}
            "panic" => panic!("asked to"),
            "error" => {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "asked to").at(Some(3)));
            }
            "nulls" => {
                let count: usize = rest.parse().unwrap();
                client.begin_rows(&columns(), &[], announce);
                for _ in 0..count {
                    if client.row((&[Datum::Null]).into(), &ConstantContext)? == Room::Full {
                        self.settle(context)?;
                        client.flush()?;
                    }
                }
            }
            "wait" => {
                self.counts.waits.fetch_add(1, Ordering::SeqCst);
                while self.interrupt.reason().is_none() {
                    context.park(Some(context.now_ns() + 1_000_000));
                }
                return Err(match self.interrupt.reason() {
                    Some(Reason::ShutDown) => SqlError::new(SqlState::ADMIN_SHUTDOWN, "stop"),
                    _ => SqlError::new(SqlState::QUERY_CANCELED, "cancelled"),
                });
            }
            "copy" => {
                client.begin_copy_in(1, Default::default())?;
                let mut data = Vec::new();
                loop {
                    match client.read_copy(&mut data)? {
                        CopyInput::Data => {}
                        CopyInput::Done => break,
                        CopyInput::Fail(why) => {
                            return Err(SqlError::new(SqlState::QUERY_CANCELED, why));
                        }
                    }
                }
                client.complete(&format!("COPY {}", data.len()));
                return Ok(());
            }
            other => {
                let message = format!("no word {other}");
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
        }
        client.complete(&word.to_uppercase());
        Ok(())
    }
}

impl Backend<Nothing> for Fake {
    type Shared = Arc<Counts>;
    type Local = Arc<Counts>;
    type Moving = MovingFake;

    fn local(_: &Instance<Nothing>, counts: &Arc<Counts>) -> Arc<Counts> {
        counts.clone()
    }

    fn open(_: &Instance<Nothing>, counts: &Arc<Counts>, start: ClientStart) -> SqlResult<Fake> {
        if start.user != "postgres" {
            let state = SqlState::INVALID_AUTHORIZATION_SPECIFICATION;
            return Err(SqlError::new(state, format!("role \"{}\" does not exist", start.user)));
        }
        Ok(Fake {
            counts: counts.clone(),
            interrupt: Arc::new(Interrupt::new()),
            status: TransactionStatus::Idle,
            statements: HashMap::new(),
            portals: HashMap::new(),
            wanted: None,
            stuck: false,
        })
    }

    fn wanted(&self) -> Option<InstanceId> {
        self.wanted.filter(|_| self.status == TransactionStatus::Idle)
    }

    fn goes_anywhere(&self) -> bool {
        true
    }

    fn depart(mut self) -> Result<MovingFake, Fake> {
        self.wanted = None;
        if self.stuck {
            return Err(self);
        }
        self.counts.departed.fetch_add(1, Ordering::SeqCst);
        let Fake { counts, interrupt, statements, .. } = self;
        Ok(MovingFake { counts, interrupt, statements })
    }

    fn arrive(_: &Instance<Nothing>, _: &Arc<Counts>, moving: MovingFake) -> Fake {
        let MovingFake { counts, interrupt, statements } = moving;
        Fake {
            counts,
            interrupt,
            status: TransactionStatus::Idle,
            statements,
            portals: HashMap::new(),
            wanted: None,
            stuck: false,
        }
    }

    fn reported_settings(&self) -> Vec<(String, String)> {
        vec![("server_version".to_owned(), "15.0".to_owned())]
    }

    fn interrupt(&self) -> Arc<Interrupt> {
        self.interrupt.clone()
    }

    fn simple_query(
        &mut self,
        context: &TaskContext<Nothing>,
        text: &str,
        client: &mut dyn Client,
    ) -> SqlResult<()> {
        self.run(context, text, Announce::Yes, client)
    }

    fn parse(
        &mut self,
        _: &TaskContext<Nothing>,
        name: &str,
        text: &str,
        _: &[u32],
    ) -> SqlResult<()> {
        self.statements.insert(name.to_owned(), text.to_owned());
        Ok(())
    }

    fn describe_statement(
        &mut self,
        _: &TaskContext<Nothing>,
        name: &str,
    ) -> SqlResult<StatementDescription> {
        let text = &self.statements[name];
        let columns = text.starts_with("nulls").then(columns);
        Ok(StatementDescription { parameters: Vec::new(), columns })
    }

    fn bind(&mut self, _: &TaskContext<Nothing>, bind: &BindNames<'_>) -> SqlResult<()> {
        let text = self.statements.get(bind.statement).ok_or_else(|| {
            SqlError::new(SqlState::INVALID_SQL_STATEMENT_NAME, "no such statement")
        })?;
        let text = bind.parameters.iter().flatten().fold(text.clone(), |text, parameter| {
            text + " " + std::str::from_utf8(parameter).unwrap()
        });
        self.portals.insert(bind.portal.to_owned(), text);
        Ok(())
    }

    fn describe_portal(
        &mut self,
        _: &TaskContext<Nothing>,
        _: &str,
    ) -> SqlResult<PortalDescription> {
        Ok(None)
    }

    fn execute(
        &mut self,
        context: &TaskContext<Nothing>,
        portal: &str,
        _: i32,
        client: &mut dyn Client,
    ) -> SqlResult<()> {
        let text = self.portals[portal].clone();
        self.run(context, &text, Announce::No, client)
    }

    fn close_statement(&mut self, _: &TaskContext<Nothing>, name: &str) {
        self.statements.remove(name);
    }

    fn close_portal(&mut self, _: &TaskContext<Nothing>, name: &str) {
        self.portals.remove(name);
    }

    fn sync(&mut self, _: &TaskContext<Nothing>, _: &mut dyn Client) -> SqlResult<()> {
        Ok(())
    }

    fn fail(&mut self, _: &TaskContext<Nothing>) {
        if self.status == TransactionStatus::InBlock {
            self.status = TransactionStatus::Failed;
        }
    }

    fn settle(&mut self, context: &TaskContext<Nothing>) -> SqlResult<()> {
        context.park(Some(context.now_ns() + 100_000));
        self.counts.settled.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn status(&self) -> TransactionStatus {
        self.status
    }

    fn end(self, context: &TaskContext<Nothing>) {
        context.yield_now();
        self.counts.ended.fetch_add(1, Ordering::SeqCst);
    }
}

/// Instances without a database.
pub(super) struct Nothing;

impl InstanceState for Nothing {
    fn poll(&self, _: &Instance<Nothing>) -> Poll {
        Poll::Idle
    }
    fn completed(&self, _: &Instance<Nothing>, _: Completion) {}
}
