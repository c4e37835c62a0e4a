//! Statements of an instance, by text: parsed once, planned once.
//!
//! Invariants: an entry's plan is used only with the very catalog it was made for, the same search
//! path and the same choices of the planner; otherwise it is made anew. Entries are shared by the sessions of one instance.
//! What a client was told of a prepared statement stays true for as long as the client has it ([`Shape`]): its parameters keep
//! their types, and a plan with other columns is refused (R `RevalidateCachedQuery`). Another shape is another entry.
//! The cache is bounded, by entries and by how long their texts are: when it is full it starts again.

use super::client::ColumnDescription;
use crate::bind;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::parse::statement::{Statement, Utility};
use crate::plan::{self, Choices, Planned};
use crate::relations::CatalogView;
use crate::types::TypeOid;
use atoll_kernel::api::{Catalog, Context};
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Weak};

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

    /// Was it made without indexes that are too young for its transaction's snapshot?
    pub fn is_of_old_indexes(&self) -> bool {
        self.choices.indexes_before.is_some()
    }

    /// Was it made for this very catalog?
    pub fn is_for(&self, catalog: &Arc<Catalog>) -> bool {
        Arc::ptr_eq(&self.catalog, catalog)
    }
}

/// What a client may rely on from Parse on: it reads values by these types.
#[derive(Clone, PartialEq)]
pub struct Shape {
    parameters: Arc<[TypeOid]>,
    columns: Option<Arc<[ColumnDescription]>>,
}

impl Shape {
    fn of(planned: &Planned) -> Shape {
        Shape { parameters: (&*planned.parameters).into(), columns: planned.columns.clone() }
    }

    /// `FEATURE_NOT_SUPPORTED` if the plan has other columns.
    fn check(&self, planned: &Planned) -> SqlResult<()> {
        let same = |a: &ColumnDescription, b: &ColumnDescription| a.name == b.name && a.ty == b.ty;
        let is_same = match (&self.columns, &planned.columns) {
            (None, None) => true,
            (Some(a), Some(b)) => {
                Arc::ptr_eq(a, b)
                    || (a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| same(a, b)))
            }
            _ => false,
        };
        let what = "cached plan must not change result type";
        if is_same { Ok(()) } else { Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, what)) }
    }
}

/// A catalog, if it is still there, and a search path.
type Inferred = (Weak<Catalog>, Arc<[Arc<str>]>);

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
    /// Of a prepared statement: what was promised when it was planned first.
    shape: Option<OnceCell<Shape>>,
    /// From which catalog and search path that was inferred: later plans only keep to it.
    inferred: RefCell<Option<Inferred>>,
    plan: RefCell<Option<Rc<PlanEntry>>>,
}

impl CachedStatement {
    /// A prepared statement, not planned yet: its first plan is what its clients rely on.
    pub fn prepared(
        statement: Option<Statement>,
        is_exit: bool,
        declared: Vec<TypeOid>,
    ) -> CachedStatement {
        let shape = Some(OnceCell::new());
        CachedStatement { shape, ..CachedStatement::new(statement, is_exit, declared) }
    }

    /// The same of which nothing is promised yet; `statement` is a copy of its own.
    pub fn anew(&self, statement: Option<Statement>) -> CachedStatement {
        let (declared, text) = (self.declared.clone(), self.text.clone());
        CachedStatement { text, ..CachedStatement::prepared(statement, self.is_exit, declared) }
    }

    /// What was promised of it.
    pub fn shape(&self) -> Option<&Shape> {
        self.shape.as_ref()?.get()
    }

    /// Promises what another instance has promised of a prepared statement.
    pub fn promise(&self, shape: Option<Shape>) {
        if let (Some(own), Some(shape)) = (&self.shape, shape) {
            own.get_or_init(|| shape);
        }
    }

    /// Whether what was promised is what would be inferred from this catalog and search path: for whoever comes
    /// now.
    pub fn is_promised_for(&self, catalog: &Arc<Catalog>, path: &Arc<[Arc<str>]>) -> bool {
        match (self.shape(), &*self.inferred.borrow()) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(_), Some((from, by))) => {
                std::ptr::eq(from.as_ptr(), Arc::as_ptr(catalog)) && by == path
            }
        }
    }

    /// A statement not planned yet.
    pub fn new(
        statement: Option<Statement>,
        is_exit: bool,
        declared: Vec<TypeOid>,
    ) -> CachedStatement {
        CachedStatement::made(statement, is_exit, declared, true)
    }

    /// Copies a cursor's query: like every copy of a statement that a client gave, on the thread's
    /// stack, for it may nest deep.
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
        let (text, shape, inferred, plan) = (None, None, RefCell::default(), RefCell::default());
        CachedStatement { statement, is_exit, declared, open, text, query, shape, inferred, plan }
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

    /// The plan for this catalog and version of the statistics, made now if need be. Errors' positions are in bytes;
    /// `FEATURE_NOT_SUPPORTED` if the columns are not what was promised.
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
        let declared = self.shape().map_or(&*self.declared, |shape| &*shape.parameters);
        let open = self.open;
        let planned = context.on_thread_stack(|| -> SqlResult<Planned> {
            let binding = match open {
                true => bind::bind(&view, statement, declared)?,
                false => bind::bind_closed(&view, statement, declared)?,
            };
            plan::plan(&view, &binding, choices)
        })?;
        if let Some(shape) = &self.shape {
            let promised = shape.get_or_init(|| {
                *self.inferred.borrow_mut() = Some((Arc::downgrade(catalog), path.clone()));
                Shape::of(&planned)
            });
            promised.check(&planned)?;
        }
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
