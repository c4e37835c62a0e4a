//! Compiled expressions: a flat list of steps on a stack of values.
//!
//! Invariants: evaluation pushes exactly one value; jumps go forward only, so it ends. No
//! recursion except into subplans. A step's arguments are the topmost values of the stack.

mod sequence;

use super::{Cx, compare};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::functions::fast::FastOperator;
use crate::functions::{CastContext, Coercion, OperatorRow, ScalarFn, Strictness, apply_typmod};
use crate::parse::ast::{Extreme, Quantifier, Test};
use crate::types::limits;
use crate::types::{Array, Datum, Dimension, Record, Type, TypeOid};
use std::sync::Arc;

pub use sequence::SequenceCall;

/// A place in the frame of a statement.
pub type Slot = u32;

/// One step.
#[derive(Clone)]
pub enum Step {
    /// Pushes a constant.
    Constant(Datum),
    /// Pushes a parameter.
    Parameter(u16),
    /// Pushes a slot's value.
    Slot(Slot),
    /// Calls a function on the topmost values.
    Call(ScalarFn, u16, Strictness),
    /// nextval or setval, of so many topmost values; strict.
    Sequence(SequenceCall, u16),
    /// Runs an operator without slices on the two topmost values; strict.
    Fast(FastOperator),
    /// Runs such an operator on a slot and a constant: what most filters are.
    FastSlotConstant(FastOperator, Slot, Datum),
    /// Converts the topmost value.
    Coerce(Box<Coercion>),
    /// Fits the topmost value to a modifier.
    Typmod(Type, CastContext),
    /// Negates.
    Not,
    /// Tests.
    Is(Test),
    /// Jumps if the topmost value is false, and keeps it.
    JumpIfFalse(u32),
    /// Jumps if the topmost value is true, and keeps it.
    JumpIfTrue(u32),
    /// AND of the two topmost values.
    And,
    /// OR of the two topmost values.
    Or,
    /// Takes a value; jumps unless it is true.
    JumpUnless(u32),
    /// Jumps.
    Jump(u32),
    /// Jumps if the topmost value is not NULL, and keeps it; otherwise takes it away.
    JumpIfNotNull(u32),
    /// IS [NOT] DISTINCT FROM by `=`.
    Distinct(&'static OperatorRow, bool),
    /// NULLIF by `=`.
    NullIf(&'static OperatorRow),
    /// `left op ANY|ALL (array)`.
    Quantified(&'static OperatorRow, Quantifier),
    /// `left IN (constants)` by one operator.
    InConstants(&'static OperatorRow, Arc<[Datum]>),
    /// `left = right` of these many columns, both on the stack, left first.
    RowEqual(Box<[&'static OperatorRow]>),
    /// Lexicographic comparison: strict operator and `=` a column; left columns first.
    RowCompare(bool, Box<[(&'static OperatorRow, &'static OperatorRow)]>),
    /// GREATEST, LEAST of the topmost values by `<`.
    MinMax(Extreme, TypeOid, u16),
    /// An array of the topmost values.
    Array(TypeOid, u16),
    /// A row of the topmost values.
    Row(Arc<[TypeOid]>),
    /// A field of a row.
    Field(u16),
    /// `array[i]..`: this many subscripts.
    Subscript(u16),
    /// `array[low:high]`: which bounds are on the stack.
    Slice(bool, bool),
    /// An array with an element set: this many subscripts, and the element's type.
    SetElement(u16, TypeOid),
    /// The value of a subplan.
    Subplan(u32),
    /// Takes the topmost value away.
    Pop,
    /// Pushes the topmost `n` values again.
    Again(u16),
    /// Takes away the `n` values below the topmost.
    Under(u16),
}

/// A compiled expression.
#[derive(Clone)]
pub struct Program {
    /// The steps.
    pub steps: Box<[Step]>,
    /// The expression as EXPLAIN shows it; only plans made for that have it.
    pub text: Option<Arc<str>>,
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "program of {} steps", self.steps.len())
    }
}

impl Program {
    /// A program that is only a constant.
    pub fn constant(value: Datum) -> Program {
        Program { steps: Box::new([Step::Constant(value)]), text: None }
    }

    /// The slot, if it only reads one.
    pub fn as_slot(&self) -> Option<Slot> {
        match &*self.steps {
            [Step::Slot(slot)] => Some(*slot),
            _ => None,
        }
    }

    /// Is it true? NULL is not.
    #[inline]
    pub fn test(&self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        if let [Step::FastSlotConstant(operator, slot, constant)] = &*self.steps {
            let value = &cx.frame[*slot as usize];
            return Ok(!value.is_null() && operator.test(value, constant));
        }
        Ok(self.eval(cx)?.is_true())
    }

    /// The expression's value in the frame. Errors leave the stack as it was.
    #[inline]
    pub fn eval(&self, cx: &mut Cx<'_, '_>) -> SqlResult<Datum> {
        match &*self.steps {
            [Step::Slot(slot)] => return Ok(cx.frame[*slot as usize].clone()),
            [Step::Constant(value)] => return Ok(value.clone()),
            [Step::Parameter(index)] => return Ok(cx.parameters[*index as usize].clone()),
            _ => {}
        }
        let base = cx.stack.len();
        match self.run(cx) {
            Ok(()) => {
                debug_assert_eq!(cx.stack.len(), base + 1, "a program leaves one value");
                Ok(cx.stack.pop().unwrap_or_default())
            }
            Err(error) => {
                cx.stack.truncate(base);
                Err(error)
            }
        }
    }

    fn run(&self, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        let mut at = 0usize;
        while let Some(step) = self.steps.get(at) {
            at += 1;
            match step {
                Step::Constant(value) => cx.stack.push(value.clone()),
                Step::Parameter(index) => cx.stack.push(cx.parameters[*index as usize].clone()),
                Step::Slot(slot) => cx.stack.push(cx.frame[*slot as usize].clone()),
                Step::Fast(operator) => fast(cx, *operator)?,
                Step::FastSlotConstant(operator, slot, constant) => {
                    let value = &cx.frame[*slot as usize];
                    let result = match value.is_null() {
                        true => Datum::Null,
                        false => operator.apply(value, constant)?,
                    };
                    cx.stack.push(result);
                }
                Step::Call(function, count, strictness) => {
                    call(cx, *function, *count as usize, *strictness)?;
                }
                Step::JumpIfFalse(to) => {
                    if matches!(top(cx), Datum::Bool(false)) {
                        at = *to as usize;
                    }
                }
                Step::JumpIfTrue(to) => {
                    if top(cx).is_true() {
                        at = *to as usize;
                    }
                }
                Step::JumpUnless(to) => {
                    if !pop(cx).is_true() {
                        at = *to as usize;
                    }
                }
                Step::Jump(to) => at = *to as usize,
                Step::JumpIfNotNull(to) => {
                    if top(cx).is_null() {
                        pop(cx);
                    } else {
                        at = *to as usize;
                    }
                }
                Step::Sequence(what, count) => {
                    let base = cx.stack.len() - *count as usize;
                    let arguments = cx.stack.split_off(base);
                    let value = sequence::call(cx, *what, &arguments)?;
                    cx.stack.push(value);
                }
                Step::Subplan(index) => {
                    let value = super::subplan::evaluate(cx, *index as usize)?;
                    cx.stack.push(value);
                }
                other => other.rare(cx)?,
            }
        }
        Ok(())
    }
}

#[inline]
fn top<'c>(cx: &'c Cx<'_, '_>) -> &'c Datum {
    cx.stack.last().expect("the compiler balances the stack")
}

#[inline]
fn pop(cx: &mut Cx<'_, '_>) -> Datum {
    cx.stack.pop().expect("the compiler balances the stack")
}

#[inline]
fn fast(cx: &mut Cx<'_, '_>, operator: FastOperator) -> SqlResult<()> {
    let right = pop(cx);
    let left = pop(cx);
    let result = if left.is_null() || right.is_null() {
        Datum::Null
    } else {
        operator.apply(&left, &right)?
    };
    cx.stack.push(result);
    Ok(())
}

fn call(
    cx: &mut Cx<'_, '_>,
    function: ScalarFn,
    count: usize,
    strictness: Strictness,
) -> SqlResult<()> {
    let base = cx.stack.len() - count;
    let arguments = &cx.stack[base..];
    let result = if strictness == Strictness::Strict && arguments.iter().any(Datum::is_null) {
        Datum::Null
    } else {
        limits::check(function(arguments, cx.functions)?)?
    };
    cx.stack.truncate(base);
    cx.stack.push(result);
    Ok(())
}

/// Runs a comparison on two values, with its own NULL handling: None for NULL.
pub fn compare_by(
    row: &OperatorRow,
    left: &Datum,
    right: &Datum,
    cx: &Cx<'_, '_>,
) -> SqlResult<Option<bool>> {
    if row.strictness == Strictness::Strict && (left.is_null() || right.is_null()) {
        return Ok(None);
    }
    if let Some(operator) = row.fast {
        return Ok(Some(operator.test(left, right)));
    }
    match (row.function)(&[left.clone(), right.clone()], cx.functions)? {
        Datum::Bool(value) => Ok(Some(value)),
        _ => Ok(None),
    }
}

/// SQL's AND of values that may be NULL.
pub fn and(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    match (left, right) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

/// SQL's OR of values that may be NULL.
pub fn or(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    match (left, right) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (Some(false), Some(false)) => Some(false),
        _ => None,
    }
}

/// A boolean that may be NULL.
pub fn truth(value: &Datum) -> Option<bool> {
    match value {
        Datum::Bool(value) => Some(*value),
        _ => None,
    }
}

fn datum(value: Option<bool>) -> Datum {
    value.map_or(Datum::Null, Datum::Bool)
}

impl Step {
    /// The steps that are not in the main loop.
    fn rare(&self, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        let result = match self {
            Step::And | Step::Or => {
                let (right, left) = (truth(&pop(cx)), truth(&pop(cx)));
                datum(if matches!(self, Step::And) { and(left, right) } else { or(left, right) })
            }
            Step::Not => datum(truth(&pop(cx)).map(|value| !value)),
            Step::Is(test) => Datum::Bool(is(*test, &pop(cx))),
            Step::Coerce(coercion) => {
                let value = pop(cx);
                coercion.apply(&value, cx.functions)?
            }
            Step::Typmod(ty, context) => match pop(cx) {
                Datum::Null => Datum::Null,
                value => apply_typmod(value, *ty, *context)?,
            },
            Step::Distinct(row, negated) => {
                let (right, left) = (pop(cx), pop(cx));
                let same = match (left.is_null(), right.is_null()) {
                    (true, true) => true,
                    (false, false) => compare_by(row, &left, &right, cx)? == Some(true),
                    _ => false,
                };
                Datum::Bool(same == *negated)
            }
            Step::NullIf(row) => {
                let (right, left) = (pop(cx), pop(cx));
                let same = compare_by(row, &left, &right, cx)? == Some(true);
                if same { Datum::Null } else { left }
            }
            Step::Quantified(row, quantifier) => {
                let (array, left) = (pop(cx), pop(cx));
                quantified(row, *quantifier, &left, &array, cx)?
            }
            Step::InConstants(row, constants) => {
                let left = pop(cx);
                let mut found = Some(false);
                for constant in constants.iter() {
                    found = or(found, compare_by(row, &left, constant, cx)?);
                    if found == Some(true) {
                        break;
                    }
                }
                datum(found)
            }
            Step::Pop => {
                pop(cx);
                return Ok(());
            }
            Step::Again(count) => {
                let base = cx.stack.len() - *count as usize;
                cx.stack.extend_from_within(base..);
                return Ok(());
            }
            Step::Under(count) => {
                let value = pop(cx);
                cx.stack.truncate(cx.stack.len() - *count as usize);
                value
            }
            other => other.composite(cx)?,
        };
        cx.stack.push(result);
        Ok(())
    }

    /// Steps that make or take apart rows and arrays.
    fn composite(&self, cx: &mut Cx<'_, '_>) -> SqlResult<Datum> {
        Ok(match self {
            Step::RowEqual(rows) => {
                let base = cx.stack.len() - 2 * rows.len();
                let mut equal = Some(true);
                for (index, row) in rows.iter().enumerate() {
                    let (left, right) = (base + index, base + rows.len() + index);
                    let test = compare_by(row, &cx.stack[left], &cx.stack[right], cx)?;
                    equal = and(equal, test);
                }
                cx.stack.truncate(base);
                datum(equal)
            }
            Step::RowCompare(or_equal, rows) => row_compare(*or_equal, rows, cx)?,
            Step::MinMax(which, ty, count) => min_max(*which, *ty, *count as usize, cx),
            Step::Array(element, count) => {
                let items = cx.stack.split_off(cx.stack.len() - *count as usize);
                array_of(*element, items)?
            }
            Step::Row(types) => {
                let fields = cx.stack.split_off(cx.stack.len() - types.len());
                Datum::Record(Arc::new(Record { types: types.to_vec(), fields }))
            }
            Step::Field(index) => match pop(cx) {
                Datum::Record(record) => {
                    record.fields.get(*index as usize).cloned().unwrap_or_default()
                }
                _ => Datum::Null,
            },
            Step::Subscript(count) => {
                let indices = cx.stack.split_off(cx.stack.len() - *count as usize);
                match (pop(cx), indices.iter().any(Datum::is_null)) {
                    (Datum::Array(array), false) => {
                        let indices: Vec<i32> = indices.iter().map(Datum::as_i32).collect();
                        array.get(&indices)
                    }
                    _ => Datum::Null,
                }
            }
            Step::SetElement(count, element) => {
                let value = pop(cx);
                let indices = cx.stack.split_off(cx.stack.len() - *count as usize);
                let array = pop(cx);
                let indices: Option<Vec<i32>> =
                    indices.iter().map(|it| (!it.is_null()).then(|| it.as_i32())).collect();
                let array = match &array {
                    Datum::Array(array) => Some(&**array),
                    _ => None,
                };
                Datum::Array(
                    Array::with_element(array, *element, indices.as_deref(), value)?.into(),
                )
            }
            Step::Slice(has_low, has_high) => slice(*has_low, *has_high, cx),
            _ => return Err(SqlError::internal("a step outside of its loop")),
        })
    }
}

fn is(test: Test, value: &Datum) -> bool {
    match test {
        Test::Null | Test::Unknown => match value {
            // A row value is NULL when all its fields are.
            Datum::Record(record) => record.fields.iter().all(Datum::is_null),
            value => value.is_null(),
        },
        Test::NotNull | Test::NotUnknown => match value {
            Datum::Record(record) => !record.fields.iter().any(Datum::is_null),
            value => !value.is_null(),
        },
        Test::True => value.is_true(),
        Test::NotTrue => !value.is_true(),
        Test::False => matches!(value, Datum::Bool(false)),
        Test::NotFalse => !matches!(value, Datum::Bool(false)),
    }
}

fn quantified(
    row: &'static OperatorRow,
    quantifier: Quantifier,
    left: &Datum,
    array: &Datum,
    cx: &Cx<'_, '_>,
) -> SqlResult<Datum> {
    let Datum::Array(array) = array else { return Ok(Datum::Null) };
    let mut result = Some(quantifier == Quantifier::All);
    for element in &array.elements {
        let test = compare_by(row, left, element, cx)?;
        result = match quantifier {
            Quantifier::Any => or(result, test),
            Quantifier::All => and(result, test),
        };
        if result == Some(quantifier == Quantifier::Any) {
            break;
        }
    }
    Ok(datum(result))
}

fn row_compare(
    or_equal: bool,
    rows: &[(&'static OperatorRow, &'static OperatorRow)],
    cx: &mut Cx<'_, '_>,
) -> SqlResult<Datum> {
    let base = cx.stack.len() - 2 * rows.len();
    let mut result = Some(or_equal);
    for (index, (strict, equal)) in rows.iter().enumerate() {
        let (left, right) = (base + index, base + rows.len() + index);
        let same = compare_by(equal, &cx.stack[left], &cx.stack[right], cx)?;
        if same != Some(true) {
            result = match same {
                Some(_) => compare_by(strict, &cx.stack[left], &cx.stack[right], cx)?,
                None => None,
            };
            break;
        }
    }
    cx.stack.truncate(base);
    Ok(datum(result))
}

fn min_max(which: Extreme, ty: TypeOid, count: usize, cx: &mut Cx<'_, '_>) -> Datum {
    let items = cx.stack.split_off(cx.stack.len() - count);
    let values = items.into_iter().filter(|item| !item.is_null());
    let better = values.reduce(|best, next| {
        let order = compare::compare(&next, &best, ty);
        let wins = match which {
            Extreme::Greatest => order.is_gt(),
            Extreme::Least => order.is_lt(),
        };
        if wins { next } else { best }
    });
    better.unwrap_or_default()
}

fn slice(has_low: bool, has_high: bool, cx: &mut Cx<'_, '_>) -> Datum {
    let high = has_high.then(|| pop(cx));
    let low = has_low.then(|| pop(cx));
    let array = pop(cx);
    let null = |bound: &Option<Datum>| bound.as_ref().is_some_and(Datum::is_null);
    match array {
        Datum::Array(array) if !null(&low) && !null(&high) => {
            let bound = |value: Option<Datum>| value.map(|value| value.as_i32());
            array.slice(&[(bound(low), bound(high))]).into()
        }
        _ => Datum::Null,
    }
}

/// ARRAY[..]: items that are arrays themselves make another dimension (2202E if they differ).
pub fn array_of(element: TypeOid, items: Vec<Datum>) -> SqlResult<Datum> {
    let nested = items.iter().any(|item| matches!(item, Datum::Array(_)))
        && !matches!(element.category(), crate::types::Category::Array);
    if !nested {
        return Ok(Array::of(element, items).into());
    }
    let mut shape: Option<Vec<Dimension>> = None;
    let mut elements = Vec::new();
    let count = items.len();
    for item in items {
        let Datum::Array(array) = item else { return Err(uneven()) };
        match &shape {
            Some(shape) if *shape != array.dimensions => return Err(uneven()),
            Some(_) => {}
            None => shape = Some(array.dimensions.clone()),
        }
        elements.extend_from_slice(&array.elements);
    }
    let mut dimensions = vec![Dimension { length: count as i32, lower: 1 }];
    dimensions.extend(shape.unwrap_or_default());
    if elements.is_empty() {
        dimensions.clear();
    }
    Ok(Array { element, dimensions, elements }.into())
}

fn uneven() -> SqlError {
    SqlError::new(
        SqlState::ARRAY_SUBSCRIPT_ERROR,
        "multidimensional arrays must have array expressions with matching dimensions",
    )
}
