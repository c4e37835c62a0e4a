//! Conversions in the bound tree: literals, parameters, casts, modifiers.
//!
//! Invariants: a value whose type changed carries the conversion in the tree; a literal is
//! converted at once where its type reads the same in every session; an undetermined parameter
//! takes the type that it is converted to.

use super::bound::{Bound, BoundKind};
use super::{Binder, error_at, fold};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::functions::{CastContext, Coercion, ConstantContext, common_type, find_coercion};
use crate::parse::ast::{At, TypeName};
use crate::types::{Datum, Type, TypeOid, text, type_by_name, typmod};

/// The type that a written type name means (42704 if none).
pub fn type_of(name: &TypeName) -> SqlResult<Type> {
    let at = name.name.at;
    if let Some(special) = name.special {
        return Err(SqlError::not_supported(special).at(at.position()));
    }
    let known_schema =
        matches!(name.name.schema.as_deref(), None | Some("pg_catalog" | "information_schema"));
    // The domains of information_schema are their base types here.
    let base = match name.name.name.as_str() {
        "sql_identifier" => "name",
        "cardinal_number" => "int4",
        "character_data" | "yes_or_no" => "varchar",
        "time_stamp" => "timestamptz",
        other => other,
    };
    let found = if known_schema { type_by_name(base) } else { None };
    let Some(info) = found else {
        return Err(error_at(
            SqlState::UNDEFINED_OBJECT,
            format!("type \"{}\" does not exist", name.name),
            at,
        ));
    };
    let mut ty = Type::new(info.oid);
    if !name.modifiers.is_empty() {
        ty.typmod = typmod::type_modifier(info.oid, &name.modifiers)
            .map_err(|error| error.at(at.position()))?;
    }
    if name.array_dimensions > 0 && !info.is_array() {
        ty.oid = info.oid.array_type().ok_or_else(|| {
            error_at(
                SqlState::UNDEFINED_OBJECT,
                format!("could not find array type for data type {}", info.oid),
                at,
            )
        })?;
    }
    Ok(ty)
}

impl Binder<'_> {
    /// Converts `value` to `target` if `context` allows it; its modifier is applied by the
    /// caller.
    pub(super) fn convert(
        &mut self,
        value: Bound,
        target: TypeOid,
        context: CastContext,
    ) -> SqlResult<Option<Bound>> {
        let source = value.ty.oid;
        if source == target || target == TypeOid::ANY || target.is_polymorphic() {
            return Ok(Some(value));
        }
        if source == TypeOid::UNKNOWN {
            if let BoundKind::Parameter(index) = value.kind {
                return self.parameter_as(index, target, value.at).map(Some);
            }
            if value.is_null_constant() {
                return Ok(Some(Bound { ty: Type::new(target), ..value }));
            }
        }
        let Some(coercion) = find_coercion(source, target, context) else { return Ok(None) };
        let at = value.at;
        let typmod =
            if coercion.is_noop() && same_form(source, target) { value.ty.typmod } else { -1 };
        let ty = Type::with(target, typmod);
        if coercion.is_noop() {
            // Relabelling keeps the tree as it is, for indexes to recognise the column.
            return Ok(Some(match value.kind {
                BoundKind::Constant(_) => Bound { ty, ..value },
                _ => Bound::new(BoundKind::Coerce(Coercion::Relabel, Box::new(value)), ty, at),
            }));
        }
        fold::coercion(coercion, value, ty, at).map(Some)
    }

    fn parameter_as(&mut self, index: u16, target: TypeOid, at: At) -> SqlResult<Bound> {
        let slot = &mut self.parameters[index as usize];
        if *slot == TypeOid::UNKNOWN {
            *slot = target;
        } else if *slot != target {
            let known = *slot;
            return Err(error_at(
                SqlState::AMBIGUOUS_PARAMETER,
                format!("inconsistent types deduced for parameter ${}", index + 1),
                at,
            )
            .detail(format!("{known} versus {target}")));
        }
        Ok(Bound::new(BoundKind::Parameter(index), target, at))
    }

    /// An implicit conversion that must exist (42846 otherwise).
    pub(super) fn implicit(&mut self, value: Bound, target: TypeOid) -> SqlResult<Bound> {
        let (from, at) = (value.ty.oid, value.at);
        self.convert(value, target, CastContext::Implicit)?.ok_or_else(|| {
            error_at(SqlState::CANNOT_COERCE, format!("cannot cast type {from} to {target}"), at)
        })
    }

    /// A written cast.
    pub(super) fn cast(&mut self, value: Bound, target: Type, at: At) -> SqlResult<Bound> {
        let from = value.ty;
        let value = match Self::interval_literal(value, target)? {
            Ok(read) => return Ok(Bound { at, ..read }),
            Err(value) => value,
        };
        let converted = self.convert(value, target.oid, CastContext::Explicit)?;
        let Some(converted) = converted else {
            return Err(error_at(
                SqlState::CANNOT_COERCE,
                format!("cannot cast type {} to {}", from.oid, target.oid),
                at,
            ));
        };
        self.fit(converted, target, CastContext::Explicit)
    }

    /// A literal for an interval: the fields of the modifier say what a bare number means. Any
    /// other value comes back as it was.
    fn interval_literal(value: Bound, target: Type) -> SqlResult<Result<Bound, Bound>> {
        let (TypeOid::INTERVAL, TypeOid::UNKNOWN, Some(Datum::Text(literal))) =
            (target.oid, value.ty.oid, value.as_constant())
        else {
            return Ok(Err(value));
        };
        let read = text::input(target, literal, &ConstantContext);
        let read = read.map_err(|error| error.at(value.at.position()))?;
        Ok(Ok(Bound::new(BoundKind::Constant(read), target, value.at)))
    }

    /// Converts for storing into a column of type `target`; None if there is no such way.
    pub(super) fn assign(&mut self, value: Bound, target: Type) -> SqlResult<Option<Bound>> {
        let value = match Self::interval_literal(value, target)? {
            Ok(read) => return Ok(Some(read)),
            Err(value) => value,
        };
        match self.convert(value, target.oid, CastContext::Assignment)? {
            Some(converted) => self.fit(converted, target, CastContext::Assignment).map(Some),
            None => Ok(None),
        }
    }

    fn fit(&mut self, value: Bound, target: Type, context: CastContext) -> SqlResult<Bound> {
        let fits = target.typmod < 0 || value.ty.typmod == target.typmod;
        if fits && target.oid != TypeOid::NAME {
            return Ok(value);
        }
        if fits && value.ty.oid == TypeOid::NAME && !matches!(value.kind, BoundKind::Coerce(..)) {
            return Ok(value);
        }
        fold::typmod(value, target, context)
    }

    /// A value of type UNKNOWN becomes text.
    pub(super) fn resolve_unknown(&mut self, value: Bound) -> SqlResult<Bound> {
        match value.ty.oid {
            TypeOid::UNKNOWN => self.implicit(value, TypeOid::TEXT),
            _ => Ok(value),
        }
    }

    /// A condition (42804 otherwise).
    pub(super) fn condition(&mut self, value: Bound, clause: &str) -> SqlResult<Bound> {
        let (from, at) = (value.ty.oid, value.at);
        match self.convert(value, TypeOid::BOOL, CastContext::Implicit)? {
            Some(value) => Ok(value),
            None => Err(error_at(
                SqlState::DATATYPE_MISMATCH,
                format!("argument of {clause} must be type boolean, not type {from}"),
                at,
            )),
        }
    }

    /// All values in the type they meet in (42804 if they do not).
    pub(super) fn in_common_type(
        &mut self,
        values: Vec<Bound>,
        construct: &str,
    ) -> SqlResult<(Vec<Bound>, Type)> {
        let types: Vec<TypeOid> = values.iter().map(|value| value.ty.oid).collect();
        let clash = |values: &[Bound]| {
            let first = values.first().map_or(TypeOid::UNKNOWN, |value| value.ty.oid);
            values
                .iter()
                .find(|v| v.ty.oid.category() != first.category())
                .map_or(At::NONE, |v| v.at)
        };
        let common =
            common_type(&types, construct).map_err(|error| error.at(clash(&values).position()))?;
        let mut ty = Type::new(common);
        if let Some(first) = values.first()
            && values.iter().all(|value| value.ty == first.ty && value.ty.oid == common)
        {
            ty.typmod = first.ty.typmod;
        }
        let mut converted = Vec::with_capacity(values.len());
        for value in values {
            let (from, at) = (value.ty.oid, value.at);
            let value = self.convert(value, common, CastContext::Implicit)?.ok_or_else(|| {
                error_at(
                    SqlState::CANNOT_COERCE,
                    format!("{construct} could not convert type {from} to {common}"),
                    at,
                )
            })?;
            converted.push(value);
        }
        Ok((converted, ty))
    }
}

/// Do the two types share the meaning of a modifier?
fn same_form(source: TypeOid, target: TypeOid) -> bool {
    let string = |oid| matches!(oid, TypeOid::VARCHAR | TypeOid::BPCHAR);
    source == target || (string(source) && string(target))
}
