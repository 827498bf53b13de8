//! A card per benchmark: its best method, how sure that is, what went wrong, and a small chart.

use std::fmt::Write;

use crate::{
    escape::{code, escape_xml},
    group::{Group, ranked},
    paired::Paired,
    plural::plural,
    report::Section,
};

/// Bars of a card's chart.
const BARS: usize = 5;
/// Sentences of a card; the others are in the section.
pub(crate) const SENTENCES: usize = 2;

pub(crate) fn card(page: &mut String, section: &Section<'_>, anchor: &str) {
    let ranked = ranked(&section.groups);
    let _ = writeln!(
        page,
        "<section class=\"card\">\n<h2><a href=\"#{anchor}\">{}</a> {}</h2>",
        escape_xml(section.benchmark),
        tags(&section.groups)
    );
    if let Some((best, accuracy)) = ranked.first() {
        let values: Vec<f64> = best.records.iter().filter_map(|record| record.accuracy).collect();
        let interval = Paired::of(values).and_then(|mean| mean.interval());
        let seeds = interval.unwrap_or_else(|| plural(best.records.len() - best.diverged(), "run"));
        let _ = writeln!(
            page,
            "<p class=\"best\"><b>{accuracy:.1} %</b> {} <small>{seeds}</small></p>",
            escape_xml(&best.label())
        );
    }
    for group in section.groups.iter().filter(|group| group.diverged() > 0) {
        let _ = writeln!(
            page,
            "<p><span class=\"badge\">{}: {}</span> <small>{}</small></p>",
            escape_xml(&group.label()),
            escape_xml(&group.divergence().unwrap_or_default()),
            code(&group.remedy())
        );
    }
    for sentence in section.summaries.iter().take(SENTENCES) {
        let _ = writeln!(page, "<p>{}</p>", escape_xml(sentence));
    }
    if ranked.len() > 1 {
        *page += "<div class=\"bars\">\n";
        for (i, (group, accuracy)) in ranked.iter().take(BARS).enumerate() {
            let _ = writeln!(
                page,
                "<span>{}</span><i{} style=\"width:{:.1}%\"></i><span>{accuracy:.1}</span>",
                escape_xml(&group.label()),
                if i == 0 { " class=\"first\"" } else { "" },
                accuracy.clamp(0.0, 100.0)
            );
        }
        *page += "</div>\n";
        if ranked.len() > BARS {
            let _ = writeln!(page, "<p><small>and {} more</small></p>", ranked.len() - BARS);
        }
    }
    *page += "</section>\n";
}

/// The scenarios of a benchmark's runs.
pub(crate) fn tags(groups: &[Group<'_>]) -> String {
    let mut scenarios: Vec<String> = groups.iter().filter_map(Group::scenario).collect();
    scenarios.sort();
    scenarios.dedup();
    let tag = |scenario: &String| format!("<span class=\"tag\">{}</span>", escape_xml(scenario));
    scenarios.iter().map(tag).collect::<Vec<_>>().join(" ")
}
