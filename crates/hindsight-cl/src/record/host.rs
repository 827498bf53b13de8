//! What is known about the machine and the moment of a run. What a system does not tell is absent.

use std::{
    fs,
    sync::OnceLock,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

/// The machine of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Operating system.
    pub os: String,
    /// Instruction set.
    pub arch: String,
    /// The processor's name, family and model, where the system tells them. Virtual ones of several
    /// generations share a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    /// Logical cores that the program may use.
    pub cores: usize,
}

impl Machine {
    /// The one that this program runs on.
    pub fn current() -> Machine {
        static CURRENT: OnceLock<Machine> = OnceLock::new();
        let find = || Machine {
            os: std::env::consts::OS.to_owned(),
            arch: std::env::consts::ARCH.to_owned(),
            cpu: fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| processor(&text)),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
        };
        CURRENT.get_or_init(find).clone()
    }
}

fn processor(text: &str) -> Option<String> {
    let name = field(text, "model name")?;
    Some(match (field(text, "cpu family"), field(text, "model")) {
        (Some(family), Some(model)) => format!("{name} (family {family}, model {model})"),
        _ => name,
    })
}

/// The most memory that this process has had in use so far, in bytes: `VmHWM` of Linux.
pub(super) fn peak_memory() -> Option<u64> {
    let kilobytes = field(&fs::read_to_string("/proc/self/status").ok()?, "VmHWM")?;
    Some(1024 * kilobytes.split(' ').next()?.parse::<u64>().ok()?)
}

/// Bytes that programs can still get without others being driven out: `MemAvailable` of Linux.
pub(crate) fn available_memory() -> Option<u64> {
    let kilobytes = field(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable")?;
    Some(1024 * kilobytes.split(' ').next()?.parse::<u64>().ok()?)
}

/// The value of the first line `name: value`.
fn field(text: &str, name: &str) -> Option<String> {
    let entries = text.lines().filter_map(|line| line.split_once(':'));
    entries.filter(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned()).next()
}

/// `time` as RFC 3339 in UTC, to the second.
pub(super) fn timestamp(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Years that begin in March put the leap day last: Hinnant, "chrono-compatible low-level date
    // algorithms".
    let day = days + 719_468;
    let (era, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z", era * 400 + year + next)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn timestamps_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_767_225_599, "2025-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(timestamp(UNIX_EPOCH + Duration::from_secs(seconds)), expected);
        }
    }

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "VmHWMs:\t1 kB\nVmHWM:\t  2048 kB\nmodel name\t: A: B\n";
        assert_eq!(field(text, "VmHWM").as_deref(), Some("2048 kB"));
        assert_eq!(field(text, "model name").as_deref(), Some("A: B"));
        assert_eq!(field(text, "model"), None);
        if cfg!(target_os = "linux") {
            assert!(peak_memory().unwrap() > 100_000);
        }
    }
}
