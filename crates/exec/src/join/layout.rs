//! The input columns that a join keeps, and the origins of the columns of its result.

use arrow::datatypes::{DataType, Schema};
use rowmill_base::{Error, Result};
use rowmill_plan::JoinBound;

use super::range_rows::is_searchable;
use super::{JoinKind, JoinRequest};
use crate::numbers::have_same_numbers;
use crate::ordered_join::OrderedLayout;

/// The origin of a column of pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PairColumnOrigin {
    /// The position in [`JoinLayout::stored`].
    Build(usize),
    /// The position in the probe side.
    Probe(usize),
}

/// The columns of a join.
#[derive(Debug)]
pub(super) struct JoinLayout {
    /// Columns of the build side that are gathered.
    pub(super) gathered: Vec<usize>,
    /// Positions in [`JoinLayout::gathered`] of the columns that the result or the condition needs.
    pub(super) stored: Vec<usize>,
    /// The types of [`JoinLayout::stored`].
    pub(super) stored_kinds: Vec<DataType>,
    /// The keys as positions in [`JoinLayout::gathered`].
    pub(super) build_keys: Vec<usize>,
    /// The keys as columns of the probe side.
    pub(super) probe_keys: Vec<usize>,
    /// The columns of the probe side that are needed.
    pub(super) probe_used: Vec<usize>,
    /// The types of the keys.
    pub(super) key_kinds: Vec<DataType>,
    /// The columns of the result, with their types.
    pub(super) output: Vec<(PairColumnOrigin, DataType)>,
    /// The columns that the condition reads, with their types.
    pub(super) residual: Vec<(PairColumnOrigin, DataType)>,
    /// The bounds that pairs meet. Their build columns are positions in [`JoinLayout::stored`].
    pub(super) bounds: Vec<JoinBound>,
    /// The columns that the order of the build side reads, if the join is an ordered one.
    pub(super) ordered: Option<OrderedLayout>,
}

impl JoinLayout {
    /// The columns that `request` needs. Returns an error if it does not fit the schemas of the inputs.
    pub(super) fn new(request: &JoinRequest, build: &Schema, probe: &Schema) -> Result<JoinLayout> {
        check(request, build, probe)?;
        let mut layout = JoinLayout {
            gathered: Vec::new(),
            stored: Vec::new(),
            stored_kinds: Vec::new(),
            build_keys: Vec::new(),
            probe_keys: request.on.iter().map(|(_, probe)| *probe).collect(),
            probe_used: Vec::new(),
            key_kinds: request.on.iter().map(|(_, column)| probe.field(*column).data_type().clone()).collect(),
            output: Vec::new(),
            residual: Vec::new(),
            bounds: Vec::new(),
            ordered: None,
        };
        let residual = request.residual.as_ref().map_or(&[][..], |residual| residual.columns());
        layout.output = layout.origins(&request.output, build, probe);
        layout.residual = layout.origins(residual, build, probe);
        // A truth or a mark of NOT IN also needs the pairs for which the condition is NULL.
        if request.ordered.is_none() && request.kind != JoinKind::ProbeTruth && !request.null_aware {
            for bound in &request.bounds {
                let kinds = (build.field(bound.build).data_type(), probe.field(bound.probe).data_type());
                if is_searchable(kinds.0, kinds.1) {
                    let stored = layout.stored_place(bound.build, build);
                    layout.bounds.push(JoinBound { build: stored, ..*bound });
                }
            }
        }
        if let Some(ordered) = &request.ordered {
            let mut stored = |column: usize| layout.stored_place(column, build);
            layout.ordered = Some(OrderedLayout {
                position: stored(ordered.rules.position),
                tie: ordered.rules.tie.map(&mut stored),
                arguments: ordered.argument_columns().into_iter().map(stored).collect(),
            });
        }
        // A key that the result needs too is gathered only once.
        layout.build_keys = request.on.iter().map(|(column, _)| place(&mut layout.gathered, *column)).collect();
        let of_probe = |(origin, _): &(PairColumnOrigin, DataType)| match origin {
            PairColumnOrigin::Probe(column) => Some(*column),
            PairColumnOrigin::Build(_) => None,
        };
        layout.probe_used = layout.output.iter().chain(&layout.residual).filter_map(of_probe).collect();
        layout.probe_used.extend(&layout.probe_keys);
        layout.probe_used.extend(layout.bounds.iter().map(|bound| bound.probe));
        layout.probe_used.extend(request.ordered.iter().flat_map(|ordered| ordered.left_columns()));
        layout.probe_used.sort_unstable();
        layout.probe_used.dedup();
        Ok(layout)
    }

    /// The keys as columns of the build side.
    pub(super) fn build_key_columns(&self) -> Vec<usize> {
        self.build_keys.iter().map(|key| self.gathered[*key]).collect()
    }

    fn origins(&mut self, columns: &[usize], build: &Schema, probe: &Schema) -> Vec<(PairColumnOrigin, DataType)> {
        let builds = build.fields().len();
        let origin = |column: &usize| match column.checked_sub(builds) {
            Some(column) => (PairColumnOrigin::Probe(column), probe.field(column).data_type().clone()),
            None => {
                let stored = self.stored_place(*column, build);
                (PairColumnOrigin::Build(stored), self.stored_kinds[stored].clone())
            }
        };
        columns.iter().map(origin).collect()
    }

    /// The place of a column of the build side among the stored ones.
    fn stored_place(&mut self, column: usize, build: &Schema) -> usize {
        let stored = place(&mut self.stored, place(&mut self.gathered, column));
        if stored == self.stored_kinds.len() {
            self.stored_kinds.push(build.field(column).data_type().clone());
        }
        stored
    }
}

/// The position of `column` in `columns`. Appends it if it is new.
fn place(columns: &mut Vec<usize>, column: usize) -> usize {
    columns.iter().position(|other| *other == column).unwrap_or_else(|| {
        columns.push(column);
        columns.len() - 1
    })
}

fn check(request: &JoinRequest, build: &Schema, probe: &Schema) -> Result<()> {
    let wrong = |what: String| Err(Error::internal(format!("an invalid join: {what}")));
    let (builds, probes) = (build.fields().len(), probe.fields().len());
    for (of_build, of_probe) in &request.on {
        if *of_build >= builds || *of_probe >= probes {
            return wrong(format!("keys {of_build} and {of_probe} of {builds} and {probes} columns"));
        }
        let kinds = (build.field(*of_build).data_type(), probe.field(*of_probe).data_type());
        if !have_same_numbers(kinds.0, kinds.1) {
            return wrong(format!("a key of {} compared with one of {}", kinds.0, kinds.1));
        }
    }
    for bound in &request.bounds {
        if bound.build >= builds || bound.probe >= probes {
            return wrong(format!("a bound of {} and {} of {builds} and {probes} columns", bound.build, bound.probe));
        }
    }
    let residual = request.residual.as_ref().map_or(&[][..], |residual| residual.columns());
    if let Some(column) = request.output.iter().chain(residual).find(|column| **column >= builds + probes) {
        return wrong(format!("column {column} of {}", builds + probes));
    }
    let kind = request.kind;
    let is_given = |column: &usize| if *column < builds { kind.has_build_columns() } else { kind.has_probe_columns() };
    if let Some(column) = request.output.iter().find(|column| !is_given(column)) {
        return wrong(format!("column {column}, which {kind:?} does not have"));
    }
    let kind_of = |column: &usize| match column.checked_sub(builds) {
        Some(column) => probe.field(column).data_type(),
        None => build.field(*column).data_type(),
    };
    let mark = kind.has_mark().then_some(&DataType::Boolean);
    let ordered = request.ordered.as_deref();
    if let Some(ordered) = ordered {
        ordered.check(probe, build, request.output.iter().any(|column| *column < builds))?;
    }
    let aggregates = ordered.into_iter().flat_map(|ordered| ordered.aggregate_kinds());
    let given = request.output.iter().map(kind_of).chain(mark).chain(aggregates);
    match given.eq(request.schema.fields().iter().map(|field| field.data_type())) {
        true => Ok(()),
        false => wrong(format!("the columns {:?} as {}", request.output, request.schema)),
    }
}
