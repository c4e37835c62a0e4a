//! A session that goes from one instance to another (kernel rule 2.10), and the key of its
//! transactions.
//!
//! What goes along: settings, prepared statements (by text and tree, and what was promised of them; planned
//! again with the plans of the instance they come to), the values of sequences, random()'s state, what the client may
//! know (kernel rule 7.4), the interrupt, where transactions hashed to. What is left behind can be
//! made again: plans, scratch memory, compiled patterns.
//!
//! Invariants: only a session between transactions and without cursors moves; [`Session::depart`]
//! takes it whole or not at all. A [`MovingSession`] is Send and refers to no instance.

use super::affinity::{Affinity, Counted};
use super::cache::{CachedStatement, Shape};
use super::context::Remembered;
use super::settings::Settings;
use super::{Local, Phase, Session, SessionStart};
use crate::parse::statement::Statement;
use crate::plan::Planned;
use crate::types::{Datum, TypeOid};
use atoll_kernel::api::{Instance, InstanceId};
use std::rc::Rc;
use std::sync::Arc;

/// A session between two instances.
pub struct MovingSession {
    kernel: atoll_kernel::api::MovingSession,
    start: SessionStart,
    settings: Settings,
    remembered: Remembered,
    prepared: Vec<(String, MovingStatement)>,
    affinity: Affinity,
}

const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<MovingSession>();
};

/// A prepared statement between two instances.
struct MovingStatement {
    text: Option<Arc<str>>,
    statement: Option<Statement>,
    is_exit: bool,
    declared: Vec<TypeOid>,
    shape: Option<Shape>,
}

impl MovingStatement {
    fn of(cached: &CachedStatement) -> MovingStatement {
        MovingStatement {
            text: cached.text.clone(),
            statement: cached.statement.clone(),
            is_exit: cached.is_exit,
            declared: cached.declared.clone(),
            shape: cached.shape().cloned(),
        }
    }

    /// The statement as the sessions of `local` share it.
    fn arrive(self, local: &Local) -> Rc<CachedStatement> {
        let MovingStatement { text, statement, is_exit, declared, shape } = self;
        if let Some(text) = &text
            && let Some(cached) = local.cache.get(text, &declared)
            && cached.shape() == shape.as_ref()
        {
            return cached;
        }
        let mut cached = CachedStatement::prepared(statement, is_exit, declared);
        cached.text.clone_from(&text);
        cached.promise(shape);
        let cached = Rc::new(cached);
        if let Some(text) = &text {
            local.cache.put(text, &cached.declared, cached.clone());
        }
        cached
    }
}

impl Session {
    /// Notes the key of the transaction, if it has none yet: the hint, or the statement's.
    pub(super) fn note_affinity(&mut self, planned: &Planned, parameters: &[Datum]) {
        if !self.affinity.asks() {
            return;
        }
        // set_config() has no other way to tell.
        let version = self.context.settings.borrow().version;
        if self.settings_version != Some(version) {
            self.apply_settings();
        }
        let of_statement = || planned.affinity.and_then(|source| source.key(parameters));
        if let Some(key) = self.affinity.hint.or_else(of_statement) {
            self.affinity.note(key);
        }
    }

    /// A transaction has ended.
    pub(super) fn end_affinity(&mut self) {
        let Some(near) = self.affinity.end() else { return };
        let here = self.affinity.here();
        let what = if near == here { Counted::Near } else { Counted::Far };
        self.local.engine.routing.count(here, what);
    }

    /// The instance that this session had rather be on, asked between transactions: most of its
    /// transactions hash there.
    pub fn wanted_instance(&self) -> Option<InstanceId> {
        if self.phase != Phase::Idle {
            return None;
        }
        self.affinity.wanted()
    }

    /// Whether the session could as well be on any other instance: its last transactions had no affinity.
    pub fn goes_anywhere(&self) -> bool {
        self.affinity.is_free()
    }

    /// Takes the session apart, to go on on another instance. One that holds what cannot move (an
    /// open transaction, a cursor WITH HOLD) is given back.
    #[expect(clippy::result_large_err, reason = "whoever asks has it, and keeps it")]
    pub fn depart(mut self) -> Result<MovingSession, Session> {
        let here = self.affinity.here();
        let routing = self.local.engine.routing.clone();
        if self.phase != Phase::Idle || self.transaction.is_some() || !self.portals.is_empty() {
            self.affinity.stayed();
            routing.count(here, Counted::Kept);
            return Err(self);
        }
        routing.count(here, Counted::Departed);
        let prepared = self.prepared.iter();
        Ok(MovingSession {
            start: self.context.start(),
            settings: self.context.settings.take(),
            remembered: self.context.remembered(),
            prepared: prepared
                .map(|(name, own)| (name.clone(), MovingStatement::of(own)))
                .collect(),
            affinity: self.affinity,
            kernel: self.kernel.depart(),
        })
    }

    /// Goes on on `instance` as the session that `moving` was.
    pub fn arrive(local: &Rc<Local>, instance: &Instance, moving: MovingSession) -> Session {
        let MovingSession { kernel, start, settings, remembered, prepared, affinity } = moving;
        let kernel = atoll_kernel::api::Session::arrive(instance, kernel);
        let mut session = Session::build(local, instance, kernel, settings, &start);
        session.context.remember(remembered);
        let hint = session.affinity.hint;
        session.affinity = affinity;
        session.affinity.hint = hint;
        session.affinity.moved(instance.id());
        local.engine.routing.count(instance.id(), Counted::Arrived);
        let prepared = prepared.into_iter();
        session.prepared = prepared.map(|(name, own)| (name, own.arrive(local))).collect();
        session
    }
}
