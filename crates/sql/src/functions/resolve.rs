//! Which function or operator a call means (PostgreSQL's parse_func.c and parse_oper.c).
//!
//! Invariants: the answer depends on names and types alone; arguments of type UNKNOWN are
//! undecorated literals and parameters without a type. The caller coerces argument `i` to
//! `args[i]` of the answer, implicitly.

use super::coerce::{can_coerce, common_type, find_coercion};
use super::row::{CastContext, Comparison, Default, FunctionRow, OperatorRow};
use super::tables::{functions_named, operators_named};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::{Category, TypeOid, type_by_name};

/// Was the last argument written `VARIADIC array`?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VariadicCall {
    /// No: spread arguments are gathered into an array.
    Spread,
    /// Yes: the array is passed as it is.
    Array,
}

/// A function call resolved.
#[derive(Clone, Debug)]
pub struct ResolvedFunction {
    /// The function.
    pub function: &'static FunctionRow,
    /// The type each actual argument is coerced to.
    pub args: Vec<TypeOid>,
    /// The concrete result type (polymorphic results are resolved).
    pub result: TypeOid,
    /// Gather the actual arguments from this one on into an array of this element type; where
    /// that is ANY, into a record with the arguments' own types.
    pub gather: Option<(usize, TypeOid)>,
    /// Values of arguments left out, to be appended.
    pub defaults: &'static [Default],
}

/// What a call by function name means.
#[derive(Clone, Debug)]
pub enum ResolvedCall {
    /// A function.
    Function(ResolvedFunction),
    /// A cast in function notation, `float8(x)`: an explicit cast to this type.
    Cast(TypeOid),
}

/// An operator resolved.
#[derive(Clone, Debug)]
pub struct ResolvedOperator {
    /// The operator.
    pub operator: &'static OperatorRow,
    /// The type the left argument is coerced to (INVALID for a prefix operator).
    pub left: TypeOid,
    /// The type the right argument is coerced to.
    pub right: TypeOid,
    /// The concrete result type.
    pub result: TypeOid,
}

struct Candidate<R> {
    row: R,
    args: Vec<TypeOid>,
    gather: bool,
    defaults: usize,
}

/// Resolves `name(args)`. 42883 if nothing fits, 42725 if several fit equally well.
pub fn resolve_function(
    name: &str,
    args: &[TypeOid],
    variadic: VariadicCall,
) -> SqlResult<ResolvedCall> {
    let candidates = function_candidates(name, args.len(), variadic);
    let exact = candidates.iter().position(|candidate| candidate.args == args);
    if exact.is_none()
        && let [source] = args
        && let Some(target) = cast_in_function_notation(name, *source)
    {
        return Ok(ResolvedCall::Cast(target));
    }
    let candidate = match exact {
        Some(index) => candidates.into_iter().nth(index).expect("found by position"),
        None => select(candidates, args).map_err(|why| function_error(name, args, why))?,
    };
    finish_function(candidate, args).map(ResolvedCall::Function)
}

fn function_candidates(
    name: &str,
    count: usize,
    variadic: VariadicCall,
) -> Vec<Candidate<&'static FunctionRow>> {
    let mut found: Vec<Candidate<&'static FunctionRow>> = Vec::new();
    for row in functions_named(name) {
        let formal = row.args.len();
        let spread = row.variadic != TypeOid::INVALID && variadic == VariadicCall::Spread;
        if spread && count >= formal {
            let mut args = row.args[..formal - 1].to_vec();
            args.resize(count, row.variadic);
            found.push(Candidate { row, args, gather: true, defaults: 0 });
        } else if !spread && count <= formal && count + row.defaults.len() >= formal {
            let args = row.args[..count].to_vec();
            found.push(Candidate { row, args, gather: false, defaults: formal - count });
        }
    }
    // Of two that look the same, the one without gathering and defaults is meant.
    found.sort_by_key(|candidate| (candidate.gather, candidate.defaults));
    let mut kept: Vec<Candidate<&'static FunctionRow>> = Vec::new();
    for candidate in found {
        if kept.iter().all(|other| other.args != candidate.args) {
            kept.push(candidate);
        }
    }
    kept
}

fn cast_in_function_notation(name: &str, source: TypeOid) -> Option<TypeOid> {
    let target = type_by_name(name)?.oid;
    let known = find_coercion(source, target, CastContext::Explicit).is_some();
    known.then_some(target)
}

fn finish_function(
    candidate: Candidate<&'static FunctionRow>,
    actual: &[TypeOid],
) -> SqlResult<ResolvedFunction> {
    let row = candidate.row;
    let mut args = candidate.args;
    let result = resolve_polymorphic(&mut args, actual, row.result)?;
    // A lone "any" loses its type in a datum: it is gathered, too, so that the record tells it.
    let is_variadic = row.variadic != TypeOid::INVALID;
    let lone_any = row.args == [TypeOid::ANY] && !is_variadic && row.scalar().is_some();
    let gather = (candidate.gather || lone_any).then(|| {
        let first = row.args.len() - 1;
        (first, args[first])
    });
    let defaults = &row.defaults[row.defaults.len() - candidate.defaults..];
    Ok(ResolvedFunction { function: row, args, result, gather, defaults })
}

/// Resolves `left name right`, or `name right` with `left` None.
pub fn resolve_operator(
    name: &str,
    left: Option<TypeOid>,
    right: TypeOid,
) -> SqlResult<ResolvedOperator> {
    let rows = operators_named(name);
    let fits = |row: &&'static OperatorRow| (row.left == TypeOid::INVALID) == left.is_none();
    let candidates: Vec<&'static OperatorRow> = rows.filter(fits).collect();
    let actual: Vec<TypeOid> = left.into_iter().chain([right]).collect();
    let alike = match left {
        Some(TypeOid::UNKNOWN) => [right, right],
        Some(left) if right == TypeOid::UNKNOWN => [left, left],
        Some(left) => [left, right],
        None => [TypeOid::INVALID, right],
    };
    let exact = candidates.iter().find(|row| [row.left, row.right] == alike);
    let (row, mut args) = match exact {
        Some(row) if right != TypeOid::UNKNOWN || left != Some(TypeOid::UNKNOWN) => {
            (*row, operator_args(row))
        }
        _ => {
            let candidates = candidates
                .into_iter()
                .map(|row| Candidate { row, args: operator_args(row), gather: false, defaults: 0 })
                .collect();
            let chosen = select(candidates, &actual)
                .map_err(|why| operator_error(name, left, right, why))?;
            (chosen.row, chosen.args)
        }
    };
    let result = resolve_polymorphic(&mut args, &actual, row.result)?;
    let right = args.pop().expect("every operator has a right argument");
    let left = args.pop().unwrap_or(TypeOid::INVALID);
    Ok(ResolvedOperator { operator: row, left, right, result })
}

fn operator_args(row: &OperatorRow) -> Vec<TypeOid> {
    if row.left == TypeOid::INVALID { vec![row.right] } else { vec![row.left, row.right] }
}

/// The `=`, `<` and so on of one type with itself, as ORDER BY, DISTINCT and indexes use it.
pub fn default_order(ty: TypeOid, comparison: Comparison) -> SqlResult<ResolvedOperator> {
    let name = match comparison {
        Comparison::Less => "<",
        Comparison::LessEqual => "<=",
        Comparison::Equal => "=",
        Comparison::GreaterEqual => ">=",
        Comparison::Greater => ">",
        Comparison::NotEqual => "<>",
    };
    resolve_operator(name, Some(ty), ty).map_err(|_| {
        let what = if comparison == Comparison::Equal { "an equality" } else { "an ordering" };
        SqlError::new(
            SqlState::UNDEFINED_FUNCTION,
            format!("could not identify {what} operator for type {ty}"),
        )
    })
}

enum Unresolved {
    Nothing,
    Ambiguous,
}

fn select<R>(
    candidates: Vec<Candidate<R>>,
    actual: &[TypeOid],
) -> Result<Candidate<R>, Unresolved> {
    let usable: Vec<Candidate<R>> = candidates
        .into_iter()
        .filter(|candidate| {
            candidate.args.len() == actual.len()
                && actual
                    .iter()
                    .zip(&candidate.args)
                    .all(|(from, to)| can_coerce(*from, *to, CastContext::Implicit))
                && resolve_polymorphic(&mut candidate.args.clone(), actual, TypeOid::ANY).is_ok()
        })
        .collect();
    match usable.len() {
        0 => Err(Unresolved::Nothing),
        1 => Ok(only(usable)),
        _ => select_best(usable, actual).ok_or(Unresolved::Ambiguous),
    }
}

fn only<R>(candidates: Vec<Candidate<R>>) -> Candidate<R> {
    candidates.into_iter().next().expect("one candidate is left")
}

/// func_select_candidate: most exact matches, then preferred types, then unknown literals.
fn select_best<R>(candidates: Vec<Candidate<R>>, actual: &[TypeOid]) -> Option<Candidate<R>> {
    let known = |index: usize| actual[index] != TypeOid::UNKNOWN;
    let candidates = keep_most(candidates, |candidate| {
        (0..actual.len()).filter(|&i| known(i) && candidate.args[i] == actual[i]).count()
    });
    if candidates.len() == 1 {
        return Some(only(candidates));
    }
    let candidates = keep_most(candidates, |candidate| {
        let good = |i: usize| {
            let formal = candidate.args[i];
            formal == actual[i]
                || (formal.is_preferred() && formal.category() == actual[i].category())
        };
        (0..actual.len()).filter(|&i| known(i) && good(i)).count()
    });
    if candidates.len() == 1 {
        return Some(only(candidates));
    }
    let unknown: Vec<usize> = (0..actual.len()).filter(|&i| !known(i)).collect();
    if unknown.is_empty() {
        return None;
    }
    let candidates = match unknown_categories(&candidates, &unknown) {
        Some(wanted) => keep_category(candidates, &unknown, &wanted),
        None => candidates,
    };
    if candidates.len() == 1 {
        return Some(only(candidates));
    }
    last_gasp(candidates, actual)
}

fn keep_most<R>(
    candidates: Vec<Candidate<R>>,
    score: impl Fn(&Candidate<R>) -> usize,
) -> Vec<Candidate<R>> {
    let best = candidates.iter().map(&score).max().unwrap_or(0);
    candidates.into_iter().filter(|candidate| score(candidate) == best).collect()
}

/// The category each unknown argument should have, and whether a preferred type is among them.
fn unknown_categories<R>(
    candidates: &[Candidate<R>],
    unknown: &[usize],
) -> Option<Vec<(Category, bool)>> {
    let mut wanted = Vec::new();
    for &index in unknown {
        let mut slot: Option<(Category, bool)> = None;
        let mut conflict = false;
        for candidate in candidates {
            let formal = candidate.args[index];
            let (category, preferred) = (formal.category(), formal.is_preferred());
            slot = match slot {
                None => Some((category, preferred)),
                Some((same, has)) if same == category => Some((same, has || preferred)),
                Some(_) if category == Category::String => Some((category, preferred)),
                Some(other) => {
                    conflict = true;
                    Some(other)
                }
            };
        }
        let slot = slot?;
        if conflict && slot.0 != Category::String {
            return None;
        }
        wanted.push(slot);
    }
    Some(wanted)
}

fn keep_category<R>(
    candidates: Vec<Candidate<R>>,
    unknown: &[usize],
    wanted: &[(Category, bool)],
) -> Vec<Candidate<R>> {
    let fits = |candidate: &Candidate<R>| {
        unknown.iter().zip(wanted).all(|(&index, (category, preferred))| {
            let formal = candidate.args[index];
            formal.category() == *category && (!preferred || formal.is_preferred())
        })
    };
    if candidates.iter().any(fits) {
        candidates.into_iter().filter(fits).collect()
    } else {
        candidates
    }
}

/// If all known arguments have one type, suppose that the unknown ones have it too.
fn last_gasp<R>(candidates: Vec<Candidate<R>>, actual: &[TypeOid]) -> Option<Candidate<R>> {
    let mut known = actual.iter().copied().filter(|oid| *oid != TypeOid::UNKNOWN);
    let first = known.next()?;
    if known.any(|oid| oid != first) {
        return None;
    }
    let mut fitting = candidates.into_iter().filter(|candidate| {
        let alike = vec![first; actual.len()];
        candidate.args.iter().all(|formal| can_coerce(first, *formal, CastContext::Implicit))
            && resolve_polymorphic(&mut candidate.args.clone(), &alike, TypeOid::ANY).is_ok()
    });
    let chosen = fitting.next()?;
    fitting.next().is_none().then_some(chosen)
}

/// Replaces polymorphic types in `args` by concrete ones and answers the concrete result.
fn resolve_polymorphic(
    args: &mut [TypeOid],
    actual: &[TypeOid],
    result: TypeOid,
) -> SqlResult<TypeOid> {
    if !result.is_polymorphic() && !args.iter().any(|oid| oid.is_polymorphic()) {
        return Ok(result);
    }
    let element = exact_element(args, actual)?;
    let compatible = compatible_element(args, actual)?;
    let concrete = |formal: TypeOid| -> SqlResult<TypeOid> {
        let array = |element: Option<TypeOid>| -> SqlResult<TypeOid> {
            let element = element.ok_or_else(undetermined)?;
            element.array_type().ok_or_else(|| {
                SqlError::new(
                    SqlState::UNDEFINED_OBJECT,
                    format!("could not find array type for data type {element}"),
                )
            })
        };
        match formal {
            TypeOid::ANYELEMENT | TypeOid::ANYNONARRAY | TypeOid::ANYENUM => {
                element.ok_or_else(undetermined)
            }
            TypeOid::ANYARRAY => array(element),
            TypeOid::ANYCOMPATIBLE | TypeOid::ANYCOMPATIBLENONARRAY => {
                Ok(compatible.unwrap_or(TypeOid::TEXT))
            }
            TypeOid::ANYCOMPATIBLEARRAY => array(Some(compatible.unwrap_or(TypeOid::TEXT))),
            other => Ok(other),
        }
    };
    for (formal, from) in args.iter_mut().zip(actual) {
        // int2vector and oidvector pass as anyarray in their own form.
        let vector = matches!(*from, TypeOid::INT2VECTOR | TypeOid::OIDVECTOR);
        *formal = if vector && *formal == TypeOid::ANYARRAY { *from } else { concrete(*formal)? };
    }
    concrete(result)
}

fn undetermined() -> SqlError {
    SqlError::new(
        SqlState::DATATYPE_MISMATCH,
        "could not determine polymorphic type because input has type unknown",
    )
}

fn exact_element(args: &[TypeOid], actual: &[TypeOid]) -> SqlResult<Option<TypeOid>> {
    let mut element: Option<TypeOid> = None;
    for (formal, from) in args.iter().zip(actual) {
        let found = match *formal {
            _ if *from == TypeOid::UNKNOWN => continue,
            TypeOid::ANYELEMENT | TypeOid::ANYNONARRAY | TypeOid::ANYENUM => *from,
            TypeOid::ANYARRAY => from.element_type().ok_or_else(undetermined)?,
            _ => continue,
        };
        match element {
            Some(other) if other != found => {
                return Err(SqlError::new(
                    SqlState::DATATYPE_MISMATCH,
                    "arguments declared \"anyelement\" are not all alike",
                )
                .detail(format!("{other} versus {found}")));
            }
            _ => element = Some(found),
        }
    }
    Ok(element)
}

fn compatible_element(args: &[TypeOid], actual: &[TypeOid]) -> SqlResult<Option<TypeOid>> {
    let mut types = Vec::new();
    for (formal, from) in args.iter().zip(actual) {
        match *formal {
            TypeOid::ANYCOMPATIBLE | TypeOid::ANYCOMPATIBLENONARRAY => types.push(*from),
            TypeOid::ANYCOMPATIBLEARRAY if *from == TypeOid::UNKNOWN => types.push(*from),
            TypeOid::ANYCOMPATIBLEARRAY => {
                types.push(from.element_type().ok_or_else(undetermined)?);
            }
            _ => {}
        }
    }
    if types.is_empty() {
        return Ok(None);
    }
    let common = common_type(&types, "anycompatible")?;
    let all = types.iter().all(|from| can_coerce(*from, common, CastContext::Implicit));
    if all { Ok(Some(common)) } else { Err(undetermined()) }
}

fn call_text(name: &str, args: &[TypeOid]) -> String {
    let types: Vec<String> = args.iter().map(|oid| oid.sql_name()).collect();
    format!("{name}({})", types.join(", "))
}

fn function_error(name: &str, args: &[TypeOid], why: Unresolved) -> SqlError {
    let call = call_text(name, args);
    match why {
        Unresolved::Nothing => {
            SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("function {call} does not exist"))
                .hint(
                    "No function matches the given name and argument types. \
                     You might need to add explicit type casts.",
                )
        }
        Unresolved::Ambiguous => {
            SqlError::new(SqlState::AMBIGUOUS_FUNCTION, format!("function {call} is not unique"))
                .hint(
                    "Could not choose a best candidate function. \
                     You might need to add explicit type casts.",
                )
        }
    }
}

fn operator_error(name: &str, left: Option<TypeOid>, right: TypeOid, why: Unresolved) -> SqlError {
    let text = match left {
        Some(left) => format!("{left} {name} {right}"),
        None => format!("{name} {right}"),
    };
    match (why, left) {
        (Unresolved::Nothing, Some(_)) => {
            SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("operator does not exist: {text}"))
                .hint(
                    "No operator matches the given name and argument types. \
                     You might need to add explicit type casts.",
                )
        }
        (Unresolved::Nothing, None) => {
            SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("operator does not exist: {text}"))
                .hint(
                    "No operator matches the given name and argument type. \
                     You might need to add an explicit type cast.",
                )
        }
        (Unresolved::Ambiguous, _) => {
            SqlError::new(SqlState::AMBIGUOUS_FUNCTION, format!("operator is not unique: {text}"))
                .hint(
                    "Could not choose a best candidate operator. \
                     You might need to add explicit type casts.",
                )
        }
    }
}
