//! Casts: which exist in which context, and how one is run (PostgreSQL's parse_coerce.c).
//!
//! Invariants: a [`Coercion`] turns a value of the source's form into one of the target's form,
//! without the modifier; [`apply_typmod`] does that as a second step. NULL stays NULL.

use super::row::{CastContext, CastMethod, ScalarFn};
use super::tables::cast_row;
use super::{FunctionContext, Volatility};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::{Array, Category, Datum, Type, TypeOid, text, typmod};

/// How a value of one type becomes a value of another.
#[derive(Clone)]
pub enum Coercion {
    /// The forms are the same.
    Relabel,
    /// By a cast's function.
    Function(ScalarFn),
    /// By a cast's function that depends on the session (its time zone, the search path).
    SessionFunction(ScalarFn),
    /// By printing as `source` and reading as `target`; literals are read so (`source` UNKNOWN).
    ViaText {
        /// The type whose output function prints.
        source: TypeOid,
        /// The type whose input function reads.
        target: TypeOid,
    },
    /// Each element of an array.
    Elements {
        /// The new element type.
        element: TypeOid,
        /// What to do with each.
        each: Box<Coercion>,
    },
}

impl Coercion {
    /// Does it leave the value alone?
    pub fn is_noop(&self) -> bool {
        matches!(self, Coercion::Relabel)
    }

    /// Converts one value. Waits for nothing; errors are those of the types.
    pub fn apply(&self, value: &Datum, context: &dyn FunctionContext) -> SqlResult<Datum> {
        if value.is_null() {
            return Ok(Datum::Null);
        }
        match self {
            Coercion::Relabel => Ok(value.clone()),
            Coercion::Function(function) | Coercion::SessionFunction(function) => {
                function(std::slice::from_ref(value), context)
            }
            Coercion::ViaText { source, target } => match value {
                Datum::Text(literal) => text::input(Type::new(*target), literal, context),
                other => {
                    let printed = text::output_string(*source, other, context);
                    text::input(Type::new(*target), &printed, context)
                }
            },
            Coercion::Elements { element, each } => {
                let array = value.as_array();
                let elements: SqlResult<Vec<Datum>> =
                    array.elements.iter().map(|item| each.apply(item, context)).collect();
                let dimensions = array.dimensions.clone();
                Ok(Array { element: *element, dimensions, elements: elements? }.into())
            }
        }
    }

    /// How stable its answers are: reading times and names depends on the session.
    pub fn volatility(&self) -> Volatility {
        match self {
            Coercion::Relabel | Coercion::Function(_) => Volatility::Immutable,
            Coercion::SessionFunction(_) => Volatility::Stable,
            Coercion::ViaText { source, target } => {
                let plain = |oid: TypeOid| {
                    let oid = oid.element_type().unwrap_or(oid);
                    let category = oid.category();
                    let is_plain = matches!(
                        category,
                        Category::Numeric
                            | Category::String
                            | Category::Boolean
                            | Category::Unknown
                    );
                    (is_plain || oid == TypeOid::UUID) && !is_reg_type(oid)
                };
                // How bytes are printed is a setting; how they are read is not.
                if plain(*source) && (plain(*target) || *target == TypeOid::BYTEA) {
                    Volatility::Immutable
                } else {
                    Volatility::Stable
                }
            }
            Coercion::Elements { each, .. } => each.volatility(),
        }
    }
}

const fn is_reg_type(oid: TypeOid) -> bool {
    matches!(
        oid,
        TypeOid::REGCLASS
            | TypeOid::REGTYPE
            | TypeOid::REGPROC
            | TypeOid::REGPROCEDURE
            | TypeOid::REGOPER
            | TypeOid::REGOPERATOR
            | TypeOid::REGNAMESPACE
            | TypeOid::REGROLE
            | TypeOid::REGCOLLATION
    )
}

/// The way from `source` to `target` that `context` allows, if there is one.
pub fn find_coercion(source: TypeOid, target: TypeOid, context: CastContext) -> Option<Coercion> {
    if source == target || target == TypeOid::ANY || target.is_polymorphic() {
        return Some(Coercion::Relabel);
    }
    if source == TypeOid::UNKNOWN {
        return Some(if matches!(target, TypeOid::TEXT | TypeOid::CSTRING) {
            Coercion::Relabel
        } else {
            Coercion::ViaText { source, target }
        });
    }
    if let Some(row) = cast_row(source, target) {
        return (row.context <= context).then_some(match row.method {
            CastMethod::Relabel => Coercion::Relabel,
            CastMethod::Function(function) if row.volatility == Volatility::Immutable => {
                Coercion::Function(function)
            }
            CastMethod::Function(function) => Coercion::SessionFunction(function),
        });
    }
    // Vectors become arrays element by element, arrays do not become vectors.
    if let (Some(from), Some(to)) = (source.element_type(), true_element(target)) {
        return match find_coercion(from, to, context)? {
            Coercion::ViaText { .. } => Some(Coercion::ViaText { source, target }),
            each => Some(Coercion::Elements { element: to, each: Box::new(each) }),
        };
    }
    let assigned_to_string =
        context >= CastContext::Assignment && target.category() == Category::String;
    let read_from_string =
        context >= CastContext::Explicit && source.category() == Category::String;
    (assigned_to_string || read_from_string).then_some(Coercion::ViaText { source, target })
}

fn true_element(oid: TypeOid) -> Option<TypeOid> {
    oid.element_type()
        .filter(|_| crate::types::type_by_oid(oid).is_some_and(crate::types::TypeInfo::is_array))
}

/// May values of `source` be used where `target` is wanted?
pub fn can_coerce(source: TypeOid, target: TypeOid, context: CastContext) -> bool {
    match target {
        TypeOid::ANYARRAY | TypeOid::ANYCOMPATIBLEARRAY => {
            source == TypeOid::UNKNOWN || source.element_type().is_some()
        }
        TypeOid::ANYNONARRAY | TypeOid::ANYCOMPATIBLENONARRAY => source.element_type().is_none(),
        TypeOid::ANYENUM => source == TypeOid::UNKNOWN,
        _ => find_coercion(source, target, context).is_some(),
    }
}

/// The same form, and usable without a function (IsBinaryCoercible).
pub fn is_binary_coercible(source: TypeOid, target: TypeOid) -> bool {
    source == target
        || target == TypeOid::ANY
        || target == TypeOid::ANYELEMENT
        || (target == TypeOid::ANYARRAY && source.element_type().is_some())
        || cast_row(source, target).is_some_and(|row| {
            matches!(row.method, CastMethod::Relabel) && row.context == CastContext::Implicit
        })
}

/// The type that several expressions meet in: UNION, CASE, COALESCE, IN, VALUES, GREATEST.
/// `construct` names it in the error (42804). All unknown: text.
pub fn common_type(types: &[TypeOid], construct: &str) -> SqlResult<TypeOid> {
    let mut chosen = types.first().copied().unwrap_or(TypeOid::UNKNOWN);
    for &next in types.iter().skip(1) {
        if next == chosen || next == TypeOid::UNKNOWN {
            continue;
        }
        if chosen == TypeOid::UNKNOWN {
            chosen = next;
        } else if next.category() != chosen.category() {
            return Err(SqlError::new(
                SqlState::DATATYPE_MISMATCH,
                format!("{construct} types {chosen} and {next} cannot be matched"),
            ));
        } else if !chosen.is_preferred()
            && can_coerce(chosen, next, CastContext::Implicit)
            && !can_coerce(next, chosen, CastContext::Implicit)
        {
            chosen = next;
        }
    }
    Ok(if chosen == TypeOid::UNKNOWN { TypeOid::TEXT } else { chosen })
}

/// Fits a value to a modifier: blank-pads, truncates or refuses (22001), rounds (22003).
pub fn apply_typmod(value: Datum, ty: Type, context: CastContext) -> SqlResult<Datum> {
    if ty.typmod < 0 && ty.oid != TypeOid::NAME {
        return Ok(value);
    }
    typmod::coerce(value, ty, context)
}
