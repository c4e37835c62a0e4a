//! Our own syntax tree: queries and expressions. Statements are in [`super::statement`].
//!
//! Invariants: owned data only, nothing of the C parser's memory; names are already folded to
//! lower case by the scanner; [`At`] is a byte position in the text that was parsed. The tree is
//! at most `DEPTH_MAX` deep (see [`super`]), so recursion over it is bounded.

/// Where in the text a thing begins: byte offset + 1, or 0 when unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct At(pub u32);

impl At {
    /// Unknown.
    pub const NONE: At = At(0);

    /// From the C parser's location: a byte offset, or negative when unknown.
    pub fn from_offset(offset: i32) -> At {
        At(u32::try_from(offset).map_or(0, |offset| offset + 1))
    }

    /// The one-based byte position for an error, turned into characters by the session.
    pub fn position(self) -> Option<u32> {
        (self.0 != 0).then_some(self.0)
    }
}

/// A possibly qualified name: `[schema.]name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The schema, if written.
    pub schema: Option<String>,
    /// The object.
    pub name: String,
    /// Where it stands.
    pub at: At,
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.schema {
            Some(schema) => write!(f, "{schema}.{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// A type as written.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeName {
    /// Schema and name; the grammar turns `int` into `pg_catalog.int4`.
    pub name: Name,
    /// Modifiers, as `10` in `char(10)`.
    pub modifiers: Vec<i32>,
    /// How many `[]` follow.
    pub array_dimensions: u8,
    /// `table.column%TYPE`, or `SETOF`, were written (both refused by the binder).
    pub special: Option<&'static str>,
}

/// A literal.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// NULL.
    Null,
    /// TRUE or FALSE.
    Boolean(bool),
    /// An integer that fits int4.
    Integer(i32),
    /// Any other number, as written.
    Number(String),
    /// A string, unescaped; of unknown type until bound.
    String(String),
}

/// An expression and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Where.
    pub at: At,
}

/// Which relation between a left side and several right sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantifier {
    /// ANY, SOME.
    Any,
    /// ALL.
    All,
}

/// `GREATEST` or `LEAST`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extreme {
    /// GREATEST.
    Greatest,
    /// LEAST.
    Least,
}

/// The tests of `IS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// IS NULL.
    Null,
    /// IS NOT NULL.
    NotNull,
    /// IS TRUE.
    True,
    /// IS NOT TRUE.
    NotTrue,
    /// IS FALSE.
    False,
    /// IS NOT FALSE.
    NotFalse,
    /// IS UNKNOWN.
    Unknown,
    /// IS NOT UNKNOWN.
    NotUnknown,
}

/// What an expression is.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// `a`, `t.a`, `s.t.a`; `star` for a trailing `.*`.
    Column {
        /// The parts before the star.
        parts: Vec<String>,
        /// Ends in `*`.
        star: bool,
    },
    /// A literal.
    Literal(Literal),
    /// `$n`, from 1.
    Parameter(u16),
    /// `left op right`, or `op right`.
    Operator {
        /// `OPERATOR(schema.op)`.
        schema: Option<String>,
        /// The symbol.
        name: String,
        /// None for a prefix operator.
        left: Option<Box<Expr>>,
        /// The right side.
        right: Box<Expr>,
    },
    /// `left op ANY (array)`.
    Quantified {
        /// The symbol.
        name: String,
        /// ANY or ALL.
        quantifier: Quantifier,
        /// The left side.
        left: Box<Expr>,
        /// An array.
        right: Box<Expr>,
    },
    /// `IS DISTINCT FROM`; `negated` for `IS NOT DISTINCT FROM`.
    Distinct {
        /// NOT DISTINCT.
        negated: bool,
        /// The left side.
        left: Box<Expr>,
        /// The right side.
        right: Box<Expr>,
    },
    /// NULLIF.
    NullIf(Box<Expr>, Box<Expr>),
    /// `left [NOT] IN (list)`.
    In {
        /// NOT IN.
        negated: bool,
        /// The left side; a row value or a scalar.
        left: Box<Expr>,
        /// The list.
        list: Vec<Expr>,
    },
    /// `left [NOT] BETWEEN [SYMMETRIC] low AND high`.
    Between {
        /// NOT BETWEEN.
        negated: bool,
        /// SYMMETRIC.
        symmetric: bool,
        /// The value.
        value: Box<Expr>,
        /// The lower bound.
        low: Box<Expr>,
        /// The upper bound.
        high: Box<Expr>,
    },
    /// AND of two or more.
    And(Vec<Expr>),
    /// OR of two or more.
    Or(Vec<Expr>),
    /// NOT.
    Not(Box<Expr>),
    /// A function or aggregate call.
    Call(Box<Call>),
    /// CASE.
    Case {
        /// `CASE operand WHEN value`.
        operand: Option<Box<Expr>>,
        /// WHEN, THEN.
        branches: Vec<(Expr, Expr)>,
        /// ELSE.
        otherwise: Option<Box<Expr>>,
    },
    /// COALESCE.
    Coalesce(Vec<Expr>),
    /// GREATEST and LEAST.
    MinMax(Extreme, Vec<Expr>),
    /// IS [NOT] NULL, TRUE, FALSE, UNKNOWN.
    Is(Test, Box<Expr>),
    /// A cast.
    Cast(Box<Expr>, TypeName),
    /// COLLATE.
    Collate(Box<Expr>, Name),
    /// `ROW(..)` or `(a, b)`.
    Row(Vec<Expr>),
    /// `ARRAY[..]`.
    Array(Vec<Expr>),
    /// EXISTS (query).
    Exists(Box<Query>),
    /// `left op ANY|ALL (query)`, also `IN (query)`.
    QuantifiedQuery {
        /// The symbol.
        name: String,
        /// ANY or ALL.
        quantifier: Quantifier,
        /// The left side.
        left: Box<Expr>,
        /// The query.
        query: Box<Query>,
    },
    /// A scalar subquery.
    Subquery(Box<Query>),
    /// ARRAY(query).
    ArrayQuery(Box<Query>),
    /// `base[index]` for each index, in order.
    Subscript(Box<Expr>, Vec<Expr>),
    /// `base[low:high]`.
    Slice(Box<Expr>, Option<Box<Expr>>, Option<Box<Expr>>),
    /// `(row).field`; `None` for `(row).*`.
    Field(Box<Expr>, Option<String>),
    /// DEFAULT, in VALUES and SET.
    Default,
    /// CURRENT_TIMESTAMP and its kin: the function of `pg_catalog` that means the same, and the
    /// precision.
    SqlValue(&'static str, Option<i32>),
}

/// A function call.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The function.
    pub name: Name,
    /// The arguments.
    pub arguments: Vec<Expr>,
    /// `f(*)`.
    pub star: bool,
    /// `f(DISTINCT ..)`.
    pub distinct: bool,
    /// `f(.. ORDER BY ..)`.
    pub order_by: Vec<OrderBy>,
    /// FILTER (WHERE ..).
    pub filter: Option<Expr>,
    /// `f(VARIADIC array)`.
    pub variadic: bool,
}

/// One key of ORDER BY.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderBy {
    /// What to order by.
    pub expr: Expr,
    /// DESC.
    pub descending: bool,
    /// NULLS FIRST or LAST; by default last ascending, first descending.
    pub nulls_first: bool,
}

/// A query: SELECT, VALUES, or a set operation, with what may stand around them.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// WITH.
    pub with: With,
    /// What produces the rows.
    pub body: Body,
    /// ORDER BY.
    pub order_by: Vec<OrderBy>,
    /// LIMIT.
    pub limit: Option<Expr>,
    /// OFFSET.
    pub offset: Option<Expr>,
    /// FOR UPDATE: the tables named, or all.
    pub for_update: Option<Vec<Name>>,
}

/// What a query's rows come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// SELECT.
    Select(Box<Select>),
    /// VALUES.
    Values(Vec<Vec<Expr>>),
    /// UNION, INTERSECT, EXCEPT.
    SetOperation {
        /// Which.
        operation: SetOperation,
        /// ALL.
        all: bool,
        /// The left query.
        left: Box<Query>,
        /// The right query.
        right: Box<Query>,
    },
}

/// Set operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetOperation {
    /// UNION.
    Union,
    /// INTERSECT.
    Intersect,
    /// EXCEPT.
    Except,
}

/// A SELECT without what stands around it.
#[derive(Clone, Debug, PartialEq)]
pub struct Select {
    /// DISTINCT: `None` absent, empty for plain DISTINCT, else DISTINCT ON.
    pub distinct: Option<Vec<Expr>>,
    /// The target list.
    pub targets: Vec<Target>,
    /// FROM.
    pub from: Vec<FromItem>,
    /// WHERE.
    pub filter: Option<Expr>,
    /// GROUP BY.
    pub group_by: Vec<Expr>,
    /// HAVING.
    pub having: Option<Expr>,
}

/// One entry of a target list.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The value; a column with a star expands.
    pub expr: Expr,
    /// AS.
    pub alias: Option<String>,
}

/// WITH.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct With {
    /// RECURSIVE: each sees all, itself included.
    pub recursive: bool,
    /// The common table expressions; none if there is no WITH.
    pub ctes: Vec<Cte>,
}

impl With {
    /// Is one of them a data change?
    pub fn changes_rows(&self) -> bool {
        self.ctes.iter().any(|cte| !matches!(cte.statement, super::statement::Statement::Query(_)))
    }
}

/// What is written about keeping a common table expression's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Materialized {
    /// Nothing.
    Unsaid,
    /// MATERIALIZED.
    Yes,
    /// NOT MATERIALIZED.
    No,
}

/// One common table expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Cte {
    /// Its name.
    pub name: String,
    /// Its columns' names, if written.
    pub columns: Vec<String>,
    /// A query, or a data change.
    pub statement: super::statement::Statement,
    /// Are its rows kept?
    pub materialized: Materialized,
    /// Where.
    pub at: At,
}

/// `AS name (columns)`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Alias {
    /// The name.
    pub name: String,
    /// The columns' names, possibly fewer than there are.
    pub columns: Vec<String>,
}

/// Kinds of join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKind {
    /// INNER and CROSS.
    Inner,
    /// LEFT.
    Left,
    /// RIGHT.
    Right,
    /// FULL.
    Full,
}

/// What joins.
#[derive(Clone, Debug, PartialEq)]
pub enum JoinCondition {
    /// ON; `None` for CROSS JOIN.
    On(Option<Expr>),
    /// USING (columns).
    Using(Vec<String>),
    /// NATURAL.
    Natural,
}

/// An item of FROM.
#[derive(Clone, Debug, PartialEq)]
pub enum FromItem {
    /// A table, view or CTE.
    Relation {
        /// Its name.
        name: Name,
        /// AS.
        alias: Option<Alias>,
    },
    /// A subquery.
    Subquery {
        /// LATERAL.
        lateral: bool,
        /// The query.
        query: Box<Query>,
        /// AS.
        alias: Option<Alias>,
    },
    /// A function, or several by ROWS FROM.
    Function {
        /// The call.
        call: Box<Expr>,
        /// WITH ORDINALITY.
        ordinality: bool,
        /// AS.
        alias: Option<Alias>,
    },
    /// A join.
    Join {
        /// Which.
        kind: JoinKind,
        /// On what.
        condition: Box<JoinCondition>,
        /// The left item.
        left: Box<FromItem>,
        /// The right item.
        right: Box<FromItem>,
        /// AS, around the whole join.
        alias: Option<Alias>,
    },
}
