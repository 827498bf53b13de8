//! Tables, figures and pages from the records of [`hindsight`], and the reproduction of the HAL paper.
//!
//! Everything here is a pure function of records:
//!
//! ```no_run
//! use hindsight_report::{Reference, Report, html};
//!
//! let records = hindsight::run_folder::read(&["runs"])?;
//! let report = Report::new("My runs", &records, &Reference::all());
//! std::fs::write("index.html", html(&report)).unwrap();
//! # Ok::<(), hindsight::run_folder::RecordError>(())
//! ```

#![forbid(unsafe_code)]

mod benchmark_tables;
mod cards;
mod escape;
mod export;
mod figures;
mod group;
mod html;
mod methods_page;
mod paired;
mod plural;
mod references;
mod report;
pub mod reproduce;
mod summary;
mod sweep_table;
mod tables;
mod verdict;

pub use escape::file_name;
pub use export::{evaluations_csv, runs_csv};
pub use figures::{Absent, Figure, figure, figure_kinds};
pub use group::{Group, Spread};
pub use html::html;
pub use methods_page::methods_page;
pub use paired::{Paired, paired};
pub use plural::plural;
pub use references::{PublishedResults, Reference, ReferenceRow, published};
pub use report::{Chapter, Live, Report, Section};
pub use summary::{cautions, results_table, summary};
pub use sweep_table::sweep_table;
pub use tables::{Cell, Table};
pub use verdict::Verdict;
