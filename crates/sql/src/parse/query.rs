//! Conversion of queries and data changes.
//!
//! Invariants: as in [`super::expression`]: bounded recursion, refusal by name.

use super::Converter;
use super::ast::{
    At, Body, Cte, Expr, FromItem, JoinCondition, JoinKind, Materialized, Query, Select,
    SetOperation, Target, With,
};
use super::expression::refused;
use super::names::{alias, relation, strings};
use super::statement::{
    Assignment, ConflictTarget, ConflictUpdate, Delete, Insert, OnConflict, Overriding, Statement,
    Update,
};
use crate::error::{SqlError, SqlResult, SqlState};
use pg_raw_parse::list::{CastNodeList, NodeList};
use pg_raw_parse::raw::{
    CTEMaterialize, JoinType, LimitOption, LockClauseStrength, LockWaitPolicy, OnConflictAction,
    OverridingKind, SetOperation as RawSetOperation,
};
use pg_raw_parse::{Node, nodes};

impl Converter {
    /// A SELECT, VALUES or set operation with all its clauses.
    pub(super) fn query(&self, select: &nodes::SelectStmt) -> SqlResult<Query> {
        let _deeper = self.deeper()?;
        if select.into_clause().is_some() {
            return Err(SqlError::not_supported("SELECT INTO"));
        }
        if !select.window_clause().is_empty() {
            return Err(SqlError::not_supported("WINDOW"));
        }
        if select.limit_option == LimitOption::LIMIT_OPTION_WITH_TIES {
            return Err(SqlError::not_supported("FETCH FIRST .. WITH TIES"));
        }
        Ok(Query {
            with: self.with(select.with_clause())?,
            body: self.body(select)?,
            order_by: self.order_by(select.sort_clause())?,
            limit: self.limit(select.limit_count())?,
            offset: self.optional(select.limit_offset())?,
            for_update: locking(select)?,
        })
    }

    /// LIMIT ALL is a NULL constant: no limit.
    fn limit(&self, node: Node<'_>) -> SqlResult<Option<Expr>> {
        match node {
            Node::A_Const(constant) if constant.isnull => Ok(None),
            node => self.optional(node),
        }
    }

    fn body(&self, select: &nodes::SelectStmt) -> SqlResult<Body> {
        if let (Some(left), Some(right)) = (select.larg(), select.rarg()) {
            let operation = match select.op {
                RawSetOperation::SETOP_UNION => SetOperation::Union,
                RawSetOperation::SETOP_INTERSECT => SetOperation::Intersect,
                _ => SetOperation::Except,
            };
            return Ok(Body::SetOperation {
                operation,
                all: select.all,
                left: Box::new(self.query(left)?),
                right: Box::new(self.query(right)?),
            });
        }
        if !select.values_lists().is_empty() {
            let rows = select.values_lists().iter();
            let rows = rows.map(|row| self.exprs(row.expect_node_list())).collect::<Result<_, _>>();
            return Ok(Body::Values(rows?));
        }
        let distinct = match select.distinct_clause() {
            list if list.is_empty() => None,
            list if list.iter().all(|node| matches!(node, Node::None)) => Some(Vec::new()),
            list => Some(self.exprs(list)?),
        };
        if select.group_distinct {
            return Err(SqlError::not_supported("GROUP BY DISTINCT"));
        }
        Ok(Body::Select(Box::new(Select {
            distinct,
            targets: self.targets(select.target_list())?,
            from: self.range_items(select.from_clause())?,
            filter: self.optional(select.where_clause())?,
            group_by: self.exprs(select.group_clause())?,
            having: self.optional(select.having_clause())?,
        })))
    }

    fn with(&self, clause: Option<&nodes::WithClause>) -> SqlResult<With> {
        let Some(clause) = clause else { return Ok(With::default()) };
        let ctes = clause.ctes().iter().map(|cte| self.cte(cte)).collect::<SqlResult<_>>()?;
        Ok(With { recursive: clause.recursive, ctes })
    }

    fn cte(&self, cte: &nodes::CommonTableExpr) -> SqlResult<Cte> {
        let at = At::from_offset(cte.location);
        let refuse = |what: &str| Err(SqlError::not_supported(what).at(at.position()));
        if cte.search_clause().is_some() {
            return refuse("SEARCH in WITH RECURSIVE");
        }
        if cte.cycle_clause().is_some() {
            return refuse("CYCLE in WITH RECURSIVE");
        }
        let statement = match cte.ctequery() {
            Node::SelectStmt(query) => Statement::Query(Box::new(self.query(query)?)),
            Node::InsertStmt(insert) => Statement::Insert(Box::new(self.insert(insert)?)),
            Node::UpdateStmt(update) => Statement::Update(Box::new(self.update(update)?)),
            Node::DeleteStmt(delete) => Statement::Delete(Box::new(self.delete(delete)?)),
            Node::MergeStmt(_) => return refuse("MERGE"),
            other => return Err(refused(other)),
        };
        Ok(Cte {
            name: cte.ctename().unwrap_or_default().to_owned(),
            columns: strings(cte.aliascolnames()),
            statement,
            materialized: match cte.ctematerialized {
                CTEMaterialize::CTEMaterializeAlways => Materialized::Yes,
                CTEMaterialize::CTEMaterializeNever => Materialized::No,
                _ => Materialized::Unsaid,
            },
            at,
        })
    }

    fn targets(&self, list: &CastNodeList<nodes::ResTarget>) -> SqlResult<Vec<Target>> {
        list.iter().map(|target| self.target(target)).collect()
    }

    fn target(&self, target: &nodes::ResTarget) -> SqlResult<Target> {
        let mut expr = self.expr(target.val())?;
        if expr.at == At::NONE {
            expr.at = At::from_offset(target.location);
        }
        Ok(Target { expr, alias: target.name().map(str::to_owned) })
    }

    /// The items of FROM.
    pub(super) fn range_items(&self, list: &NodeList) -> SqlResult<Vec<FromItem>> {
        list.iter().map(|item| self.range_item(item)).collect()
    }

    fn range_item(&self, item: Node<'_>) -> SqlResult<FromItem> {
        let _deeper = self.deeper()?;
        match item {
            Node::RangeVar(range) => {
                Ok(FromItem::Relation { name: relation(Some(range))?, alias: alias(range.alias()) })
            }
            Node::RangeSubselect(subquery) => {
                let Node::SelectStmt(select) = subquery.subquery() else {
                    return Err(refused(subquery.subquery()));
                };
                Ok(FromItem::Subquery {
                    lateral: subquery.lateral,
                    query: Box::new(self.query(select)?),
                    alias: alias(subquery.alias()),
                })
            }
            Node::RangeFunction(function) => self.range_function(function),
            Node::JoinExpr(join) => self.join(join),
            other => Err(refused(other)),
        }
    }

    fn range_function(&self, function: &nodes::RangeFunction) -> SqlResult<FromItem> {
        if !function.coldeflist().is_empty() {
            return Err(SqlError::not_supported("a column definition list"));
        }
        if function.functions().len() != 1 {
            return Err(SqlError::not_supported("ROWS FROM with several functions"));
        }
        let pair = function.functions().get(0).map(|pair| pair.expect_node_list());
        let call = pair.and_then(|pair| pair.get(0)).unwrap_or(Node::None);
        Ok(FromItem::Function {
            call: Box::new(self.expr(call)?),
            ordinality: function.ordinality,
            alias: alias(function.alias()),
        })
    }

    fn join(&self, join: &nodes::JoinExpr) -> SqlResult<FromItem> {
        if join.join_using_alias().is_some() {
            return Err(SqlError::not_supported("an alias of JOIN .. USING"));
        }
        let condition = if join.is_natural {
            JoinCondition::Natural
        } else if !join.using_clause().is_empty() {
            let columns = join.using_clause().iter();
            JoinCondition::Using(columns.filter_map(|c| c.sval().map(str::to_owned)).collect())
        } else {
            JoinCondition::On(self.optional(join.quals())?)
        };
        Ok(FromItem::Join {
            kind: match join.jointype {
                JoinType::JOIN_LEFT => JoinKind::Left,
                JoinType::JOIN_RIGHT => JoinKind::Right,
                JoinType::JOIN_FULL => JoinKind::Full,
                _ => JoinKind::Inner,
            },
            condition: Box::new(condition),
            left: Box::new(self.range_item(join.larg())?),
            right: Box::new(self.range_item(join.rarg())?),
            alias: alias(join.alias()),
        })
    }

    /// INSERT.
    pub(super) fn insert(&self, insert: &nodes::InsertStmt) -> SqlResult<Insert> {
        let overriding = match insert.override_ {
            OverridingKind::OVERRIDING_SYSTEM_VALUE => Overriding::System,
            OverridingKind::OVERRIDING_USER_VALUE => Overriding::User,
            _ => Overriding::No,
        };
        let mut columns = Vec::new();
        for column in insert.cols() {
            let Node::ResTarget(target) = column else { return Err(refused(column)) };
            let at = At::from_offset(target.location);
            if !target.indirection().is_empty() {
                return Err(
                    SqlError::not_supported("an insert into part of a column").at(at.position())
                );
            }
            columns.push((target.name().unwrap_or_default().to_owned(), at));
        }
        let source = match insert.select_stmt() {
            Node::None => None,
            Node::SelectStmt(select) => Some(self.query(select)?),
            other => return Err(refused(other)),
        };
        Ok(Insert {
            with: self.with(insert.with_clause())?,
            table: relation(insert.relation())?,
            alias: alias(insert.relation().and_then(|relation| relation.alias())),
            columns,
            overriding,
            source,
            conflict: insert.on_conflict_clause().map(|it| self.on_conflict(it)).transpose()?,
            returning: self.returning(insert.returning_clause())?,
        })
    }

    fn on_conflict(&self, clause: &nodes::OnConflictClause) -> SqlResult<OnConflict> {
        let target = match clause.infer() {
            None => ConflictTarget::Any,
            Some(infer) => conflict_target(infer)?,
        };
        let update = match clause.action {
            OnConflictAction::ONCONFLICT_UPDATE => Some(ConflictUpdate {
                assignments: self.assignments(clause.target_list())?,
                filter: self.optional(clause.where_clause())?,
            }),
            _ => None,
        };
        Ok(OnConflict { target, update, at: At::from_offset(clause.location) })
    }

    /// UPDATE.
    pub(super) fn update(&self, update: &nodes::UpdateStmt) -> SqlResult<Update> {
        Ok(Update {
            with: self.with(update.with_clause())?,
            table: relation(update.relation())?,
            alias: alias(update.relation().and_then(|relation| relation.alias())),
            assignments: self.assignments(update.target_list())?,
            from: self.range_items(update.from_clause())?,
            filter: self.optional(update.where_clause())?,
            returning: self.returning(update.returning_clause())?,
        })
    }

    /// DELETE.
    pub(super) fn delete(&self, delete: &nodes::DeleteStmt) -> SqlResult<Delete> {
        Ok(Delete {
            with: self.with(delete.with_clause())?,
            table: relation(delete.relation())?,
            alias: alias(delete.relation().and_then(|relation| relation.alias())),
            using: self.range_items(delete.using_clause())?,
            filter: self.optional(delete.where_clause())?,
            returning: self.returning(delete.returning_clause())?,
        })
    }

    fn assignments(&self, list: &CastNodeList<nodes::ResTarget>) -> SqlResult<Vec<Assignment>> {
        let mut assignments = Vec::with_capacity(list.len());
        for target in list {
            let at = At::from_offset(target.location);
            let refuse = |what: &str| Err(SqlError::not_supported(what).at(at.position()));
            let mut subscripts = Vec::new();
            for step in target.indirection() {
                subscripts.push(match step {
                    Node::A_Indices(index) if index.is_slice => {
                        return refuse("an update of a slice of an array");
                    }
                    Node::A_Indices(index) => self.expr(index.uidx())?,
                    _ => return refuse("an update of part of a column"),
                });
            }
            let value = match target.val() {
                Node::MultiAssignRef(part) => self.part_of_row(part, at)?,
                value => self.expr(value)?,
            };
            let column = target.name().unwrap_or_default().to_owned();
            assignments.push(Assignment { column, subscripts, at, value });
        }
        Ok(assignments)
    }

    /// `SET (a, b) = (x, y)` reaches us as one entry a column, each with the whole right side.
    fn part_of_row(&self, part: &nodes::MultiAssignRef, at: At) -> SqlResult<Expr> {
        match part.source() {
            Node::RowExpr(row) if row.args().len() == part.ncolumns as usize => {
                let value = row.args().get((part.colno - 1) as usize).unwrap_or(Node::None);
                self.expr(value)
            }
            Node::RowExpr(_) => Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                "number of columns does not match number of values",
            )
            .at(at.position())),
            _ => {
                Err(SqlError::not_supported("a multiple assignment from a subquery")
                    .at(at.position()))
            }
        }
    }

    fn returning(&self, clause: Option<&nodes::ReturningClause>) -> SqlResult<Vec<Target>> {
        let Some(clause) = clause else { return Ok(Vec::new()) };
        if !clause.options().is_empty() {
            return Err(SqlError::not_supported("RETURNING WITH (OLD, NEW)"));
        }
        let mut targets = Vec::new();
        for target in clause.exprs() {
            match target {
                Node::ResTarget(target) => targets.push(self.target(target)?),
                other => return Err(refused(other)),
            }
        }
        Ok(targets)
    }
}

fn conflict_target(infer: &nodes::InferClause) -> SqlResult<ConflictTarget> {
    let refuse = |what: &str, at: At| Err(SqlError::not_supported(what).at(at.position()));
    if !matches!(infer.where_clause(), Node::None) {
        let at = At::from_offset(infer.location);
        return refuse("WHERE in the target of ON CONFLICT", at);
    }
    if let Some(name) = infer.conname() {
        return Ok(ConflictTarget::Constraint(name.to_owned()));
    }
    let at = At::from_offset(infer.location);
    let mut columns = Vec::with_capacity(infer.index_elems().len());
    for element in infer.index_elems() {
        let Node::IndexElem(element) = element else { return Err(refused(element)) };
        let Some(name) = element.name() else {
            return refuse("an expression in the target of ON CONFLICT", at);
        };
        if !element.collation().is_empty() || !element.opclass().is_empty() {
            return refuse("COLLATE or an operator class in the target of ON CONFLICT", at);
        }
        columns.push((name.to_owned(), at));
    }
    Ok(ConflictTarget::Columns(columns))
}

fn locking(select: &nodes::SelectStmt) -> SqlResult<Option<Vec<super::ast::Name>>> {
    let mut named: Option<Vec<super::ast::Name>> = None;
    let mut all = false;
    for clause in select.locking_clause() {
        let strength = match clause.strength {
            LockClauseStrength::LCS_FORUPDATE => None,
            LockClauseStrength::LCS_FORNOKEYUPDATE => Some("FOR NO KEY UPDATE"),
            LockClauseStrength::LCS_FORSHARE => Some("FOR SHARE"),
            _ => Some("FOR KEY SHARE"),
        };
        let policy = match clause.wait_policy {
            LockWaitPolicy::LockWaitSkip => Some("SKIP LOCKED"),
            LockWaitPolicy::LockWaitError => Some("NOWAIT"),
            _ => None,
        };
        if let Some(what) = strength.or(policy) {
            return Err(SqlError::not_supported(what));
        }
        let names = named.get_or_insert_default();
        all |= clause.locked_rels().is_empty();
        for locked in clause.locked_rels() {
            match locked {
                Node::RangeVar(range) => names.push(relation(Some(range))?),
                other => return Err(refused(other)),
            }
        }
    }
    if all {
        named = Some(Vec::new());
    }
    Ok(named)
}
