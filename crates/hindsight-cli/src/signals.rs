//! Signals that must not end the program. A blocked signal is never delivered, and threads that start later
//! inherit the mask.

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
