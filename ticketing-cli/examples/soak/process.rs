//! What this process takes of the system, as Linux tells.

use std::fs;
use std::io;

/// Resident memory in KiB.
pub(crate) fn resident_kib() -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB")).and_then(|text| text.parse().ok());
    number.ok_or_else(|| io::Error::other("/proc/self/status does not tell VmRSS"))
}

/// Open descriptors.
pub(crate) fn descriptors() -> io::Result<usize> {
    // One is that of the listing itself.
    Ok(fs::read_dir("/proc/self/fd")?.count() - 1)
}
