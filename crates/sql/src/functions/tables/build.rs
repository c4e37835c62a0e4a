//! Builders that keep the rows of the tables on one line each.

use crate::functions::fast::FastOperator;
use crate::functions::row::{
    AggregateFn, CastContext, CastMethod, CastRow, Comparison, Default, FunctionKind, FunctionRow,
    OperatorRow, ScalarFn, SetFn, Strictness, Volatility,
};
use crate::types::TypeOid;

/// A strict immutable scalar function.
pub(in crate::functions) const fn scalar(
    oid: u32,
    name: &'static str,
    args: &'static [TypeOid],
    result: TypeOid,
    function: ScalarFn,
) -> FunctionRow {
    build(oid, name, args, result, FunctionKind::Scalar(function))
}

/// A strict immutable set-returning function.
pub(in crate::functions) const fn set(
    oid: u32,
    name: &'static str,
    args: &'static [TypeOid],
    result: TypeOid,
    function: SetFn,
) -> FunctionRow {
    build(oid, name, args, result, FunctionKind::Set(function))
}

/// An aggregate; it sees NULLs and skips them itself.
pub(in crate::functions) const fn aggregate(
    oid: u32,
    name: &'static str,
    args: &'static [TypeOid],
    result: TypeOid,
    function: AggregateFn,
) -> FunctionRow {
    build(oid, name, args, result, FunctionKind::Aggregate(function)).called_on_null()
}

/// A window function; the executor knows it by name.
pub(in crate::functions) const fn window(
    oid: u32,
    name: &'static str,
    args: &'static [TypeOid],
    result: TypeOid,
) -> FunctionRow {
    build(oid, name, args, result, FunctionKind::Window).called_on_null()
}

const fn build(
    oid: u32,
    name: &'static str,
    args: &'static [TypeOid],
    result: TypeOid,
    kind: FunctionKind,
) -> FunctionRow {
    FunctionRow {
        oid,
        name,
        args,
        result,
        variadic: TypeOid::INVALID,
        defaults: &[],
        strictness: Strictness::Strict,
        volatility: Volatility::Immutable,
        kind,
        columns: &[],
    }
}

impl FunctionRow {
    /// The function is called with NULLs.
    pub(in crate::functions) const fn called_on_null(mut self) -> FunctionRow {
        self.strictness = Strictness::CalledOnNull;
        self
    }

    /// The function depends on session or catalog.
    pub(in crate::functions) const fn stable(mut self) -> FunctionRow {
        self.volatility = Volatility::Stable;
        self
    }

    /// The function answers anew for every row.
    pub(in crate::functions) const fn volatile(mut self) -> FunctionRow {
        self.volatility = Volatility::Volatile;
        self
    }

    /// The last argument gathers the rest, of this element type.
    pub(in crate::functions) const fn variadic(mut self, element: TypeOid) -> FunctionRow {
        self.variadic = element;
        self
    }

    /// The last arguments may be left out.
    pub(in crate::functions) const fn defaults(
        mut self,
        defaults: &'static [Default],
    ) -> FunctionRow {
        self.defaults = defaults;
        self
    }

    /// The columns of a set of records.
    pub(in crate::functions) const fn columns(
        mut self,
        columns: &'static [(&'static str, TypeOid)],
    ) -> FunctionRow {
        self.columns = columns;
        self
    }
}

/// A strict immutable binary operator.
pub(in crate::functions) const fn operator(
    oid: u32,
    left: TypeOid,
    name: &'static str,
    right: TypeOid,
    result: TypeOid,
    code: &'static str,
    function: ScalarFn,
) -> OperatorRow {
    OperatorRow {
        oid,
        name,
        left,
        right,
        result,
        code,
        commutator: 0,
        negator: 0,
        function,
        comparison: None,
        fast: None,
        strictness: Strictness::Strict,
        volatility: Volatility::Immutable,
    }
}

impl OperatorRow {
    /// `oprcom` and `oprnegate`.
    pub(in crate::functions) const fn links(
        mut self,
        commutator: u32,
        negator: u32,
    ) -> OperatorRow {
        self.commutator = commutator;
        self.negator = negator;
        self
    }

    /// It compares in the types' default order.
    pub(in crate::functions) const fn compares(mut self, comparison: Comparison) -> OperatorRow {
        self.comparison = Some(comparison);
        self
    }

    /// It has a form without slices.
    pub(in crate::functions) const fn fast(mut self, fast: FastOperator) -> OperatorRow {
        self.fast = Some(fast);
        self
    }

    /// It is called with NULLs.
    pub(in crate::functions) const fn nullable(mut self) -> OperatorRow {
        self.strictness = Strictness::CalledOnNull;
        self
    }

    /// It depends on the session.
    pub(in crate::functions) const fn depends_on_session(mut self) -> OperatorRow {
        self.volatility = Volatility::Stable;
        self
    }
}

/// A cast by a function.
pub(in crate::functions) const fn cast(
    source: TypeOid,
    target: TypeOid,
    context: CastContext,
    function: ScalarFn,
) -> CastRow {
    let volatility = Volatility::Immutable;
    CastRow { source, target, context, method: CastMethod::Function(function), volatility }
}

impl CastRow {
    /// It depends on the session.
    pub(in crate::functions) const fn stable(mut self) -> CastRow {
        self.volatility = Volatility::Stable;
        self
    }
}

/// A cast that changes the type's name only.
pub(in crate::functions) const fn relabel(
    source: TypeOid,
    target: TypeOid,
    context: CastContext,
) -> CastRow {
    let volatility = Volatility::Immutable;
    CastRow { source, target, context, method: CastMethod::Relabel, volatility }
}
