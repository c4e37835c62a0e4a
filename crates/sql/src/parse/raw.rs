//! The border to the C parser: text in, a list of raw statement nodes out.
//!
//! Invariants: every memory context made here is deleted here, on the thread that made it; no
//! Rust code runs inside the C error barrier (see raw.c), so its `siglongjmp` never crosses a
//! Rust frame. C recursion needs a real stack: the caller runs this on the thread's own stack,
//! never on a coroutine's. libpg_query keeps all its state in thread-locals, so threads are
//! independent. This is the only file of the crate with `unsafe`.

use crate::error::{SqlError, SqlState};
use pg_raw_parse::list::CastNodeList;
use pg_raw_parse::{nodes, raw};
use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr;

unsafe extern "C" {
    fn atoll_raw_parse(text: *const c_char, tree: *mut *mut c_void, error: *mut *mut c_void);
}

/// The raw statements of one text.
pub(super) type RawStatements = CastNodeList<nodes::RawStmt>;

/// A memory context of the C side, current for as long as this lives.
struct Scope {
    own: raw::MemoryContext,
    outer: raw::MemoryContext,
}

impl Scope {
    fn enter() -> Scope {
        // SAFETY: pg_query_init is idempotent per thread and makes this thread's top context. The
        // name is a static string and the parent is NULL, so nothing else deletes the context.
        unsafe {
            raw::pg_query_init();
            let own = raw::AllocSetContextCreateInternal(
                ptr::null_mut(),
                c"atoll parse".as_ptr(),
                raw::ALLOCSET_DEFAULT_MINSIZE as raw::Size,
                raw::ALLOCSET_DEFAULT_INITSIZE as raw::Size,
                raw::ALLOCSET_DEFAULT_MAXSIZE as raw::Size,
            );
            Scope { own, outer: raw::MemoryContextSwitchTo(own) }
        }
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        // SAFETY: `outer` was current when this scope began and outlives it (scopes nest); `own`
        // is deleted once, and no node of it is reachable: `with_statements` lends them only.
        unsafe {
            raw::MemoryContextSwitchTo(self.outer);
            raw::MemoryContextDelete(self.own);
        }
    }
}

/// Parses `text` and lends the raw statements to `use_tree`; an error has its SQLSTATE and its
/// position in characters.
pub(super) fn with_statements<R>(
    text: &str,
    use_tree: impl FnOnce(&RawStatements) -> R,
) -> Result<R, SqlError> {
    let text = CString::new(text).map_err(|_| {
        SqlError::new(
            SqlState::CHARACTER_NOT_IN_REPERTOIRE,
            "invalid byte sequence for encoding \"UTF8\": 0x00",
        )
    })?;
    let scope = Scope::enter();
    let (mut tree, mut error) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: the text ends in NUL and outlives the call; the scope's context is current; both
    // results point into it, or are NULL.
    unsafe { atoll_raw_parse(text.as_ptr(), &mut tree, &mut error) };
    if !error.is_null() {
        // SAFETY: a non-null error is an ErrorData made by CopyErrorData in the scope's context.
        return Err(unsafe { error_of(&*error.cast::<raw::ErrorData>()) });
    }
    let statements: &RawStatements = if tree.is_null() {
        pg_raw_parse::list::empty_list::<nodes::RawStmt>()
    } else {
        // SAFETY: raw_parser returns a List of RawStmt; CastNodeList has List's layout (asserted
        // at compile time in pg_raw_parse), and lives until `scope` is dropped below.
        unsafe { &*tree.cast_const().cast::<RawStatements>() }
    };
    let result = use_tree(statements);
    drop(scope);
    Ok(result)
}

/// # Safety
/// The strings of `error` are NULL or valid C strings.
unsafe fn error_of(error: &raw::ErrorData) -> SqlError {
    // SAFETY: promised by the caller.
    let text = |place: *mut c_char| unsafe {
        (!place.is_null()).then(|| CStr::from_ptr(place).to_string_lossy().into_owned())
    };
    let message = text(error.message).unwrap_or_default();
    let mut state = unpack_state(error.sqlerrcode);
    if message.starts_with("memory exhausted") || message.starts_with("stack depth") {
        state = SqlState::STATEMENT_TOO_COMPLEX;
    }
    let mut mapped =
        SqlError::new(state, message).at(u32::try_from(error.cursorpos).ok().filter(|at| *at > 0));
    if let Some(detail) = text(error.detail) {
        mapped = mapped.detail(detail);
    }
    if let Some(hint) = text(error.hint) {
        mapped = mapped.hint(hint);
    }
    mapped
}

/// PostgreSQL packs an SQLSTATE as five characters of six bits.
fn unpack_state(packed: i32) -> SqlState {
    let mut code = [0; 5];
    for (place, byte) in code.iter_mut().enumerate() {
        *byte = ((packed >> (6 * place)) & 0x3f) as u8 + b'0';
    }
    SqlState(code)
}
