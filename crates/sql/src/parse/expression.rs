//! Conversion of expressions.
//!
//! Invariants: recursion is bounded by [`Converter::deeper`]; every node kind that has no place
//! in our tree is refused by name with its position.

use super::Converter;
use super::ast::{At, Call, Expr, ExprKind, Extreme, Literal, OrderBy, Quantifier, Test};
use super::names::{name_of, strings, type_name};
use crate::error::{SqlError, SqlResult, SqlState};
use pg_raw_parse::list::{CastNodeList, NodeList};
use pg_raw_parse::raw::{
    A_Expr_Kind, BoolExprType, BoolTestType, MinMaxOp, NullTestType, SQLValueFunctionOp as Svf,
    SortByDir, SortByNulls, SubLinkType,
};
use pg_raw_parse::{ConstValue, Node, nodes};

impl Converter {
    /// An optional expression.
    pub(super) fn optional(&self, node: Node<'_>) -> SqlResult<Option<Expr>> {
        match node {
            Node::None => Ok(None),
            node => self.expr(node).map(Some),
        }
    }

    /// A list of expressions.
    pub(super) fn exprs(&self, list: &NodeList) -> SqlResult<Vec<Expr>> {
        list.iter().map(|node| self.expr(node)).collect()
    }

    fn boxed(&self, node: Node<'_>) -> SqlResult<Box<Expr>> {
        self.expr(node).map(Box::new)
    }

    /// One expression.
    pub(super) fn expr(&self, node: Node<'_>) -> SqlResult<Expr> {
        let _deeper = self.deeper()?;
        let (kind, location) = match node {
            Node::ColumnRef(column) => (column_of(column), column.location),
            Node::A_Const(constant) => (literal_of(constant)?, constant.location),
            Node::ParamRef(parameter) => (parameter_of(parameter)?, parameter.location),
            Node::A_Expr(operation) => (self.operation(operation)?, operation.location),
            Node::BoolExpr(combined) => (self.combined(combined)?, combined.location),
            Node::FuncCall(call) => (self.call(call)?, call.location),
            Node::CaseExpr(case) => (self.case(case)?, case.location),
            Node::SubLink(link) => (self.sublink(link)?, link.location),
            Node::TypeCast(cast) => (
                ExprKind::Cast(self.boxed(cast.arg())?, type_name(cast.type_name())?),
                cast.location,
            ),
            Node::CollateClause(collate) => {
                let at = At::from_offset(collate.location);
                let name = name_of(collate.collname(), at)?;
                (ExprKind::Collate(self.boxed(collate.arg())?, name), collate.location)
            }
            Node::CoalesceExpr(coalesce) => {
                (ExprKind::Coalesce(self.exprs(coalesce.args())?), coalesce.location)
            }
            Node::MinMaxExpr(extreme) => {
                let which = match extreme.op {
                    MinMaxOp::IS_GREATEST => Extreme::Greatest,
                    _ => Extreme::Least,
                };
                (ExprKind::MinMax(which, self.exprs(extreme.args())?), extreme.location)
            }
            Node::NullTest(test) => {
                let which = match test.nulltesttype {
                    NullTestType::IS_NULL => Test::Null,
                    _ => Test::NotNull,
                };
                (ExprKind::Is(which, self.boxed(test.arg())?), test.location)
            }
            Node::BooleanTest(test) => {
                (ExprKind::Is(boolean_test(test), self.boxed(test.arg())?), test.location)
            }
            Node::RowExpr(row) => (ExprKind::Row(self.exprs(row.args())?), row.location),
            Node::A_ArrayExpr(array) => {
                (ExprKind::Array(self.exprs(array.elements())?), array.location)
            }
            Node::A_Indirection(path) => return self.indirection(path),
            Node::SQLValueFunction(value) => (sql_value(value)?, value.location),
            Node::SetToDefault(default) => (ExprKind::Default, default.location),
            other => return Err(refused(other)),
        };
        Ok(Expr { kind, at: At::from_offset(location) })
    }

    fn operation(&self, operation: &nodes::A_Expr) -> SqlResult<ExprKind> {
        let mut parts = strings(operation.name());
        let name = parts.pop().unwrap_or_default();
        let schema = parts.pop();
        let left = operation.lexpr();
        let right = operation.rexpr();
        match operation.kind {
            A_Expr_Kind::AEXPR_OP
            | A_Expr_Kind::AEXPR_LIKE
            | A_Expr_Kind::AEXPR_ILIKE
            | A_Expr_Kind::AEXPR_SIMILAR => Ok(ExprKind::Operator {
                schema,
                name,
                left: self.optional(left)?.map(Box::new),
                right: self.boxed(right)?,
            }),
            A_Expr_Kind::AEXPR_OP_ANY | A_Expr_Kind::AEXPR_OP_ALL => Ok(ExprKind::Quantified {
                name,
                quantifier: if operation.kind == A_Expr_Kind::AEXPR_OP_ANY {
                    Quantifier::Any
                } else {
                    Quantifier::All
                },
                left: self.boxed(left)?,
                right: self.boxed(right)?,
            }),
            A_Expr_Kind::AEXPR_DISTINCT | A_Expr_Kind::AEXPR_NOT_DISTINCT => {
                Ok(ExprKind::Distinct {
                    negated: operation.kind == A_Expr_Kind::AEXPR_NOT_DISTINCT,
                    left: self.boxed(left)?,
                    right: self.boxed(right)?,
                })
            }
            A_Expr_Kind::AEXPR_NULLIF => {
                Ok(ExprKind::NullIf(self.boxed(left)?, self.boxed(right)?))
            }
            A_Expr_Kind::AEXPR_IN => Ok(ExprKind::In {
                negated: name == "<>",
                left: self.boxed(left)?,
                list: self.exprs(right.expect_node_list())?,
            }),
            _ => {
                let bounds = right.expect_node_list();
                let (Some(low), Some(high)) = (bounds.get(0), bounds.get(1)) else {
                    return Err(SqlError::internal("BETWEEN without two bounds"));
                };
                Ok(ExprKind::Between {
                    negated: matches!(
                        operation.kind,
                        A_Expr_Kind::AEXPR_NOT_BETWEEN | A_Expr_Kind::AEXPR_NOT_BETWEEN_SYM
                    ),
                    symmetric: matches!(
                        operation.kind,
                        A_Expr_Kind::AEXPR_BETWEEN_SYM | A_Expr_Kind::AEXPR_NOT_BETWEEN_SYM
                    ),
                    value: self.boxed(left)?,
                    low: self.boxed(low)?,
                    high: self.boxed(high)?,
                })
            }
        }
    }

    fn combined(&self, combined: &nodes::BoolExpr) -> SqlResult<ExprKind> {
        let mut arguments = self.exprs(combined.args())?;
        Ok(match combined.boolop {
            BoolExprType::AND_EXPR => ExprKind::And(arguments),
            BoolExprType::OR_EXPR => ExprKind::Or(arguments),
            _ => match arguments.pop() {
                Some(argument) => ExprKind::Not(Box::new(argument)),
                None => return Err(SqlError::internal("NOT without an argument")),
            },
        })
    }

    fn call(&self, call: &nodes::FuncCall) -> SqlResult<ExprKind> {
        let at = At::from_offset(call.location);
        let refuse = |what: &str| Err(SqlError::not_supported(what).at(at.position()));
        if call.over().is_some() {
            return refuse("a window function");
        }
        if call.agg_within_group {
            return refuse("WITHIN GROUP");
        }
        Ok(ExprKind::Call(Box::new(Call {
            name: name_of(call.funcname(), at)?,
            arguments: self.exprs(call.args())?,
            star: call.agg_star,
            distinct: call.agg_distinct,
            order_by: self.order_by(call.agg_order())?,
            filter: self.optional(call.agg_filter())?,
            variadic: call.func_variadic,
        })))
    }

    fn case(&self, case: &nodes::CaseExpr) -> SqlResult<ExprKind> {
        let mut branches = Vec::new();
        for branch in case.args() {
            let Node::CaseWhen(when) = branch else {
                return Err(SqlError::internal("CASE without WHEN"));
            };
            branches.push((self.expr(when.expr())?, self.expr(when.result())?));
        }
        Ok(ExprKind::Case {
            operand: self.optional(case.arg())?.map(Box::new),
            branches,
            otherwise: self.optional(case.defresult())?.map(Box::new),
        })
    }

    fn sublink(&self, link: &nodes::SubLink) -> SqlResult<ExprKind> {
        let Node::SelectStmt(select) = link.subselect() else {
            return Err(refused(link.subselect()));
        };
        let query = Box::new(self.query(select)?);
        Ok(match link.sub_link_type {
            SubLinkType::EXISTS_SUBLINK => ExprKind::Exists(query),
            SubLinkType::EXPR_SUBLINK => ExprKind::Subquery(query),
            SubLinkType::ARRAY_SUBLINK => ExprKind::ArrayQuery(query),
            SubLinkType::ANY_SUBLINK | SubLinkType::ALL_SUBLINK => ExprKind::QuantifiedQuery {
                name: strings(link.oper_name()).pop().unwrap_or_else(|| "=".to_owned()),
                quantifier: if link.sub_link_type == SubLinkType::ANY_SUBLINK {
                    Quantifier::Any
                } else {
                    Quantifier::All
                },
                left: self.boxed(link.testexpr())?,
                query,
            },
            _ => {
                return Err(SqlError::not_supported("this form of subquery")
                    .at(At::from_offset(link.location).position()));
            }
        })
    }

    fn indirection(&self, path: &nodes::A_Indirection) -> SqlResult<Expr> {
        let mut base = self.expr(path.arg())?;
        let at = base.at;
        for step in path.indirection() {
            let kind = match step {
                Node::A_Star(_) => ExprKind::Field(Box::new(base), None),
                Node::A_Indices(index) if index.is_slice => ExprKind::Slice(
                    Box::new(base),
                    self.optional(index.lidx())?.map(Box::new),
                    self.optional(index.uidx())?.map(Box::new),
                ),
                Node::A_Indices(index) => {
                    let index = self.expr(index.uidx())?;
                    match base.kind {
                        ExprKind::Subscript(array, mut indices) => {
                            indices.push(index);
                            ExprKind::Subscript(array, indices)
                        }
                        kind => {
                            let array = Box::new(Expr { kind, at });
                            ExprKind::Subscript(array, vec![index])
                        }
                    }
                }
                field => match field.as_str() {
                    Some(field) => ExprKind::Field(Box::new(base), Some(field.to_owned())),
                    None => return Err(refused(field)),
                },
            };
            base = Expr { kind, at };
        }
        Ok(base)
    }

    /// ORDER BY's keys.
    pub(super) fn order_by(&self, keys: &CastNodeList<nodes::SortBy>) -> SqlResult<Vec<OrderBy>> {
        keys.iter().map(|key| self.order_key(key)).collect()
    }

    fn order_key(&self, key: &nodes::SortBy) -> SqlResult<OrderBy> {
        let expr = self.expr(key.node())?;
        let descending = match key.sortby_dir {
            SortByDir::SORTBY_DESC => true,
            SortByDir::SORTBY_USING => match strings(key.use_op()).pop().as_deref() {
                Some("<") => false,
                Some(">") => true,
                _ => return Err(SqlError::not_supported("ORDER BY USING with this operator")),
            },
            _ => false,
        };
        let nulls_first = match key.sortby_nulls {
            SortByNulls::SORTBY_NULLS_FIRST => true,
            SortByNulls::SORTBY_NULLS_LAST => false,
            _ => descending,
        };
        Ok(OrderBy { expr, descending, nulls_first })
    }
}

fn column_of(column: &nodes::ColumnRef) -> ExprKind {
    let star = column.fields().iter().any(|field| matches!(field, Node::A_Star(_)));
    ExprKind::Column { parts: strings(column.fields()), star }
}

fn literal_of(constant: &nodes::A_Const) -> SqlResult<ExprKind> {
    Ok(ExprKind::Literal(match constant.val() {
        None => Literal::Null,
        Some(ConstValue::Integer(value)) => Literal::Integer(value),
        Some(ConstValue::Float(text)) => Literal::Number(text.to_owned()),
        Some(ConstValue::Boolean(value)) => Literal::Boolean(value),
        Some(ConstValue::String(text)) => Literal::String(text.to_owned()),
        Some(_) => {
            return Err(SqlError::not_supported("a bit string literal")
                .at(At::from_offset(constant.location).position()));
        }
    }))
}

fn parameter_of(parameter: &nodes::ParamRef) -> SqlResult<ExprKind> {
    match u16::try_from(parameter.number) {
        Ok(number) if number > 0 => Ok(ExprKind::Parameter(number)),
        _ => Err(SqlError::new(
            SqlState::UNDEFINED_PARAMETER,
            format!("there is no parameter ${}", parameter.number),
        )
        .at(At::from_offset(parameter.location).position())),
    }
}

fn boolean_test(test: &nodes::BooleanTest) -> Test {
    match test.booltesttype {
        BoolTestType::IS_TRUE => Test::True,
        BoolTestType::IS_NOT_TRUE => Test::NotTrue,
        BoolTestType::IS_FALSE => Test::False,
        BoolTestType::IS_NOT_FALSE => Test::NotFalse,
        BoolTestType::IS_UNKNOWN => Test::Unknown,
        _ => Test::NotUnknown,
    }
}

fn sql_value(value: &nodes::SQLValueFunction) -> SqlResult<ExprKind> {
    let precision = (value.typmod >= 0).then_some(value.typmod);
    let word = match value.op {
        Svf::SVFOP_CURRENT_DATE => "current_date",
        Svf::SVFOP_CURRENT_TIMESTAMP | Svf::SVFOP_CURRENT_TIMESTAMP_N => "current_timestamp",
        Svf::SVFOP_LOCALTIME | Svf::SVFOP_LOCALTIME_N => "localtime",
        Svf::SVFOP_LOCALTIMESTAMP | Svf::SVFOP_LOCALTIMESTAMP_N => "localtimestamp",
        Svf::SVFOP_CURRENT_ROLE => "current_role",
        Svf::SVFOP_CURRENT_USER => "current_user",
        Svf::SVFOP_USER => "user",
        Svf::SVFOP_SESSION_USER => "session_user",
        Svf::SVFOP_CURRENT_CATALOG => "current_catalog",
        Svf::SVFOP_CURRENT_SCHEMA => "current_schema",
        _ => {
            return Err(SqlError::not_supported("CURRENT_TIME (time with time zone)")
                .at(At::from_offset(value.location).position()));
        }
    };
    Ok(ExprKind::SqlValue(word, precision))
}

/// The refusal of a node that has no place in our tree, by PostgreSQL's name for it.
pub(super) fn refused(node: Node<'_>) -> SqlError {
    let (what, location) = match node {
        Node::GroupingFunc(call) => ("GROUPING", call.location),
        Node::GroupingSet(set) => ("GROUPING SETS, ROLLUP and CUBE", set.location),
        Node::NamedArgExpr(argument) => ("a named argument", argument.location),
        Node::XmlExpr(_) | Node::XmlSerialize(_) => ("XML", -1),
        Node::CurrentOfExpr(_) => ("WHERE CURRENT OF", -1),
        Node::MultiAssignRef(_) => ("this form of multiple assignment", -1),
        Node::RangeTableFunc(_) => ("XMLTABLE", -1),
        Node::RangeTableSample(_) => ("TABLESAMPLE", -1),
        Node::MergeSupportFunc(call) => ("MERGE_ACTION", call.location),
        other => {
            let text = format!("{other:?}");
            let name: String =
                text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            return SqlError::not_supported(format!("this syntax ({name})"));
        }
    };
    SqlError::not_supported(what).at(At::from_offset(location).position())
}
