//! Settings with a few named values, as enums.

/// An enum that is a setting: a word for each value.
///
/// A key takes its words from here (`Kind::Choice(Colour::WORDS)`), and
/// [`Settings::choice`](super::Settings::choice) returns the value, so that nothing compares strings.
///
/// ```
/// use hindsight::settings::{Choice, Family, Key, Kind, Settings, Value};
///
/// #[derive(Debug, Clone, Copy, PartialEq)]
/// enum Loss {
///     Mean,
///     Sum,
/// }
///
/// impl Choice for Loss {
///     const WORDS: &'static [&'static str] = &["mean", "sum"];
///     const VALUES: &'static [Loss] = &[Loss::Mean, Loss::Sum];
/// }
///
/// static KEYS: &[Key] = &[Key::new("loss", Kind::Choice(Loss::WORDS), Value::text("sum"), "reduction")];
/// let settings = Settings::defaults(KEYS, Family::Mnist);
/// assert_eq!(settings.choice::<Loss>("loss"), Loss::Sum);
/// ```
pub trait Choice: Copy + 'static {
    /// What users write.
    const WORDS: &'static [&'static str];
    /// What it stands for, in the same order.
    const VALUES: &'static [Self];
}

/// Declares an enum with a word for each variant, and implements [`Choice`] for it.
macro_rules! choices {
    ($(#[$meta:meta])* $vis:vis enum $name:ident {
        $($(#[$doc:meta])* $variant:ident = $word:literal,)+
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $vis enum $name {
            $($(#[$doc])* $variant,)+
        }

        impl $crate::settings::Choice for $name {
            const WORDS: &'static [&'static str] = &[$($word),+];
            const VALUES: &'static [$name] = &[$($name::$variant),+];
        }
    };
}

pub(crate) use choices;
