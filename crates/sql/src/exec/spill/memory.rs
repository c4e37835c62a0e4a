//! How much memory statements may take: `work_mem` an operator, and one budget for the server.
//!
//! Invariants: a statement's first [`UNCOUNTED`] bytes are nobody's business, so most statements write
//! no shared word; the rest it takes from the server's budget in pieces of [`PIECE`], once in many
//! rows. What it took it gives back when it ends, or when it leaves
//! only rows behind (a cursor WITH HOLD). When the budget is
//! used up the statement that has most fails (53200): if that is another one than who asks, it is
//! told, and who asks goes on within a reserve of an eighth. `used` and each statement's `bytes` are
//! written by the instances that run them and read by who looks for the largest: counts, ordered
//! by nothing.

use crate::error::{SqlError, SqlResult, SqlState};
use atoll_kernel::sync::{AtomicBool, AtomicU64, Mutex, Ordering};
use std::cell::{Cell, OnceCell};
use std::rc::Rc;
use std::sync::{Arc, PoisonError};

/// What a statement takes from the budget at once.
const PIECE: usize = 256 * 1024;

/// What a statement keeps without asking. As many as are admitted at once have some MB of it.
const UNCOUNTED: usize = 64 * 1024;

/// The memory of all statements of a server.
pub struct Budget {
    bytes_max: u64,
    used: AtomicU64,
    statements: Mutex<Vec<Arc<Usage>>>,
}

/// What one statement has taken.
#[derive(Default)]
struct Usage {
    bytes: AtomicU64,
    /// It is to fail: set by another instance, read by its own.
    doomed: AtomicBool,
}

impl Budget {
    /// Of so many bytes.
    pub fn new(bytes_max: u64) -> Arc<Budget> {
        Arc::new(Budget { bytes_max, used: AtomicU64::new(0), statements: Mutex::new(Vec::new()) })
    }

    /// Bytes taken by all statements.
    pub fn used_bytes(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    fn join(&self, usage: &Arc<Usage>) {
        let mut statements = self.statements.lock().unwrap_or_else(PoisonError::into_inner);
        statements.push(usage.clone());
    }

    fn leave(&self, usage: &Arc<Usage>) {
        let mut statements = self.statements.lock().unwrap_or_else(PoisonError::into_inner);
        statements.retain(|other| !Arc::ptr_eq(other, usage));
        drop(statements);
        self.used.fetch_sub(usage.bytes.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    fn give(&self, usage: &Usage, bytes: u64) {
        usage.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn take(&self, usage: &Arc<Usage>, bytes: u64) -> SqlResult<()> {
        if usage.doomed.load(Ordering::Relaxed) {
            return Err(out_of_memory(bytes));
        }
        let used = self.used.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let own = usage.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if used <= self.bytes_max {
            return Ok(());
        }
        let statements = self.statements.lock().unwrap_or_else(PoisonError::into_inner);
        let others = statements.iter().filter(|other| !Arc::ptr_eq(other, usage));
        let heaviest = others.max_by_key(|other| other.bytes.load(Ordering::Relaxed));
        let other = heaviest.filter(|other| other.bytes.load(Ordering::Relaxed) > own);
        match other {
            Some(other) if used <= self.bytes_max + self.bytes_max / 8 => {
                other.doomed.store(true, Ordering::Relaxed);
                Ok(())
            }
            _ => Err(out_of_memory(bytes)),
        }
    }
}

fn out_of_memory(bytes: u64) -> SqlError {
    SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory")
        .detail(format!(
            "Failed on request of size {bytes}: this statement uses most of the memory that all statements share."
        ))
        .hint("Reduce work_mem, or let fewer such statements run at once.")
}

/// What a session's statements may take.
#[derive(Clone)]
pub struct MemorySettings {
    /// `work_mem`.
    pub work_bytes: usize,
    /// `temp_file_limit`; none is no limit.
    pub temp_bytes_max: Option<u64>,
    /// The server's.
    pub budget: Arc<Budget>,
}

impl MemorySettings {
    /// For executions of no session.
    pub fn unlimited() -> MemorySettings {
        let budget = Budget::new(u64::MAX / 2);
        MemorySettings { work_bytes: 4 << 20, temp_bytes_max: None, budget }
    }
}

/// The memory of one execution.
pub struct Memory {
    settings: Rc<MemorySettings>,
    /// What the others see of it, once it has taken anything from the budget.
    usage: OnceCell<Arc<Usage>>,
    /// Bytes that reservations have, those that are not counted included.
    used: Cell<usize>,
    taken: Cell<usize>,
    temp_bytes: Cell<u64>,
}

impl Memory {
    /// Of an execution under these settings.
    pub fn new(settings: &Rc<MemorySettings>) -> Rc<Memory> {
        Rc::new(Memory {
            settings: settings.clone(),
            usage: OnceCell::new(),
            used: Cell::new(0),
            taken: Cell::new(0),
            temp_bytes: Cell::new(0),
        })
    }

    /// What an operator may keep.
    pub fn work_bytes(&self) -> usize {
        self.settings.work_bytes
    }

    fn take(&self, bytes: usize) -> SqlResult<()> {
        let used = self.used.get() + bytes;
        let counted = used.saturating_sub(UNCOUNTED);
        if counted > self.taken.get() {
            let more = (counted - self.taken.get()).next_multiple_of(PIECE);
            self.taken.set(self.taken.get() + more);
            self.settings.budget.take(self.usage.get_or_init(|| self.join()), more as u64)?;
        }
        self.used.set(used);
        Ok(())
    }

    fn join(&self) -> Arc<Usage> {
        let usage = Arc::new(Usage::default());
        self.settings.budget.join(&usage);
        usage
    }

    /// Gives back what is taken from the budget and used by nobody: for an account that goes on
    /// after most of what it counted is gone.
    pub(super) fn give_back_unused(&self) {
        let wanted = self.used.get().saturating_sub(UNCOUNTED).next_multiple_of(PIECE);
        let unused = self.taken.get().saturating_sub(wanted);
        if let Some(usage) = self.usage.get()
            && unused > 0
        {
            self.taken.set(wanted);
            self.settings.budget.give(usage, unused as u64);
        }
    }

    /// Counts bytes of temporary files (53400 beyond the limit).
    pub(super) fn add_temp(&self, bytes: u64) -> SqlResult<()> {
        self.temp_bytes.set(self.temp_bytes.get() + bytes);
        match self.settings.temp_bytes_max {
            Some(most) if self.temp_bytes.get() > most => Err(SqlError::new(
                SqlState::CONFIGURATION_LIMIT_EXCEEDED,
                format!("temporary file size exceeds temp_file_limit ({}kB)", most / 1024),
            )),
            _ => Ok(()),
        }
    }

    /// Temporary bytes that are gone.
    pub(super) fn give_temp(&self, bytes: u64) {
        self.temp_bytes.set(self.temp_bytes.get().saturating_sub(bytes));
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(usage) = self.usage.get() {
            self.settings.budget.leave(usage);
        }
    }
}

/// Memory that one operator has counted; given back when it is dropped.
#[derive(Default)]
pub struct Reservation {
    memory: Option<Rc<Memory>>,
    bytes: usize,
}

impl Reservation {
    /// Counts more bytes. 53200.
    pub fn grow(&mut self, memory: &Rc<Memory>, bytes: usize) -> SqlResult<()> {
        memory.take(bytes)?;
        self.bytes += bytes;
        if self.memory.is_none() {
            self.memory = Some(memory.clone());
        }
        Ok(())
    }

    /// Has the operator more than it may keep?
    pub fn is_over(&self) -> bool {
        self.memory.as_ref().is_some_and(|memory| self.bytes > memory.work_bytes())
    }

    /// The account; none if nothing was counted.
    pub fn memory(&self) -> Option<&Memory> {
        self.memory.as_deref()
    }

    /// Bytes counted.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Gives everything back.
    pub fn clear(&mut self) {
        if let Some(memory) = &self.memory {
            memory.used.set(memory.used.get() - self.bytes);
        }
        self.bytes = 0;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(budget: &Arc<Budget>) -> Rc<Memory> {
        Memory::new(&Rc::new(MemorySettings {
            work_bytes: 1000,
            temp_bytes_max: Some(10),
            budget: budget.clone(),
        }))
    }

    #[test]
    fn the_heaviest_statement_fails_and_gives_back_what_it_had() {
        let budget = Budget::new(8 * PIECE as u64);
        let (large, small) = (memory(&budget), memory(&budget));
        let (mut of_large, mut of_small) = (Reservation::default(), Reservation::default());
        of_large.grow(&large, 6 * PIECE).unwrap();
        assert!(of_large.is_over() && !of_small.is_over());
        of_small.grow(&small, 2 * PIECE).unwrap();
        // The small one goes on, on the reserve; the large one is told at its next request.
        of_small.grow(&small, PIECE).unwrap();
        let error = of_large.grow(&large, PIECE).unwrap_err();
        assert_eq!(error.sqlstate(), SqlState::OUT_OF_MEMORY);
        // The reserve ends.
        assert!(of_small.grow(&small, 2 * PIECE).is_err());
        drop((of_large, of_small));
        drop((large, small));
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn small_statements_are_not_counted_and_are_again_small_when_they_shrink() {
        let budget = Budget::new(2 * PIECE as u64);
        let one = memory(&budget);
        let mut own = Reservation::default();
        own.grow(&one, UNCOUNTED).unwrap();
        assert_eq!(budget.used_bytes(), 0);
        assert!(budget.statements.lock().unwrap().is_empty());
        own.grow(&one, 1).unwrap();
        assert_eq!(budget.used_bytes(), PIECE as u64);
        assert_eq!(budget.statements.lock().unwrap().len(), 1);
        own.clear();
        own.grow(&one, UNCOUNTED).unwrap();
        one.give_back_unused();
        assert_eq!(budget.used_bytes(), 0);
        drop((own, one));
        assert!(budget.statements.lock().unwrap().is_empty());
    }

    #[test]
    fn one_alone_fails_at_the_limit() {
        let budget = Budget::new(2 * PIECE as u64);
        let one = memory(&budget);
        let mut own = Reservation::default();
        own.grow(&one, UNCOUNTED + 2 * PIECE).unwrap();
        assert!(own.grow(&one, 1).is_err());
        assert!(one.add_temp(10).is_ok());
        assert_eq!(one.add_temp(1).unwrap_err().sqlstate().as_str(), "53400");
    }
}
