//! Statements of an instance, by text: parsed once, planned once.
//!
//! Invariants: an entry's plan is used only with the very catalog it was made for, the same search
//! path and the same choices of the planner; otherwise it is made anew. Entries are shared by the sessions of one instance.
//! The cache is bounded, by entries and by how long their texts are: when it is full it starts again.

use crate::bind;
use crate::error::SqlResult;
use crate::parse::statement::{Statement, Utility};
use crate::plan::{self, Choices, Planned};
use crate::relations::CatalogView;
use crate::types::TypeOid;
use atoll_kernel::api::{Catalog, Context};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// Entries that a cache holds.
const ENTRIES_MAX: usize = 4096;
/// Longer texts are not kept: few come twice, and a cache of them would hold gigabytes.
const TEXT_BYTES_MAX: usize = 16 << 10;

/// A plan with what it was made for.
pub struct PlanEntry {
    /// The plan.
    pub planned: Planned,
    catalog: Arc<Catalog>,
    path: Arc<[Arc<str>]>,
    statistics: u64,
    choices: Choices,
}

impl PlanEntry {
    /// A plan that is not kept.
    pub fn alone(
        planned: Planned,
        catalog: Arc<Catalog>,
        path: Arc<[Arc<str>]>,
        choices: Choices,
    ) -> PlanEntry {
        PlanEntry { planned, catalog, path, statistics: 0, choices }
    }

    /// Was it made for this very catalog?
    pub fn is_for(&self, catalog: &Arc<Catalog>) -> bool {
        Arc::ptr_eq(&self.catalog, catalog)
    }
}

/// A statement that can be planned.
pub struct CachedStatement {
    /// The statement; None for an empty text.
    pub statement: Option<Statement>,
    /// COMMIT, ROLLBACK: what a failed transaction takes.
    pub is_exit: bool,
    /// The declared types of its parameters.
    pub declared: Vec<TypeOid>,
    /// It may have other parameters than those declared.
    pub open: bool,
    /// The text by which the cache has it.
    pub text: Option<Arc<str>>,
    /// Of DECLARE CURSOR, its query.
    pub query: Option<Rc<CachedStatement>>,
    plan: RefCell<Option<Rc<PlanEntry>>>,
}

impl CachedStatement {
    /// A statement not planned yet.
    pub fn new(
        statement: Option<Statement>,
        is_exit: bool,
        declared: Vec<TypeOid>,
    ) -> CachedStatement {
        CachedStatement::made(statement, is_exit, declared, true)
    }

    fn made(
        statement: Option<Statement>,
        is_exit: bool,
        declared: Vec<TypeOid>,
        open: bool,
    ) -> CachedStatement {
        let query = match &statement {
            Some(Statement::Utility(utility)) => match &**utility {
                Utility::DeclareCursor(declare) => {
                    let query = Some(Statement::Query(declare.query.clone()));
                    Some(Rc::new(CachedStatement::made(query, false, declared.clone(), open)))
                }
                _ => None,
            },
            _ => None,
        };
        let (text, plan) = (None, RefCell::new(None));
        CachedStatement { statement, is_exit, declared, open, text, query, plan }
    }

    /// A statement of a simple query: it has no parameters but those declared.
    pub fn closed(statement: Statement, is_exit: bool, declared: Vec<TypeOid>) -> CachedStatement {
        CachedStatement::made(Some(statement), is_exit, declared, false)
    }

    /// Is it a query or a data change?
    pub fn is_planned(&self) -> bool {
        !matches!(self.statement, None | Some(Statement::Utility(_)))
    }

    /// What of it is planned, and has its parameters: itself, or a cursor's query.
    pub fn planned_part(&self) -> Option<&CachedStatement> {
        if self.is_planned() { Some(self) } else { self.query.as_deref() }
    }

    /// The plan for this catalog and version of the statistics, made now if need be. Errors' positions are in bytes.
    pub fn plan(
        &self,
        context: &Context,
        catalog: &Arc<Catalog>,
        statistics: u64,
        view: impl FnOnce() -> CatalogView,
        path: &Arc<[Arc<str>]>,
        choices: Choices,
    ) -> SqlResult<Rc<PlanEntry>> {
        if let Some(entry) = &*self.plan.borrow()
            && Arc::ptr_eq(&entry.catalog, catalog)
            && entry.statistics == statistics
            && (Arc::ptr_eq(&entry.path, path) || entry.path == *path)
            && entry.choices == choices
        {
            return Ok(entry.clone());
        }
        let view = view();
        let Some(statement) = &self.statement else {
            return Err(crate::SqlError::internal("an empty statement has no plan"));
        };
        let (declared, open) = (&self.declared, self.open);
        let planned = context.on_thread_stack(|| -> SqlResult<Planned> {
            let binding = match open {
                true => bind::bind(&view, statement, declared)?,
                false => bind::bind_closed(&view, statement, declared)?,
            };
            plan::plan(&view, &binding, choices)
        })?;
        let (catalog, path) = (catalog.clone(), path.clone());
        let entry = Rc::new(PlanEntry { planned, catalog, path, statistics, choices });
        *self.plan.borrow_mut() = Some(entry.clone());
        Ok(entry)
    }
}

/// What a text of the extended protocol is looked up by.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    text: String,
    types: Vec<TypeOid>,
}

/// A template of simple-protocol texts that differ in literals only.
pub struct Template {
    /// The statement, with parameters in the place of literals.
    pub cached: Rc<CachedStatement>,
    /// For each literal of the text: its parameter, or the value that it must have.
    pub places: Vec<super::literals::Place>,
}

/// The statements of an instance.
#[derive(Default)]
pub struct Cache {
    statements: RefCell<HashMap<Key, Rc<CachedStatement>>>,
    templates: RefCell<HashMap<String, Vec<Rc<Template>>>>,
}

impl Cache {
    /// The statement of an extended Parse, if it was seen before.
    pub fn get(&self, text: &str, types: &[TypeOid]) -> Option<Rc<CachedStatement>> {
        let key = Key { text: text.to_owned(), types: types.to_vec() };
        self.statements.borrow().get(&key).cloned()
    }

    /// Keeps the statement of an extended Parse.
    pub fn put(&self, text: &str, types: &[TypeOid], statement: Rc<CachedStatement>) {
        if text.len() > TEXT_BYTES_MAX {
            return;
        }
        let mut statements = self.statements.borrow_mut();
        if statements.len() >= ENTRIES_MAX {
            statements.clear();
        }
        statements.insert(Key { text: text.to_owned(), types: types.to_vec() }, statement);
    }

    /// Calls `test` on the templates of a normalised text until one fits.
    pub fn template(
        &self,
        normalised: &str,
        test: impl Fn(&Template) -> bool,
    ) -> Option<Rc<Template>> {
        let templates = self.templates.borrow();
        templates.get(normalised)?.iter().find(|template| test(template)).cloned()
    }

    /// Keeps a template; a text has a few at most.
    pub fn put_template(&self, normalised: &str, template: Rc<Template>) {
        if normalised.len() > TEXT_BYTES_MAX {
            return;
        }
        let mut templates = self.templates.borrow_mut();
        if templates.len() >= ENTRIES_MAX {
            templates.clear();
        }
        let own = templates.entry(normalised.to_owned()).or_default();
        if own.len() >= 4 {
            own.clear();
        }
        own.push(template);
    }

    /// Forgets everything (DISCARD PLANS).
    pub fn clear(&self) {
        self.statements.borrow_mut().clear();
        self.templates.borrow_mut().clear();
    }
}
