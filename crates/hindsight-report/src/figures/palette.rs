//! Colours: few, distinguishable for the colour-blind, and the same for a method in all figures.

use std::collections::BTreeSet;

use crate::group::Group;

/// A colour by its role, in the light and the dark theme.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ThemeColor {
    /// The background.
    Paper,
    /// Text.
    Text,
    /// Secondary text and lines.
    Muted,
    /// Grid lines.
    Grid,
    /// One of [`SERIES`].
    Series(usize),
    /// A fixed colour, on any background.
    Rgb([u8; 3]),
}

/// Colours of methods and classes, light and dark: Okabe and Ito's, with the pale ones made darker on white.
pub(super) const SERIES: [([u8; 3], [u8; 3]); 10] = [
    ([213, 94, 0], [255, 132, 51]),     // vermilion
    ([0, 114, 178], [66, 165, 230]),    // blue
    ([118, 118, 118], [160, 160, 160]), // grey
    ([0, 140, 102], [38, 190, 145]),    // green
    ([184, 84, 148], [226, 140, 196]),  // purple
    ([64, 160, 214], [130, 205, 250]),  // sky
    ([200, 140, 0], [240, 185, 50]),    // orange
    ([120, 94, 60], [190, 160, 120]),   // brown
    ([98, 84, 190], [160, 150, 245]),   // violet
    ([140, 160, 20], [190, 205, 80]),   // olive
];

const PLAIN: [(ThemeColor, [u8; 3], [u8; 3]); 4] = [
    (ThemeColor::Paper, [255, 255, 255], [22, 24, 29]),
    (ThemeColor::Text, [28, 30, 35], [230, 232, 236]),
    (ThemeColor::Muted, [98, 103, 112], [156, 162, 172]),
    (ThemeColor::Grid, [224, 226, 230], [52, 56, 64]),
];

impl ThemeColor {
    pub(super) fn rgb(self) -> [u8; 3] {
        match self {
            ThemeColor::Series(i) => SERIES[i % SERIES.len()].0,
            ThemeColor::Rgb(rgb) => rgb,
            ink => PLAIN.iter().find(|(plain, ..)| *plain == ink).map_or([0; 3], |(_, light, _)| *light),
        }
    }

    pub(super) fn hex(self) -> String {
        hex(self.rgb())
    }

    /// The class by which a page recolours it: `f` or `s` for fill and stroke, and which.
    pub(super) fn class(self, what: &str) -> Option<String> {
        let name = match self {
            ThemeColor::Paper => "p".to_owned(),
            ThemeColor::Text => "t".to_owned(),
            ThemeColor::Muted => "m".to_owned(),
            ThemeColor::Grid => "g".to_owned(),
            ThemeColor::Series(i) => (i % SERIES.len()).to_string(),
            ThemeColor::Rgb(_) => return None,
        };
        Some(format!("{}{name}", &what[..1]))
    }
}

/// The rules of a page that recolour figures in the dark.
pub(crate) fn dark_css() -> String {
    let plain = PLAIN.iter().map(|(ink, _, dark)| (*ink, *dark));
    let series = SERIES.iter().enumerate().map(|(i, (_, dark))| (ThemeColor::Series(i), *dark));
    let rule = |(ink, dark): (ThemeColor, [u8; 3])| {
        let (fill, stroke, colour) = (ink.class("fill")?, ink.class("stroke")?, hex(dark));
        Some(format!("svg .{fill}{{fill:{colour}}}svg .{stroke}{{stroke:{colour}}}\n"))
    };
    plain.chain(series).filter_map(rule).collect()
}

fn hex([r, g, b]: [u8; 3]) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// How a group is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Style {
    pub(super) ink: ThemeColor,
    pub(super) dash: &'static [f64],
}

const DASHES: [&[f64]; 3] = [&[], &[6.0, 3.0], &[2.0, 2.5]];

/// Methods that have a colour of their own, in any report.
const HOMES: [(&str, usize); 10] = [
    ("hal", 0),
    ("er-ring", 1),
    ("finetune", 2),
    ("mer", 3),
    ("mir", 4),
    ("a-gem", 5),
    ("ewc", 6),
    ("icarl", 7),
    ("vcl", 8),
    ("vcl-random", 9),
];

/// A style for each group: a method's own for its first group, and for the others what is left.
pub(super) fn styles(groups: &[Group<'_>]) -> Vec<Style> {
    let (mut slots, mut methods) = (Vec::new(), BTreeSet::new());
    for group in groups {
        let first = methods.insert(group.method);
        let home = HOMES.iter().find(|(name, _)| *name == group.method).filter(|_| first);
        // An oracle takes no colour from the others, see below.
        slots.push(if group.oracle() { Some(usize::MAX) } else { home.map(|(_, slot)| *slot) });
    }
    let taken: BTreeSet<usize> = slots.iter().flatten().copied().collect();
    let mut free = (0..).filter(|slot| !taken.contains(slot));
    for slot in slots.iter_mut().filter(|slot| slot.is_none()) {
        *slot = free.next();
    }
    let style = |slot: usize| Style {
        ink: ThemeColor::Series(slot % SERIES.len()),
        dash: DASHES[slot / SERIES.len() % DASHES.len()],
    };
    let styles = slots.into_iter().map(|slot| style(slot.unwrap_or_default()));
    // Oracles are black and dashed.
    let mut oracles = 0;
    let oracle = |(group, style): (&Group<'_>, Style)| {
        oracles += usize::from(group.oracle());
        if group.oracle() {
            Style { ink: ThemeColor::Text, dash: DASHES[1 + (oracles - 1) % 2] }
        } else {
            style
        }
    };
    groups.iter().zip(styles).map(oracle).collect()
}

/// A colour of a scale from 0 to 1 that grows lighter evenly: cividis, made for the colour-blind.
pub(super) fn scale(value: f64) -> ThemeColor {
    const STOPS: [[f64; 3]; 6] = [
        [0.0, 34.0, 78.0],
        [53.0, 69.0, 108.0],
        [102.0, 105.0, 112.0],
        [148.0, 142.0, 119.0],
        [200.0, 184.0, 102.0],
        [254.0, 232.0, 56.0],
    ];
    let at = value.clamp(0.0, 1.0) * (STOPS.len() - 1) as f64;
    let low = (at as usize).min(STOPS.len() - 2);
    let part = at - low as f64;
    let mix = |c: usize| (STOPS[low][c] + part * (STOPS[low + 1][c] - STOPS[low][c])).round() as u8;
    ThemeColor::Rgb([mix(0), mix(1), mix(2)])
}
