//! Tables, figures and pages of records.

use std::path::PathBuf;

use hindsight::{
    Record,
    run_folder::{self, Records},
};
use hindsight_report::{Reference, Report, figure, figure_kinds, html, results_table};
use pyo3::{exceptions::PyValueError, prelude::*, types::PyBytes};

use crate::error::exception;

/// Lines of JSON as values.
pub(crate) fn parse<T: serde::de::DeserializeOwned>(lines: &[String]) -> PyResult<Vec<T>> {
    let parsed = lines.iter().map(|line| serde_json::from_str(line));
    parsed.collect::<Result<_, _>>().map_err(|error| PyValueError::new_err(format!("not a record: {error}")))
}

fn records(records: &[String], snapshots: &[String]) -> PyResult<Records> {
    Ok(Records { records: parse(records)?, snapshots: parse(snapshots)?, notes: Vec::new() })
}

/// Records and snapshots, as lines of JSON, in files and folders, and what is wrong with other lines.
#[pyfunction]
pub(crate) fn read_records(paths: Vec<PathBuf>) -> PyResult<(Vec<String>, Vec<String>, Vec<String>)> {
    let found = run_folder::read(&paths).map_err(exception)?;
    let json = "what was read can be written";
    Ok((
        found.records.iter().map(|record| serde_json::to_string(record).expect(json)).collect(),
        found.snapshots.iter().map(|snapshot| serde_json::to_string(snapshot).expect(json)).collect(),
        found.notes.iter().map(ToString::to_string).collect(),
    ))
}

/// Accuracy, forgetting and learning accuracy by method, as text.
#[pyfunction]
pub(crate) fn table(lines: Vec<String>) -> PyResult<String> {
    Ok(results_table(&parse::<Record>(&lines)?))
}

/// Name, title, caption, SVG and PNG of the figures of a kind, of records of one benchmark.
#[pyfunction]
#[expect(clippy::type_complexity, reason = "Python gives the parts names")]
pub(crate) fn figures<'py>(
    py: Python<'py>,
    kind: &str,
    lines: Vec<String>,
    snapshots: Vec<String>,
) -> PyResult<Vec<(String, String, String, String, Bound<'py, PyBytes>)>> {
    if !figure_kinds().any(|known| known == kind) {
        let kinds: Vec<_> = figure_kinds().map(|kind| format!("`{kind}`")).collect();
        return Err(PyValueError::new_err(format!("figure `{kind}`, expected one of {}", kinds.join(", "))));
    }
    let records = records(&lines, &snapshots)?;
    let drawn = py.detach(|| {
        let figures = figure(kind, &records).into_iter();
        figures.map(|figure| (figure.svg(), figure.png(), figure)).collect::<Vec<_>>()
    });
    let parts = drawn
        .into_iter()
        .map(|(svg, png, figure)| (figure.name, figure.title, figure.caption, svg, PyBytes::new(py, &png)));
    Ok(parts.collect())
}

/// The report as one page of HTML.
#[pyfunction]
pub(crate) fn page(
    py: Python<'_>,
    title: &str,
    lines: Vec<String>,
    snapshots: Vec<String>,
) -> PyResult<String> {
    let records = records(&lines, &snapshots)?;
    Ok(py.detach(|| html(&Report::new(title, &records, &Reference::all()))))
}
