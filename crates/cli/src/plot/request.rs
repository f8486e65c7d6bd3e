//! Which columns of a result are drawn, and how.

use rowmill::{Error, ErrorKind, Result};

use super::sample::{PlotSample, SampledColumn, SampledValues};

/// What the user asks for: `\plot [line|bar] [X [Y ...]]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChartRequest {
    kind: Option<ChartKind>,
    columns: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChartKind {
    Line,
    Bar,
}

/// The most lines of a chart. More cannot be told apart.
pub(super) const SERIES_MAX: usize = 6;

impl ChartRequest {
    /// Reads the argument of the command.
    pub(crate) fn read(text: &str) -> Result<ChartRequest> {
        let mut words = text.split_whitespace().peekable();
        let kind = match words.peek().map(|word| word.to_lowercase()).as_deref() {
            Some("line") => Some(ChartKind::Line),
            Some("bar") => Some(ChartKind::Bar),
            _ => None,
        };
        if kind.is_some() {
            words.next();
        }
        Ok(ChartRequest { kind, columns: words.map(|word| word.trim_matches(['"', ',']).to_owned()).collect() })
    }
}

/// A column of numbers that is drawn.
#[derive(Clone, Debug)]
pub(super) struct ChartSeries<'s> {
    pub(super) name: &'s str,
    pub(super) values: &'s [f64],
}

/// The columns of a chart.
#[derive(Clone, Debug)]
pub(super) struct Chart<'s> {
    pub(super) kind: ChartKind,
    /// The column along the axis. `None` stands for the numbers of the rows.
    pub(super) x: Option<&'s SampledColumn>,
    pub(super) series: Vec<ChartSeries<'s>>,
    pub(super) rows: usize,
    /// The distance of the rows.
    pub(super) stride: u64,
}

impl<'s> Chart<'s> {
    /// Chooses the columns. A time is drawn along the axis, otherwise the first text, otherwise the first of several
    /// numbers.
    pub(super) fn of(sample: &'s PlotSample, request: &ChartRequest) -> Result<Chart<'s>> {
        if sample.len() == 0 {
            return Err(Error::new(ErrorKind::InvalidParameter, "the result has no rows to draw"));
        }
        let named = request.columns.iter().map(|name| find(sample, name)).collect::<Result<Vec<_>>>()?;
        let x = named.first().copied().or_else(|| axis_of(sample));
        let numbers: Vec<&SampledColumn> = match named.len() {
            0 | 1 => sample.columns.iter().filter(|column| is_number(column) && !is_same(x, column)).collect(),
            _ => named[1..].to_vec(),
        };
        let series: Vec<ChartSeries<'_>> = numbers.into_iter().map(series).collect::<Result<_>>()?;
        if series.is_empty() {
            let error = Error::new(ErrorKind::InvalidParameter, "the result has no column of numbers to draw");
            return Err(error.hint("for example: SELECT page, COUNT(*) FROM visits GROUP BY page \\plot"));
        }
        if series.len() > SERIES_MAX {
            let message = format!("a chart has at most {SERIES_MAX} columns of numbers, not {}", series.len());
            return Err(Error::new(ErrorKind::InvalidParameter, message).hint("name the columns: \\plot X Y"));
        }
        let is_labelled = matches!(x.map(|x| &x.values), Some(SampledValues::Labels(_)));
        let kind = request.kind.unwrap_or(if is_labelled { ChartKind::Bar } else { ChartKind::Line });
        Ok(Chart { kind, x, series, rows: sample.len(), stride: sample.stride() })
    }
}

fn find<'s>(sample: &'s PlotSample, name: &str) -> Result<&'s SampledColumn> {
    let found = sample.columns.iter().find(|column| column.name.eq_ignore_ascii_case(name));
    found.ok_or_else(|| {
        let names: Vec<&str> = sample.columns.iter().map(|column| column.name.as_str()).collect();
        let error = Error::new(ErrorKind::UndefinedColumn, format!("the result has no column \"{name}\""));
        error.hint(format!("its columns are {}", names.join(", ")))
    })
}

fn axis_of(sample: &PlotSample) -> Option<&SampledColumn> {
    let of_kind = |is_kind: fn(&SampledValues) -> bool| sample.columns.iter().find(|column| is_kind(&column.values));
    let several_numbers = sample.columns.iter().filter(|column| is_number(column)).count() > 1;
    let time = of_kind(|values| matches!(values, SampledValues::Times(_)));
    let label = || of_kind(|values| matches!(values, SampledValues::Labels(_)));
    let number = || of_kind(|values| matches!(values, SampledValues::Numbers(_))).filter(|_| several_numbers);
    time.or_else(label).or_else(number)
}

fn is_number(column: &SampledColumn) -> bool {
    matches!(column.values, SampledValues::Numbers(_))
}

fn is_same(x: Option<&SampledColumn>, column: &SampledColumn) -> bool {
    x.is_some_and(|x| std::ptr::eq(x, column))
}

fn series(column: &SampledColumn) -> Result<ChartSeries<'_>> {
    match &column.values {
        SampledValues::Numbers(values) => Ok(ChartSeries { name: &column.name, values }),
        _ => {
            let message = format!("the column \"{}\" has no numbers, so it cannot be drawn", column.name);
            Err(Error::new(ErrorKind::DatatypeMismatch, message))
        }
    }
}
