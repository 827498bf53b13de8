//! The report as one self-contained page without scripts, with dark mode and print styles.

use std::{collections::BTreeMap, fmt::Write};

use hindsight::{Record, metrics::METRICS};

use crate::{
    escape::{escape_xml, file_name},
    figures::{Figure, dark_css},
    plural::plural,
    report::{Chapter, Report, Section},
};

/// The page of a report.
pub fn html(report: &Report<'_>) -> String {
    // Dark mode applies to screens only: printers get the light colours.
    let css = include_str!("page.css")
        .replace("(prefers-color-scheme: dark)", "screen and (prefers-color-scheme: dark)")
        .replace("/*figures*/", &dark_css());
    let title = escape_xml(&report.title);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         img-src data:\">\n<link rel=\"icon\" href=\"data:,\">\n<title>{title}</title>\n<style>\n{css}</style>\n</head>\n\
         <body>\n<h1>{title}</h1>\n"
    );
    let records = &report.records.records;
    let methods: std::collections::BTreeSet<&str> = records.iter().map(|r| r.method.as_str()).collect();
    let _ = writeln!(
        page,
        "<p class=\"lead\">{}, {}, {}{}</p>",
        plural(records.len(), "run"),
        plural(methods.len(), "method"),
        plural(report.sections.len(), "benchmark"),
        match records.iter().filter(|record| record.accuracy.is_none()).count() {
            0 => String::new(),
            n => format!(", {n} diverged"),
        }
    );
    if report.sections.len() > 1 || !report.chapters.is_empty() {
        page += "<nav>";
        for chapter in &report.chapters {
            let _ = write!(page, "<a href=\"#{0}\">{0}</a>", escape_xml(chapter.name));
        }
        for section in &report.sections {
            let _ = write!(page, "<a href=\"#{}\">{}</a>", anchor(section), escape_xml(section.benchmark));
        }
        page += "<a href=\"#measures\">measures</a><a href=\"#provenance\">provenance</a></nav>\n";
    }
    report.chapters.iter().for_each(|part| chapter(&mut page, part));
    report.sections.iter().for_each(|section| benchmark(&mut page, section));
    measures(&mut page);
    configuration(&mut page, report);
    provenance(&mut page, report);
    page + "</body>\n</html>\n"
}

fn anchor(section: &Section<'_>) -> String {
    format!("benchmark-{}", file_name(section.benchmark))
}

fn chapter(page: &mut String, chapter: &Chapter) {
    let (name, title) = (escape_xml(chapter.name), escape_xml(&chapter.title));
    let _ = writeln!(page, "<h2 id=\"{name}\">{name}: {title}</h2>");
    for table in &chapter.tables {
        let _ = writeln!(page, "<h3>{}</h3>\n{}", escape_xml(&table.title), table.html());
    }
    chapter.figures.iter().for_each(|drawn| figure(page, drawn));
    for note in &chapter.notes {
        let _ = writeln!(page, "<p class=\"note\">{}</p>", escape_xml(note));
    }
}

fn figure(page: &mut String, figure: &Figure) {
    let _ = writeln!(
        page,
        "<h3>{}</h3>\n<figure><div class=\"wide\">{}</div><figcaption>{}</figcaption></figure>",
        escape_xml(&figure.title),
        figure.svg(),
        escape_xml(&figure.caption)
    );
}

fn benchmark(page: &mut String, section: &Section<'_>) {
    let _ = writeln!(page, "<h2 id=\"{}\">{}</h2>", anchor(section), escape_xml(section.benchmark));
    for (i, table) in section.tables.iter().enumerate() {
        if i > 0 {
            let _ = writeln!(page, "<h3>{}</h3>", escape_xml(&table.title));
        }
        *page += &table.html();
        // The formulas have their own section.
        for note in table.notes.iter().filter(|_| table.name != "measures") {
            let _ = writeln!(page, "<p class=\"note\">{}</p>", escape_xml(note));
        }
        for summary in section.summaries.iter().filter(|_| i == 0) {
            let _ = writeln!(page, "<p class=\"summary\">{}</p>", escape_xml(summary));
        }
    }
    section.figures.iter().for_each(|drawn| figure(page, drawn));
    if !section.absent.is_empty() {
        *page += "<details><summary>Figures without data</summary><ul>\n";
        for absent in &section.absent {
            let _ = writeln!(page, "<li>{}: needs {}</li>", escape_xml(absent.title), code(absent.why));
        }
        *page += "</ul></details>\n";
    }
}

/// Escaped text with backticks turned into `<code>`.
fn code(text: &str) -> String {
    let parts = escape_xml(text);
    let mut parts = parts.split('`');
    let first = parts.next().unwrap_or_default().to_owned();
    let tags = ["<code>", "</code>"].into_iter().cycle();
    parts.zip(tags).fold(first, |text, (part, tag)| text + tag + part)
}

fn measures(page: &mut String) {
    *page += "<h2 id=\"measures\">Measures</h2>\n<p>a[i][j] is the test accuracy on task j after learning task i, as a \
              fraction; T is the number of tasks; a[0] is before any training.</p>\n<div class=\"wide text\"><table>\n\
              <thead><tr><th>measure</th><th>formula</th></tr></thead>\n<tbody>\n";
    for metric in METRICS {
        let (name, formula) = (escape_xml(&metric.name.replace('_', " ")), escape_xml(metric.formula));
        let _ = writeln!(page, "<tr><th scope=\"row\">{name}</th><td><code>{formula}</code></td></tr>");
    }
    *page +=
        "</tbody></table></div>\n<p class=\"note\">± is the population standard deviation over seeds.</p>\n";
}

fn configuration(page: &mut String, report: &Report<'_>) {
    *page += "<h2 id=\"configuration\">Configuration</h2>\n<p>Settings that differ from the defaults; unfold for all \
              settings.</p>\n";
    for section in &report.sections {
        let _ = writeln!(page, "<h3>{}</h3>", escape_xml(section.benchmark));
        for group in &section.groups {
            let changed = group.changed();
            let line = |(key, value): &(&str, hindsight::settings::Value)| {
                format!("<code>{}</code>", escape_xml(&format!("{key} = {value}")))
            };
            let shown = match changed.is_empty() {
                true => "all defaults".to_owned(),
                false => changed.iter().map(line).collect::<Vec<_>>().join(", "),
            };
            let config = &group.records[0].config;
            let all: Vec<String> = config.iter().map(|(key, value)| format!("{key} = {value}")).collect();
            let seeds: Vec<String> = group.records.iter().map(|record| record.seed.to_string()).collect();
            let _ = writeln!(
                page,
                "<details><summary>{}: {shown}</summary><pre>{}\nseeds = {}</pre></details>",
                escape_xml(&group.label()),
                all.iter().map(|line| escape_xml(line)).collect::<Vec<_>>().join("\n"),
                seeds.join(", ")
            );
        }
    }
}

fn provenance(page: &mut String, report: &Report<'_>) {
    *page += "<h2 id=\"provenance\">Provenance</h2>\n<div class=\"wide text\"><table>\n<thead><tr><th>what</th><th>found</th>\
              <th>runs</th></tr></thead>\n<tbody>\n";
    let records = &report.records.records;
    let commit = |r: &Record| r.commit.as_ref().map(|commit| format!("{}, commit {commit}", r.program));
    type Column<'a> = (&'a str, &'a dyn Fn(&Record) -> String);
    let rows: [Column<'_>; 5] = [
        ("record version", &|r| r.version.to_string()),
        ("program", &|r| commit(r).unwrap_or_else(|| format!("{}, commit not known", r.program))),
        ("machine", &|r| {
            r.machine.as_ref().map_or("not recorded".to_owned(), |m| {
                let cpu = m.cpu.as_deref().unwrap_or("processor not known");
                format!("{cpu}, {}, {} {}", plural(m.cores, "core"), m.os, m.arch)
            })
        }),
        ("data", &|r| {
            r.data.as_ref().map_or("not recorded".to_owned(), |d| format!("{}, SHA-256 {}", d.name, d.sha256))
        }),
        ("day", &|r| {
            r.started.as_ref().map_or("not recorded".to_owned(), |time| time.chars().take(10).collect())
        }),
    ];
    for (what, of) in rows {
        let mut found: BTreeMap<String, usize> = BTreeMap::new();
        records.iter().for_each(|record| *found.entry(of(record)).or_default() += 1);
        for (value, runs) in found {
            let _ = writeln!(
                page,
                "<tr><th scope=\"row\">{what}</th><td>{}</td><td>{runs}</td></tr>",
                escape_xml(&value)
            );
        }
    }
    *page += "</tbody></table></div>\n";
    if let Some(most) = records.iter().filter_map(|record| record.peak_memory_bytes).max() {
        let _ = writeln!(
            page,
            "<p>The largest process had {:.0} MB of memory in use, for all runs in it together.</p>",
            most as f64 / 1e6
        );
    }
    let notes = &report.records.notes;
    if !notes.is_empty() {
        let _ = writeln!(page, "<h3>{} not used</h3>\n<ul>", plural(notes.len(), "line"));
        for note in notes {
            let _ = writeln!(page, "<li><code>{}</code></li>", escape_xml(&note.to_string()));
        }
        *page += "</ul>\n";
    }
    let _ = writeln!(page, "<p class=\"note\">Made by hindsight {}.</p>", env!("CARGO_PKG_VERSION"));
}
