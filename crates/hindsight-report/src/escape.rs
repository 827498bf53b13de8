//! Text from records made safe for file names and markup.

/// A file name for a name from a record: lower case letters, digits, `_` and `-`. Two different names never
/// share a file name: one that had to be changed ends with a hash of the original.
pub fn file_name(name: &str) -> String {
    let safe = slug(name);
    if safe == name {
        return safe;
    }
    // FNV-1a: stable over versions and platforms, and long enough that names do not meet by chance.
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{safe}-{:012x}", hash >> 16)
}

/// The readable part of a file name, at most 60 characters: different names may have the same.
pub(crate) fn slug(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c.to_ascii_lowercase() } else { '-' };
    let words: String = name.chars().map(plain).collect();
    let words = words.split('-').filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-");
    if words.is_empty() { "unnamed".to_owned() } else { words.chars().take(60).collect() }
}

/// Text that is harmless in HTML, SVG and XML, also within quotes.
pub(crate) fn escape_xml(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            '\'' => safe += "&#39;",
            '\n' | '\t' => safe.push(' '),
            // XML has no way to write these.
            c if c.is_control() || ('\u{fffe}'..='\u{ffff}').contains(&c) => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

/// Escaped text with backticks turned into `<code>`.
pub(crate) fn code(text: &str) -> String {
    let parts = escape_xml(text);
    let mut parts = parts.split('`');
    let first = parts.next().unwrap_or_default().to_owned();
    let tags = ["<code>", "</code>"].into_iter().cycle();
    let mut text = parts.zip(tags).fold(first, |text, (part, tag)| text + tag + part);
    // A backtick without its partner must not leave an element open.
    if text.matches("<code>").count() > text.matches("</code>").count() {
        text += "</code>";
    }
    text
}

pub(crate) fn markdown(text: &str) -> String {
    let mut safe = String::new();
    for c in text.chars() {
        match c {
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            c if c.is_control() => safe.push(' '),
            c if "\\|*_`[]~".contains(c) => safe.extend(['\\', c]),
            c => safe.push(c),
        }
    }
    safe
}

pub(crate) fn latex(text: &str) -> String {
    let mut safe = String::new();
    for c in text.chars() {
        match c {
            '\\' => safe += "\\textbackslash{}",
            '~' => safe += "\\textasciitilde{}",
            '^' => safe += "\\textasciicircum{}",
            '<' => safe += "\\textless{}",
            '>' => safe += "\\textgreater{}",
            '±' => safe += "$\\pm$",
            c if c.is_control() => safe.push(' '),
            c if "&%$#_{}".contains(c) => safe.extend(['\\', c]),
            c => safe.push(c),
        }
    }
    safe
}

pub(crate) fn csv(text: &str) -> String {
    // A spreadsheet would take these for a formula.
    let text =
        if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { format!("'{text}") } else { text.to_owned() };
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}
