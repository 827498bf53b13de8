//! The report as one self-contained page, with dark mode and print styles. Its one script is a convenience:
//! nothing is hidden without it.

use std::{collections::BTreeMap, fmt::Write};

use base64::{Engine, prelude::BASE64_STANDARD};
use hindsight::{Record, metrics::METRICS};
use sha2::{Digest, Sha256};

use crate::{
    cards::{SENTENCES, card, tags},
    escape::{code, escape_xml, file_name},
    figures::{Figure, dark_css},
    plural::plural,
    report::{Chapter, MOST_DRAWN, Report, Section},
};

const SCRIPT: &str = include_str!("page.js");

/// The page of a report.
pub fn html(report: &Report<'_>) -> String {
    // Dark mode applies to screens only: printers get the light colours.
    let css = include_str!("page.css")
        .replace("(prefers-color-scheme: dark)", "screen and (prefers-color-scheme: dark)")
        .replace("/*figures*/", &dark_css());
    let title = escape_xml(&report.title);
    let script = BASE64_STANDARD.encode(Sha256::digest(SCRIPT));
    let (watch, refresh) = match &report.live {
        None => (String::new(), String::new()),
        Some(live) => (
            format!(" data-watch=\"{}\"", live.seconds),
            format!("<noscript><meta http-equiv=\"refresh\" content=\"{}\"></noscript>\n", live.seconds),
        ),
    };
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"{watch}>\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         img-src data:; script-src 'sha256-{script}'\">\n{refresh}<link rel=\"icon\" href=\"data:,\">\n\
         <title>{title}</title>\n<style>\n{css}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
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
    live(&mut page, report);
    if report.sections.len() > 1 || !report.chapters.is_empty() {
        page += "<nav>";
        for chapter in &report.chapters {
            let _ = write!(page, "<a href=\"#{0}\">{0}</a> ", escape_xml(chapter.name));
        }
        for section in &report.sections {
            let _ = write!(page, "<a href=\"#{}\">{}</a> ", anchor(section), escape_xml(section.benchmark));
        }
        page += "<a href=\"#provenance\">provenance</a></nav>\n";
    }
    if report.sections.len() > MOST_DRAWN {
        let _ = writeln!(
            page,
            "<p class=\"note\">Figures are drawn of the first {MOST_DRAWN} benchmarks; for those of others, make \
             a report on their folders alone.</p>"
        );
    }
    page += "<div class=\"cards\">\n";
    report.sections.iter().for_each(|section| card(&mut page, section, &anchor(section)));
    page += "</div>\n";
    report.chapters.iter().for_each(|part| chapter(&mut page, part));
    report.sections.iter().for_each(|section| benchmark(&mut page, section));
    page += "<h2 id=\"provenance\">About these numbers</h2>\n";
    fold(&mut page, "measures", "Measures and their formulas", measures);
    fold(&mut page, "configuration", "Configuration", |page| configuration(page, report));
    fold(&mut page, "origin", "Provenance: program, machine, data", |page| provenance(page, report));
    let _ = writeln!(page, "<p class=\"note\">Made by hindsight {}.</p>", env!("CARGO_PKG_VERSION"));
    page + "<script>" + SCRIPT + "</script>\n</body>\n</html>\n"
}

/// A part that is folded at first.
fn fold(page: &mut String, id: &str, title: &str, content: impl FnOnce(&mut String)) {
    let (id, title) = (escape_xml(id), escape_xml(title));
    let _ = writeln!(page, "<details class=\"fold\" id=\"{id}\"><summary>{title}</summary>");
    content(page);
    *page += "</details>\n";
}

/// The runs that are under way.
fn live(page: &mut String, report: &Report<'_>) {
    let Some(live) = &report.live else { return };
    if live.runs.is_empty() {
        *page += "<p class=\"note\">No run is under way that has finished a task.</p>\n";
        return;
    }
    *page += "<h3>Under way</h3>\n<div class=\"wide\"><table>\n<thead><tr><th>run</th><th>tasks finished</th>\
              <th>accuracy on them %</th></tr></thead>\n<tbody>\n";
    for run in &live.runs {
        let accuracy = run.accuracy.map_or("-".to_owned(), |accuracy| format!("{:.1}", 100.0 * accuracy));
        let _ = writeln!(
            page,
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{accuracy}</td></tr>",
            escape_xml(&format!("{} on {}, seed {}", run.method, run.benchmark, run.seed)),
            run.finished
        );
    }
    *page += "</tbody></table></div>\n";
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
        "<figure><h3>{}</h3>{}<figcaption>{}</figcaption></figure>",
        escape_xml(&figure.title),
        figure.svg(),
        escape_xml(&figure.caption)
    );
}

/// Figures that are seen at once; the others are folded.
const SEEN: [&str; 4] = ["stream", "prequential", "tasks", "confusion"];
/// Those that the beginning of a section has in another form.
const LEAD: [&str; 1] = ["accuracy"];

fn benchmark(page: &mut String, section: &Section<'_>) {
    let id = anchor(section);
    let _ =
        writeln!(page, "<h2 id=\"{id}\">{} {}</h2>", escape_xml(section.benchmark), tags(&section.groups));
    lead(page, section, &id);
    let mut tables = section.tables.iter();
    if let Some(results) = tables.next() {
        *page += &results.html();
        for note in &results.notes {
            let _ = writeln!(page, "<p class=\"note\">{}</p>", code(note));
        }
    }
    for summary in section.summaries.iter().skip(SENTENCES) {
        let _ = writeln!(page, "<p>{}</p>", escape_xml(summary));
    }
    let is = |figure: &&Figure, kinds: &[&str]| kinds.contains(&figure.kind);
    let (seen, folded): (Vec<&Figure>, Vec<&Figure>) =
        section.figures.iter().filter(|figure| !is(figure, &LEAD)).partition(|figure| is(figure, &SEEN));
    *page += "<div class=\"pair\">\n";
    seen.into_iter().for_each(|drawn| figure(page, drawn));
    *page += "</div>\n";
    for table in tables {
        fold(page, &format!("{id}-{}", table.name), &table.title, |page| {
            *page += &table.html();
            for note in &table.notes {
                let _ = writeln!(page, "<p class=\"note\">{}</p>", escape_xml(note));
            }
        });
    }
    if !folded.is_empty() {
        let titles: Vec<&str> = folded.iter().map(|figure| figure.title.as_str()).collect();
        fold(page, &format!("{id}-figures"), &format!("More figures: {}", titles.join("; ")), |page| {
            *page += "<div class=\"pair\">\n";
            folded.into_iter().for_each(|drawn| figure(page, drawn));
            *page += "</div>\n";
        });
    }
    if !section.absent.is_empty() {
        fold(page, &format!("{id}-absent"), "Figures without data", |page| {
            *page += "<ul>\n";
            for absent in &section.absent {
                let _ = writeln!(page, "<li>{}: needs {}</li>", escape_xml(absent.title), code(absent.why));
            }
            *page += "</ul>\n";
        });
    }
}

/// Curve and matrix, side by side where there is room.
fn lead(page: &mut String, section: &Section<'_>, id: &str) {
    let lead = &section.lead;
    if lead.curve.is_none() && lead.matrix.is_none() {
        return;
    }
    *page += "<div class=\"pair\">\n";
    if let Some(curve) = &lead.curve {
        let _ = writeln!(
            page,
            "<figure id=\"{id}-curve\"><h3>Accuracy as tasks are learned</h3>{curve}<div class=\"chips\">"
        );
        for (number, (label, sample, on)) in lead.legend.iter().enumerate() {
            // Without the script there is nothing to press.
            let _ = writeln!(
                page,
                "<button type=\"button\" class=\"chip\" data-line=\"{number}\" aria-pressed=\"{on}\" disabled>{sample}{}</button>",
                escape_xml(label)
            );
        }
        *page += "</div><figcaption>Mean over seeds; the band is one population standard deviation to either side. The \
                  three best methods and finetune are drawn; a click on a name switches its line.</figcaption></figure>\n";
    }
    if let Some(matrix) = &lead.matrix {
        let _ = writeln!(
            page,
            "<figure><h3>The best method, task by task</h3>{matrix}<figcaption>Down: after which task; across: on which \
             task. Mean over seeds. Below the diagonal: what is kept of earlier tasks.</figcaption></figure>"
        );
    }
    *page += "</div>\n";
}

fn measures(page: &mut String) {
    *page += "<p>a[i][j] is the test accuracy on task j after learning task i, as a \
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
    *page += "<p>Settings that differ from the defaults; unfold for all settings.</p>\n";
    for section in &report.sections {
        let _ = writeln!(page, "<h3>{}</h3>", escape_xml(section.benchmark));
        for (i, group) in section.groups.iter().enumerate() {
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
                "<details id=\"{}-settings-{i}\"><summary>{}: {shown}</summary><pre>{}\nseeds = {}</pre></details>",
                anchor(section),
                escape_xml(&group.label()),
                all.iter().map(|line| escape_xml(line)).collect::<Vec<_>>().join("\n"),
                seeds.join(", ")
            );
        }
    }
}

fn provenance(page: &mut String, report: &Report<'_>) {
    *page += "<div class=\"wide text\"><table>\n<thead><tr><th>what</th><th>found</th>\
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
}
