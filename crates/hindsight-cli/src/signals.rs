//! Signals that must not end the program, and those that have runs save themselves. A blocked signal is never
//! delivered, and threads that start later inherit the mask.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use crate::messages::tell;

/// Makes a write beyond the limit on the size of files (`ulimit -f`) fail with an error, like a full disk,
/// instead of ending the program.
pub(crate) fn block_file_size_signal() {
    #[cfg(target_os = "linux")]
    block(nix::sys::signal::Signal::SIGXFSZ);
}

/// Leaves SIGHUP ignored where `nohup` has set it so: the handler of `ctrlc` would replace that.
pub(crate) fn keep_ignored_hangup() {
    #[cfg(target_os = "linux")]
    {
        use nix::sys::signal::Signal::SIGHUP;
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
        if ignored >> (SIGHUP as u32 - 1) & 1 == 1 {
            block(SIGHUP);
        }
    }
}

#[cfg(target_os = "linux")]
fn block(signal: nix::sys::signal::Signal) {
    let mut set = nix::sys::signal::SigSet::empty();
    set.add(signal);
    // If this fails, the signal does what it does by default.
    let _ = set.thread_block();
}

/// The exit code of a program that Ctrl-C ended, as shells expect it.
pub(crate) const INTERRUPTED: u8 = 130;

/// A flag that the first SIGINT, SIGTERM or SIGHUP sets; with `twice`, the second ends the program at once.
pub(crate) fn on_interrupt(twice: bool) -> anyhow::Result<Arc<AtomicBool>> {
    keep_ignored_hangup();
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    ctrlc::set_handler(move || {
        if !flag.swap(true, Ordering::Relaxed) {
            tell(if twice {
                "saving checkpoints; press Ctrl-C again to stop at once"
            } else {
                "saving checkpoints"
            });
        } else if twice {
            std::process::exit(INTERRUPTED.into());
        }
    })?;
    Ok(stop)
}
