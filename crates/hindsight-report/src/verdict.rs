//! Verdicts on our numbers.

use std::fmt;

use crate::group::Spread;

/// How close our number is to a published one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The difference is at most s, the square root of the sum of both variances.
    WithinOne,
    /// The difference is at most 2 s.
    WithinTwo,
    /// The difference is larger.
    Outside,
    /// It is larger, but ours is of a single run, whose own deviation is not known.
    OutsideOneRun,
    /// All runs diverged.
    Diverged,
    /// No run has ended.
    NotRun,
    /// The runs have other settings than the published ones; the reason.
    NotComparable(&'static str),
    /// Nothing is published.
    NoNumber,
}

impl Verdict {
    /// The verdict on two numbers.
    pub fn of(published: Spread, ours: Spread) -> Verdict {
        let s = published.deviation.hypot(ours.deviation);
        // The tolerance absorbs rounding errors of a difference that is exactly at the limit.
        match (ours.mean - published.mean).abs() - 1e-9 {
            near if near <= s => Verdict::WithinOne,
            near if near <= 2.0 * s => Verdict::WithinTwo,
            _ if ours.count == 1 => Verdict::OutsideOneRun,
            _ => Verdict::Outside,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::WithinOne => f.write_str("within one std"),
            Verdict::WithinTwo => f.write_str("within two"),
            Verdict::Outside => f.write_str("outside"),
            Verdict::OutsideOneRun => f.write_str("outside (one run)"),
            Verdict::Diverged => f.write_str("diverged"),
            Verdict::NotRun => f.write_str("not run"),
            Verdict::NotComparable(why) => write!(f, "not comparable ({why})"),
            Verdict::NoNumber => f.write_str("-"),
        }
    }
}
